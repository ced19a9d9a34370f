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
    """

    draws: Tensor
    within: Tensor
    noise: Tensor
    novelty: Tensor | None = field(default=None, compare=False, repr=False)

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
        return self.noise.mean(0)

    @property
    def variance(self) -> Tensor:
        """Epistemic plus aleatoric: the law of total variance."""
        return self.epistemic + self.aleatoric

    def log_prob(self, y: Tensor) -> Tensor:
        """Log of the mean over draws of the density of each row, eq. (20)."""
        y = like(y, self.draws[0])
        total = self.within + self.noise
        density = -0.5 * ((y - self.draws) ** 2 / total + total.log() + math.log(2 * math.pi))
        if density.ndim > 2:
            density = density.flatten(2).sum(2)
        return density.logsumexp(0) - math.log(len(density))

    def cdf(self, y: Tensor) -> Tensor:
        """Mean of the normal distribution functions."""
        std = (self.within + self.noise).sqrt()
        return torch.special.ndtr((like(y, self.draws[0]) - self.draws) / std).mean(0)

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
        std = (self.within + self.noise).sqrt().clamp_min(torch.finfo(self.draws.dtype).tiny)
        score = torch.special.ndtri(torch.tensor(q, dtype=torch.float64)).item()
        parts = self.draws + score * std
        low, high = parts.amin(0), parts.amax(0)  # the mixture's quantile lies among its parts'
        at = parts.mean(0)
        tolerance = 4 * torch.finfo(at.dtype).eps
        for _ in range(100):
            t = (at - self.draws) / std
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
        std = (self.within + self.noise).sqrt()[which]
        noise = torch.randn(std.shape, generator=generator, dtype=std.dtype, device=device)
        return self.draws[which] + std * noise

    def flat(self) -> NormalMixturePredictive:
        """One number per row instead of a column."""
        if self.draws.ndim != 3 or self.draws.shape[2] != 1:
            return self
        return NormalMixturePredictive(
            self.draws.squeeze(2), self.within.squeeze(2), self.noise.squeeze(2), self.novelty
        )

    def double(self) -> NormalMixturePredictive:
        """See ``Predictive``."""
        novelty = None if self.novelty is None else self.novelty.double()
        parts = (self.draws.double(), self.within.double(), self.noise.double())
        return NormalMixturePredictive(*parts, novelty)

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

    def widened(self, extra: Tensor) -> NormalMixturePredictive:
        """See ``Predictive``; every draw is as unsure."""
        return replace(self, within=self.within + extra)
