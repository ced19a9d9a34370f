"""Several normal targets with correlated noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from typing_extensions import override

from tractable.predictive.base import Predictive, match_shape
from tractable.predictive.mixtures import MixturePredictive
from tractable.predictive.normal import NormalPredictive


@dataclass(frozen=True)
class MultivariateNormalPredictive(NormalPredictive):
    """Normal targets with correlated noise.

    Args:
        covariance: covariance of the noise, for all rows or for each; its diagonal is
            ``noise_variance``.
    """

    covariance: Tensor = field(default_factory=lambda: torch.zeros(0, 0))

    def log_prob(self, y: Tensor) -> Tensor:
        """Return the log density of each row."""
        return log_normal_density(
            match_shape(y, self.loc), self.loc, self.epistemic_variance, self.covariance
        )

    @override
    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        total = torch.diag_embed(self.epistemic_variance.double()) + self.covariance
        shape = (n, *self.loc.shape)
        noise = torch.randn(shape, generator=generator, dtype=torch.float64).to(total.device)
        drawn = (torch.linalg.cholesky(total) @ noise.unsqueeze(-1)).squeeze(-1)
        return self.loc + drawn.to(self.loc.dtype)

    def squeezed(self) -> MultivariateNormalPredictive:
        """Return the prediction itself: there are several targets."""
        return self

    @override
    def rescaled(self, mean: Tensor | float, scale: Tensor | float) -> MultivariateNormalPredictive:
        size = torch.as_tensor(scale, dtype=torch.float64).expand(self.covariance.shape[-1])
        square = scale * scale
        return replace(
            self,
            loc=mean + scale * self.loc,
            epistemic_variance=self.epistemic_variance * square,
            noise_variance=self.noise_variance * square,
            covariance=self.covariance * torch.outer(size, size).to(self.covariance),
        )

    def with_noise_scaled(self, factors: Tensor) -> MultivariateNormalPredictive:
        """Scale the noise; its correlations stay the same."""
        root = factors.to(self.covariance).expand(self.loc.shape).sqrt()
        covariance = self.covariance * root.unsqueeze(-1) * root.unsqueeze(-2)
        return replace(self, noise_variance=self.noise_variance * factors, covariance=covariance)

    def with_noise_mixture(self, tails: Tensor) -> MixturePredictive:  # type: ignore[override]
        """Return a mixture in which the targets of a row share a factor: correlations stay."""
        parts = tuple(
            self.with_noise_scaled(factor.expand_as(self.noise_variance))
            for factor in tails.to(self.noise_variance)
        )
        weights = self.loc.new_full((len(parts), len(self.loc)), 1 / len(parts))
        draws = (1,) * len(parts)
        return MixturePredictive(parts, draws, weights, self.epistemic_variance, self.novelty)

    @override
    def mixture_over_draws(self, n_samples: int) -> Predictive:  # type: ignore[override]
        return self if n_samples == 1 else MixturePredictive((self,), (n_samples,))


def log_normal_density(y: Tensor, mean: Tensor, variance: Tensor, covariance: Tensor) -> Tensor:
    """Return ``log N(y; mean, diag(variance) + covariance)`` of each row."""
    total = torch.diag_embed(variance.double()) + covariance
    factor = torch.linalg.cholesky(total)
    e = (y - mean).double().unsqueeze(-1)
    white = torch.linalg.solve_triangular(factor, e, upper=False).squeeze(-1)
    log_root = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    size = 0.5 * y.shape[-1] * math.log(2 * math.pi)
    return (-0.5 * (white * white).sum(-1) - log_root - size).to(mean.dtype)
