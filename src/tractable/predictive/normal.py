"""A normal target."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from tractable.predictive.base import Predictive, match_shape
from tractable.predictive.normal_mixture import NormalMixturePredictive


@dataclass(frozen=True)
class NormalPredictive(Predictive):
    """A normal target: what the network is unsure of plus what the data hide.

    Args:
        loc: predicted means, ``[rows, ...]``.
        epistemic_variance: variance due to the weights and the inputs; more data reduces it.
        noise_variance: variance of the observation noise.
        novelty: how unlike the training rows each row is; see ``Predictive``.
    """

    loc: Tensor
    epistemic_variance: Tensor
    noise_variance: Tensor
    novelty: Tensor | None = field(default=None, compare=False, repr=False)

    @property
    def mean(self) -> Tensor:
        """Expected value of the target."""
        return self.loc

    @property
    def epistemic(self) -> Tensor:
        """Variance that comes from the weights and the inputs."""
        return self.epistemic_variance

    @property
    def aleatoric(self) -> Tensor:
        """Variance of the noise."""
        return self.noise_variance

    @property
    def variance(self) -> Tensor:
        """Epistemic plus aleatoric variance."""
        return self.epistemic_variance + self.noise_variance

    def log_prob(self, y: Tensor) -> Tensor:
        """Log density of each row, summed over the outputs of the row."""
        density = self.elementwise_log_prob(y)
        return density if density.ndim < 2 else density.flatten(1).sum(1)

    def elementwise_log_prob(self, y: Tensor) -> Tensor:
        """See ``Predictive``."""
        y, variance = match_shape(y, self.loc), self.variance
        return -0.5 * ((y - self.loc) ** 2 / variance + variance.log() + math.log(2 * math.pi))

    def cdf(self, y: Tensor) -> Tensor:
        """Normal distribution function."""
        return torch.special.ndtr((match_shape(y, self.loc) - self.loc) / self.std)

    @property
    def mode(self) -> Tensor:
        """The mean."""
        return self.loc

    def quantile(self, q: float) -> Tensor:
        """Normal quantile."""
        if not 0 < q < 1:
            raise ValueError(f"q must lie between 0 and 1, got {q}")
        score = torch.special.ndtri(torch.tensor(q, dtype=torch.float64)).item()
        return self.loc + score * self.std

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Draws of noisy targets."""
        shape = (n, *self.loc.shape)
        noise = torch.randn(
            shape, generator=generator, dtype=self.loc.dtype, device=self.loc.device
        )
        return self.loc + self.std * noise

    def squeezed(self) -> NormalPredictive:
        """One number per row instead of a column."""
        if self.loc.ndim != 2 or self.loc.shape[1] != 1:
            return self
        return NormalPredictive(
            self.loc.squeeze(1),
            self.epistemic_variance.squeeze(1),
            self.noise_variance.squeeze(1),
            self.novelty,
        )

    def double(self) -> NormalPredictive:
        """See ``Predictive``."""
        novelty = None if self.novelty is None else self.novelty.double()
        parts = (self.loc.double(), self.epistemic_variance.double(), self.noise_variance.double())
        return NormalPredictive(*parts, novelty)

    def rescaled(self, mean: Tensor | float, scale: Tensor | float) -> NormalPredictive:
        """The predictive of ``mean + scale * target``: back to the units of the data."""
        square = scale * scale
        return replace(
            self,
            loc=mean + scale * self.loc,
            epistemic_variance=self.epistemic_variance * square,
            noise_variance=self.noise_variance * square,
        )

    def with_noise_scaled(self, factors: Tensor) -> NormalPredictive:
        """See ``Predictive``."""
        return replace(self, noise_variance=self.noise_variance * factors)

    def with_noise_mixture(self, tails: Tensor) -> NormalMixturePredictive:
        """See ``Predictive``."""
        return replace(self.mixture_over_draws(1), novelty=self.novelty).with_noise_mixture(tails)

    def with_extra_variance(self, extra: Tensor) -> NormalPredictive:
        """See ``Predictive``."""
        return replace(self, epistemic_variance=self.epistemic_variance + extra)

    def mixture_over_draws(self, draws: int) -> NormalMixturePredictive:
        """See ``Predictive``."""
        parts = (self.loc, self.epistemic_variance, self.noise_variance)
        return NormalMixturePredictive(*(part.unflatten(0, (draws, -1)) for part in parts))
