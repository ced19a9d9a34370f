"""A normal target."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from tractable.predictive.base import Predictive
from tractable.predictive.normal_mixture import NormalMixturePredictive
from tractable.predictive.shapes import like


@dataclass(frozen=True)
class NormalPredictive(Predictive):
    """A normal target: what the network is unsure of plus what the data hide.

    Args:
        location: predicted means, one row per input.
        within: variance that more data would remove (from the weights and the inputs).
        noise: variance of the observation noise.
        novelty: how unlike the training rows each row is; see ``Predictive``.
    """

    location: Tensor
    within: Tensor
    noise: Tensor
    novelty: Tensor | None = field(default=None, compare=False, repr=False)

    @property
    def mean(self) -> Tensor:
        """Expected value of the target."""
        return self.location

    @property
    def epistemic(self) -> Tensor:
        """Variance that comes from the weights and the inputs."""
        return self.within

    @property
    def aleatoric(self) -> Tensor:
        """Variance of the noise."""
        return self.noise

    @property
    def variance(self) -> Tensor:
        """Epistemic plus aleatoric variance."""
        return self.within + self.noise

    def log_prob(self, y: Tensor) -> Tensor:
        """Log density of each row, summed over the outputs of the row."""
        density = self.log_prob_of_each(y)
        return density if density.ndim < 2 else density.flatten(1).sum(1)

    def log_prob_of_each(self, y: Tensor) -> Tensor:
        """See ``Predictive``."""
        y, variance = like(y, self.location), self.variance
        return -0.5 * ((y - self.location) ** 2 / variance + variance.log() + math.log(2 * math.pi))

    def cdf(self, y: Tensor) -> Tensor:
        """Normal distribution function."""
        return torch.special.ndtr((like(y, self.location) - self.location) / self.std)

    @property
    def mode(self) -> Tensor:
        """The mean."""
        return self.location

    def quantile(self, q: float) -> Tensor:
        """Normal quantile."""
        if not 0 < q < 1:
            raise ValueError(f"q must lie between 0 and 1, got {q}")
        score = torch.special.ndtri(torch.tensor(q, dtype=torch.float64)).item()
        return self.location + score * self.std

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Draws of noisy targets."""
        shape = (n, *self.location.shape)
        noise = torch.randn(
            shape, generator=generator, dtype=self.location.dtype, device=self.location.device
        )
        return self.location + self.std * noise

    def flat(self) -> NormalPredictive:
        """One number per row instead of a column."""
        if self.location.ndim != 2 or self.location.shape[1] != 1:
            return self
        return NormalPredictive(
            self.location.squeeze(1), self.within.squeeze(1), self.noise.squeeze(1), self.novelty
        )

    def double(self) -> NormalPredictive:
        """See ``Predictive``."""
        novelty = None if self.novelty is None else self.novelty.double()
        parts = (self.location.double(), self.within.double(), self.noise.double())
        return NormalPredictive(*parts, novelty)

    def rescaled(self, mean: Tensor | float, scale: Tensor | float) -> NormalPredictive:
        """The predictive of ``mean + scale * target``: back to the units of the data."""
        square = scale * scale
        return replace(
            self,
            location=mean + scale * self.location,
            within=self.within * square,
            noise=self.noise * square,
        )

    def noisier(self, factors: Tensor) -> NormalPredictive:
        """See ``Predictive``."""
        return replace(self, noise=self.noise * factors)

    def tailed(self, tails: Tensor) -> NormalMixturePredictive:
        """See ``Predictive``."""
        return replace(self.pooled(1), novelty=self.novelty).tailed(tails)

    def widened(self, extra: Tensor) -> NormalPredictive:
        """See ``Predictive``."""
        return replace(self, within=self.within + extra)

    def pooled(self, draws: int) -> NormalMixturePredictive:
        """See ``Predictive``."""
        parts = (self.location, self.within, self.noise)
        return NormalMixturePredictive(*(part.unflatten(0, (draws, -1)) for part in parts))
