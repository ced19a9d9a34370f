"""Even mixtures of normal targets."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from typing_extensions import override

from tractable.predictive import root_finding
from tractable.predictive.base import Predictive, match_shape

_MAX_STARTS = 32
"""Largest number of samples from which the search for the mode starts."""


@dataclass(frozen=True)
class NormalMixturePredictive(Predictive):
    """An even mixture of normal targets, one per weight sample or member of an ensemble.

    Args:
        means: mean predicted by each weight sample, ``[samples, rows, ...]``.
        epistemic_variance: epistemic variance within each sample; zero where a sample is one set
            of weights.
        noise_variance: variance of the observation noise in each sample.
        novelty: distance of each row to the training rows; see ``Predictive``.
        tails: factors on ``noise_variance``, equally likely at every row and output: the noise is
            a scale mixture of normals.  None for a normal noise.
    """

    means: Tensor
    epistemic_variance: Tensor
    noise_variance: Tensor
    novelty: Tensor | None = field(default=None, compare=False, repr=False)
    tails: Tensor | None = None

    @property
    def mean(self) -> Tensor:
        """Mean over the samples."""
        return self.means.mean(0)

    @property
    def epistemic(self) -> Tensor:
        """Variance between the samples, plus the mean epistemic variance within them."""
        return self.means.var(0, correction=0) + self.epistemic_variance.mean(0)

    @property
    def aleatoric(self) -> Tensor:
        """Mean variance of the noise."""
        noise = self.noise_variance.mean(0)
        return noise if self.tails is None else noise * self.tails.mean()

    @property
    def variance(self) -> Tensor:
        """Epistemic plus aleatoric: the law of total variance."""
        return self.epistemic + self.aleatoric

    def log_prob(self, y: Tensor) -> Tensor:
        """Return the log of the mean density of each row over the samples, eq. (20)."""
        y = match_shape(y, self.means[0])
        total = self._totals()
        density = -0.5 * ((y - self.means) ** 2 / total + total.log() + math.log(2 * math.pi))
        density = density.logsumexp(0) - math.log(len(density))  # over the tails of each output
        if density.ndim > 2:
            density = density.flatten(2).sum(2)
        return density.logsumexp(0) - math.log(len(density))

    def cdf(self, y: Tensor) -> Tensor:
        """Return the cumulative probability: the mean over the components."""
        std = self._totals().sqrt()
        return torch.special.ndtr((match_shape(y, self.means[0]) - self.means) / std).mean((0, 1))

    @property
    def mode(self) -> Tensor:
        """The most probable value near ``means``; one of them if a row has several targets."""
        few = self.means[:: max(len(self.means) // _MAX_STARTS, 1)].double()
        alone = few[0, 0].numel() == 1
        found = root_finding.climb(
            self.log_prob, few, self.std.double() / 4, is_discrete=False, alone=alone
        )
        return found.to(self.means.dtype)

    def quantile(self, q: float) -> Tensor:
        """Return the root of the distribution function, by Newton steps inside a bracket."""
        root_finding.check_probability(q)
        parts = self.components
        std = (parts.epistemic_variance + parts.noise_variance).sqrt()
        std, draws = std.clamp_min(torch.finfo(std.dtype).tiny), parts.means
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
        """Return samples: a weight sample (the same for all rows), then noise."""
        device = self.means.device
        which = torch.randint(len(self.means), (n,), generator=generator, device=device)
        within, noise = (
            self.epistemic_variance.expand_as(self.means)[which],
            self.noise_variance[which],
        )
        if self.tails is not None:
            shape, many = noise.shape, len(self.tails)
            noise = (
                noise * self.tails[torch.randint(many, shape, generator=generator, device=device)]
            )
        std = (within + noise).sqrt()
        scores = torch.randn(std.shape, generator=generator, dtype=std.dtype, device=device)
        return self.means[which] + std * scores

    @override
    def squeezed(self) -> NormalMixturePredictive:
        if self.means.ndim != 3 or self.means.shape[2] != 1:
            return self
        return replace(
            self,
            means=self.means.squeeze(2),
            epistemic_variance=self.epistemic_variance.squeeze(2),
            noise_variance=self.noise_variance.squeeze(2),
        )

    @override
    def rescaled(self, mean: Tensor | float, scale: Tensor | float) -> NormalMixturePredictive:
        square = scale * scale
        return replace(
            self,
            means=mean + scale * self.means,
            epistemic_variance=self.epistemic_variance * square,
            noise_variance=self.noise_variance * square,
        )

    @override
    def with_noise_scaled(self, factors: Tensor) -> NormalMixturePredictive:
        return replace(self, noise_variance=self.noise_variance * factors)

    @property
    def components(self) -> NormalMixturePredictive:
        """The same without ``tails``: each factor of the noise gives further samples."""
        if self.tails is None:
            return self
        many = (len(self.tails), *[1] * (self.means.ndim - 1))
        within = self.epistemic_variance.repeat(many)
        return replace(
            self,
            means=self.means.repeat(many),
            epistemic_variance=within,
            noise_variance=(self.noise_variance * self._factors()).flatten(0, 1),
            tails=None,
        )

    @override
    def with_noise_mixture(self, tails: Tensor) -> NormalMixturePredictive:
        return replace(self, tails=tails.to(self.noise_variance))

    def with_extra_variance(self, extra: Tensor) -> NormalMixturePredictive:
        """Add the variance to every sample."""
        return replace(self, epistemic_variance=self.epistemic_variance + extra)

    def _factors(self) -> Tensor:
        """Return the factors of the noise, in front of the samples."""
        ones = self.noise_variance.new_ones(1) if self.tails is None else self.tails
        return ones.reshape(-1, *[1] * self.noise_variance.ndim)

    def _totals(self) -> Tensor:
        """Return the variance of every normal: factors of the noise in front, then samples."""
        return self.epistemic_variance + self.noise_variance * self._factors()
