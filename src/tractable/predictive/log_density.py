"""Predictions of networks that return the log density of their inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from tractable.predictive.base import Predictive


@dataclass(frozen=True)
class LogDensityPredictive(Predictive):
    """The log density of each row of the inputs; the distribution itself is in the network.

    Args:
        log_density: log density of each row.
    """

    log_density: Tensor

    def log_prob(self, y: Tensor | None = None) -> Tensor:
        """Return the log density of the rows that were given as inputs; ``y`` is ignored."""
        return self.log_density

    @property
    def mean(self) -> Tensor:
        """The log density as output of the network, ``[rows, 1]``."""
        return self.log_density.unsqueeze(-1)

    @property
    def variance(self) -> Tensor:
        """Zero."""
        return torch.zeros_like(self.mean)

    @property
    def epistemic(self) -> Tensor:
        """Zero."""
        return self.variance

    @property
    def aleatoric(self) -> Tensor:
        """Zero."""
        return self.variance

    def interval(self, level: float = 0.9) -> NoReturn:
        """Raise ``TypeError``: the distribution is over rows, not over a number."""
        raise TypeError(_ASK_THE_MODEL)

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> NoReturn:
        """Raise ``TypeError``: rows are sampled by the model around the network."""
        raise TypeError(_ASK_THE_MODEL)


_ASK_THE_MODEL = (
    "a network that returns a log density has no samples or intervals: use the model around it "
    "from tractable.generative, with predict().sample(n), log_prob and novelty of rows"
)
