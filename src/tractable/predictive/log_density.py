"""The log density of rows that were given to a network, from networks that are densities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from tractable.predictive.base import Predictive


@dataclass(frozen=True)
class LogDensityPredictive(Predictive):
    """The log density of each row of the inputs; nothing else is known without the module.

    Args:
        log_density: log density of each row.
    """

    log_density: Tensor

    def log_prob(self, y: Tensor | None = None) -> Tensor:
        """The log density of the rows that were given as inputs, whatever ``y`` is."""
        return self.log_density

    @property
    def mean(self) -> Tensor:
        """The log density, as the output of the network."""
        return self.log_density.unsqueeze(-1)

    @property
    def variance(self) -> Tensor:
        """Of the log density: none."""
        return torch.zeros_like(self.mean)

    @property
    def epistemic(self) -> Tensor:
        """See ``variance``."""
        return self.variance

    @property
    def aleatoric(self) -> Tensor:
        """See ``variance``."""
        return self.variance

    def interval(self, level: float = 0.9) -> NoReturn:
        """There is none: the distribution is over rows, not over a number."""
        raise TypeError(_ASK)

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> NoReturn:
        """Rows are drawn by the model around the network."""
        raise TypeError(_ASK)


_ASK = (
    "a network that returns a distribution over rows is asked through its model: "
    "tractable.generative has predict().sample(n), and log_prob and novelty of rows"
)
