"""An even mixture of normal targets."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from tractable.predictive import search
from tractable.predictive.base import Predictive
from tractable.predictive.shapes import like

_STARTS = 32
"""Draws that are tried as the mode, at most."""


@dataclass(frozen=True)
class NormalMixturePredictive(Predictive):
    """An even mixture of normals, one per draw of the weights (or per member of an ensemble).

    Args:
        draws: the mean that each draw predicts, draws stacked in front of the rows.
        within: variance that a draw itself is unsure of; zero when a draw is one set of weights.
        noise: variance of the observation noise in each draw.
        novelty: how unlike the training rows each row is; see ``Predictive``.
        tails: factors on ``noise``, each as likely as the others at every row and output: a noise
            that is not normal but a scale mixture of normals.  None for 1 everywhere.
    """

    draws: Tensor
    within: Tensor
    noise: Tensor
    novelty: Tensor | None = field(default=None, compare=False, repr=False)
    tails: Tensor | None = None

    @property
    def mean(self) -> Tensor:
        """Mean over the draws."""
        return self.draws.mean(0)

    @property
    def epistemic(self) -> Tensor:
        """Variance between the draws, plus what they are unsure of themselves."""
        return self.draws.var(0, correction=0) + self.within.mean(0)

    @property
    def aleatoric(self) -> Tensor:
        """Mean variance of the noise."""
        noise = self.noise.mean(0)
        return noise if self.tails is None else noise * self.tails.mean()

    @property
    def variance(self) -> Tensor:
        """Epistemic plus aleatoric: the law of total variance."""
        return self.epistemic + self.aleatoric

    def log_prob(self, y: Tensor) -> Tensor:
        """Log of the mean over draws of the density of each row, eq. (20)."""
        y = like(y, self.draws[0])
        total = self._totals()
        density = -0.5 * ((y - self.draws) ** 2 / total + total.log() + math.log(2 * math.pi))
        density = density.logsumexp(0) - math.log(len(density))  # over the tails of each output
        if density.ndim > 2:
            density = density.flatten(2).sum(2)
        return density.logsumexp(0) - math.log(len(density))

    def cdf(self, y: Tensor) -> Tensor:
        """Mean of the normal distribution functions."""
        std = self._totals().sqrt()
        return torch.special.ndtr((like(y, self.draws[0]) - self.draws) / std).mean((0, 1))

    @property
    def mode(self) -> Tensor:
        """The most probable value near the draws; one of them, where a row has several outputs."""
        few = self.draws[:: max(len(self.draws) // _STARTS, 1)].double()
        alone = few[0, 0].numel() == 1
        found = search.climb(self.log_prob, few, self.std.double() / 4, whole=False, alone=alone)
        return found.to(self.draws.dtype)

    def quantile(self, q: float) -> Tensor:
        """The root of the mixture's distribution function, by Newton steps inside a bracket."""
        if not 0 < q < 1:
            raise ValueError(f"q must lie between 0 and 1, got {q}")
        parts = self.components
        std = (parts.within + parts.noise).sqrt()
        std, draws = std.clamp_min(torch.finfo(std.dtype).tiny), parts.draws
        score = torch.special.ndtri(torch.tensor(q, dtype=torch.float64)).item()
        own = draws + score * std
        low, high = own.amin(0), own.amax(0)  # the mixture's quantile lies among its parts'
        at = own.mean(0)
        tolerance = 4 * torch.finfo(at.dtype).eps
        for _ in range(100):
            t = (at - draws) / std
            miss = torch.special.ndtr(t).mean(0) - q
            density = ((-0.5 * t * t).exp() / std).mean(0) / math.sqrt(2 * math.pi)
            low, high = torch.where(miss < 0, at, low), torch.where(miss < 0, high, at)
            newton = at - miss / density
            inside = (newton >= low) & (newton <= high)
            step = torch.where(inside, newton, (low + high) / 2)
            done = ((step - at).abs() <= tolerance * (at.abs() + high - low)) | (miss == 0)
            at = step
            if bool(done.all()):
                break
        return at

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Draws of noisy targets: first a set of weights (the same for all rows), then noise."""
        device = self.draws.device
        which = torch.randint(len(self.draws), (n,), generator=generator, device=device)
        within, noise = self.within.expand_as(self.draws)[which], self.noise[which]
        if self.tails is not None:
            shape, many = noise.shape, len(self.tails)
            noise = (
                noise * self.tails[torch.randint(many, shape, generator=generator, device=device)]
            )
        std = (within + noise).sqrt()
        scores = torch.randn(std.shape, generator=generator, dtype=std.dtype, device=device)
        return self.draws[which] + std * scores

    def flat(self) -> NormalMixturePredictive:
        """One number per row instead of a column."""
        if self.draws.ndim != 3 or self.draws.shape[2] != 1:
            return self
        return replace(
            self,
            draws=self.draws.squeeze(2),
            within=self.within.squeeze(2),
            noise=self.noise.squeeze(2),
        )

    def double(self) -> NormalMixturePredictive:
        """See ``Predictive``."""
        novelty = None if self.novelty is None else self.novelty.double()
        tails = None if self.tails is None else self.tails.double()
        parts = (self.draws.double(), self.within.double(), self.noise.double())
        return NormalMixturePredictive(*parts, novelty, tails)

    def rescaled(self, mean: Tensor | float, scale: Tensor | float) -> NormalMixturePredictive:
        """The predictive of ``mean + scale * target``: back to the units of the data."""
        square = scale * scale
        return replace(
            self,
            draws=mean + scale * self.draws,
            within=self.within * square,
            noise=self.noise * square,
        )

    def noisier(self, factors: Tensor) -> NormalMixturePredictive:
        """See ``Predictive``."""
        return replace(self, noise=self.noise * factors)

    @property
    def components(self) -> NormalMixturePredictive:
        """The same as a mixture of normals only, each factor of the noise a draw of its own."""
        if self.tails is None:
            return self
        many = (len(self.tails), *[1] * (self.draws.ndim - 1))
        within = self.within.repeat(many)
        return replace(
            self,
            draws=self.draws.repeat(many),
            within=within,
            noise=(self.noise * self._factors()).flatten(0, 1),
            tails=None,
        )

    def tailed(self, tails: Tensor) -> NormalMixturePredictive:
        """See ``Predictive``."""
        return replace(self, tails=tails.to(self.noise))

    def widened(self, extra: Tensor) -> NormalMixturePredictive:
        """See ``Predictive``; every draw is as unsure."""
        return replace(self, within=self.within + extra)

    def _factors(self) -> Tensor:
        """Factors of the noise, in front of the draws."""
        ones = self.noise.new_ones(1) if self.tails is None else self.tails
        return ones.reshape(-1, *[1] * self.noise.ndim)

    def _totals(self) -> Tensor:
        """Variance of every normal: factors of the noise in front, then draws."""
        return self.within + self.noise * self._factors()
