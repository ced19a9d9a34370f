"""A normal noise learnt by online EM, for the components of a mixture."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tractable.likelihoods.online_em import OnlineScale
from tractable.predictive import NormalPredictive

_LEAST_VARIANCE = 1e-6


class OnlineNormal(OnlineScale):
    """``y ~ N(z, noise)``, whose noise variance is the mean squared residual of the rows it has.

    ``likelihoods.Normal`` infers the noise with a variance of its own, but takes all rows alike.

    Args:
        sigma: standard deviation of the noise; None learns it.
        outputs: number of targets in a row.
    """

    def __init__(self, sigma: float | None = None, outputs: int = 1) -> None:
        super().__init__(None if sigma is None else sigma**2, outputs, 1.0, "sigma")
        self.sigma = sigma

    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        """See ``Likelihood``."""
        return self.log_evidence(y, z, torch.zeros_like(z))

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """``log N(y; mean, variance + noise)``."""
        total = variance + self.parameter.to(mean.dtype)
        density = -0.5 * ((y - mean) ** 2 / total + total.log() + math.log(2 * math.pi))
        return density.flatten(1).sum(1)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """``(y - mean) / S`` and ``-1 / S`` with ``S = variance + noise``."""
        precision = 1 / (variance + self.parameter.to(mean.dtype))
        return (y - mean) * precision, -precision

    def expected_statistic(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """``E[(y - z)^2]``."""
        share = self.parameter / (variance + self.parameter)
        return (share * (y - mean)) ** 2 + share * variance

    def parameter_from_statistic(self, statistic: Tensor) -> Tensor:
        """The mean squared residual, above a floor: a component must not collapse on one row."""
        return statistic.clamp_min(_LEAST_VARIANCE)

    def statistic_from_parameter(self, parameter: Tensor) -> Tensor:
        """The variance itself."""
        return parameter

    def rescale(self, scale: float) -> None:
        """See ``Likelihood``; the parameter is the variance itself."""
        self.set_parameter(self.parameter * scale)

    def predictive(self, mean: Tensor, variance: Tensor) -> NormalPredictive:
        """See ``Likelihood``."""
        return NormalPredictive(mean, variance, self.parameter.to(mean.dtype).expand_as(mean))

    def config(self) -> dict[str, Any]:
        """See ``Likelihood``."""
        return {"sigma": self.sigma, "outputs": self.outputs}
