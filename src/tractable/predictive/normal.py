"""Normal targets."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from typing_extensions import override

from tractable.predictive.base import Predictive, match_shape
from tractable.predictive.normal_mixture import NormalMixturePredictive
from tractable.predictive.root_finding import check_probability


@dataclass(frozen=True)
class NormalPredictive(Predictive):
    """Normal targets; the variance is that of the outputs plus that of the noise.

    Args:
        loc: predicted means, ``[rows, ...]``.
        epistemic_variance: variance due to the weights and the inputs; more data reduces it.
        noise_variance: variance of the observation noise.
        novelty: distance of each row to the training rows; see ``Predictive``.
    """

    loc: Tensor
    epistemic_variance: Tensor
    noise_variance: Tensor
    novelty: Tensor | None = field(default=None, compare=False, repr=False)

    @property
    def mean(self) -> Tensor:
        """``loc``."""
        return self.loc

    @property
    def epistemic(self) -> Tensor:
        """Variance due to the uncertainty of the weights: ``epistemic_variance``."""
        return self.epistemic_variance

    @property
    def aleatoric(self) -> Tensor:
        """Variance due to observation noise: ``noise_variance``."""
        return self.noise_variance

    @property
    def variance(self) -> Tensor:
        """Epistemic plus aleatoric variance."""
        return self.epistemic_variance + self.noise_variance

    def log_prob(self, y: Tensor) -> Tensor:
        """Return the log density of each row, summed over its targets."""
        density = self.elementwise_log_prob(y)
        return density if density.ndim < 2 else density.flatten(1).sum(1)

    @override
    def elementwise_log_prob(self, y: Tensor) -> Tensor:
        y, variance = match_shape(y, self.loc), self.variance
        return -0.5 * ((y - self.loc) ** 2 / variance + variance.log() + math.log(2 * math.pi))

    @override
    def cdf(self, y: Tensor) -> Tensor:
        return torch.special.ndtr((match_shape(y, self.loc) - self.loc) / self.std)

    @property
    def mode(self) -> Tensor:
        """The mean."""
        return self.loc

    @override
    def quantile(self, q: float) -> Tensor:
        check_probability(q)
        score = torch.special.ndtri(torch.tensor(q, dtype=torch.float64)).item()
        return self.loc + score * self.std

    @override
    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        shape = (n, *self.loc.shape)
        noise = torch.randn(
            shape, generator=generator, dtype=self.loc.dtype, device=self.loc.device
        )
        return self.loc + self.std * noise

    @override
    def squeezed(self) -> NormalPredictive:
        if self.loc.ndim != 2 or self.loc.shape[1] != 1:
            return self
        return NormalPredictive(
            self.loc.squeeze(1),
            self.epistemic_variance.squeeze(1),
            self.noise_variance.squeeze(1),
            self.novelty,
        )

    @override
    def rescaled(self, mean: Tensor | float, scale: Tensor | float) -> NormalPredictive:
        square = scale * scale
        return replace(
            self,
            loc=mean + scale * self.loc,
            epistemic_variance=self.epistemic_variance * square,
            noise_variance=self.noise_variance * square,
        )

    @override
    def with_noise_scaled(self, factors: Tensor) -> NormalPredictive:
        return replace(self, noise_variance=self.noise_variance * factors)

    @override
    def with_noise_mixture(self, tails: Tensor) -> NormalMixturePredictive:
        return replace(self.mixture_over_draws(1), novelty=self.novelty).with_noise_mixture(tails)

    @override
    def with_extra_variance(self, extra: Tensor) -> NormalPredictive:
        return replace(self, epistemic_variance=self.epistemic_variance + extra)

    @override
    def mixture_over_draws(self, n_samples: int) -> NormalMixturePredictive:
        parts = (self.loc, self.epistemic_variance, self.noise_variance)
        return NormalMixturePredictive(*(part.unflatten(0, (n_samples, -1)) for part in parts))
