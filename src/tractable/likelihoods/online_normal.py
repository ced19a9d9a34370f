"""A normal noise that is learned by online EM, for the components of a mixture."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, distributions
from typing_extensions import override

from tractable.likelihoods.online_em import OnlineScale
from tractable.predictive import NormalPredictive

_MIN_VARIANCE = 1e-6


class OnlineNormal(OnlineScale):
    """``y ~ N(z, noise)``; the noise variance is the mean squared residual of its rows.

    ``likelihoods.Normal`` infers the noise together with its uncertainty, but gives all rows the
    same weight; the rows of a mixture component have responsibilities.

    Args:
        sigma: standard deviation of the noise.  Default: learned.
        outputs: number of targets per row.
    """

    def __init__(self, sigma: float | None = None, outputs: int = 1) -> None:
        super().__init__(None if sigma is None else sigma**2, outputs, 1.0, "sigma")
        self.sigma = sigma

    @property
    def noise(self) -> dict[str, Tensor]:
        """Standard deviation ``sigma`` of each output."""
        return {"sigma": self.parameter.sqrt()}

    @override
    def conditional(self, z: Tensor) -> distributions.Normal:
        std = self.parameter.sqrt().to(z.dtype).expand_as(z)
        return distributions.Normal(z, std, validate_args=False)

    @override
    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        return self.log_evidence(y, z, torch.zeros_like(z))

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return ``log N(y; mean, variance + noise)``."""
        total = variance + self.parameter.to(mean.dtype)
        density = -0.5 * ((y - mean) ** 2 / total + total.log() + math.log(2 * math.pi))
        return density.flatten(1).sum(1)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``(y - mean) / S`` and ``-1 / S`` with ``S = variance + noise``."""
        precision = 1 / (variance + self.parameter.to(mean.dtype))
        return (y - mean) * precision, -precision

    def expected_statistic(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return ``E[(y - z)^2]``."""
        share = self.parameter / (variance + self.parameter)
        return (share * (y - mean)) ** 2 + share * variance

    def parameter_from_statistic(self, statistic: Tensor) -> Tensor:
        """Return the mean squared residual, above a floor."""
        # A component must not collapse on one row.
        return statistic.clamp_min(_MIN_VARIANCE)

    def statistic_from_parameter(self, parameter: Tensor) -> Tensor:
        """Return the variance itself."""
        return parameter

    def rescale(self, scale: float) -> None:
        """Multiply the parameter, which is the noise variance."""
        self.set_parameter(self.parameter * scale)

    @override
    def predictive(self, mean: Tensor, variance: Tensor) -> NormalPredictive:
        return NormalPredictive(mean, variance, self.parameter.to(mean.dtype).expand_as(mean))

    @override
    def config(self) -> dict[str, Any]:
        return {"sigma": self.sigma, "outputs": self.outputs}
