"""Predictions of every step of a sequence."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tractable.predictive.base import Predictive

NO_LABEL = -100
"""The label of a step that has none, as in torch."""


def is_observed(y: Tensor, *, partly: bool = False) -> Tensor:
    """Return which rows of targets are not missing.

    Args:
        y: targets, rows first.
        partly: whether a row of which some targets are missing counts as well.
    """
    missing = y.isnan() if y.is_floating_point() else y == NO_LABEL
    if y.ndim == 1:
        return ~missing
    missing = missing.flatten(1)
    return ~(missing.all(1) if partly else missing.any(1))


@dataclass(frozen=True)
class StepsPredictive(Predictive):
    """The prediction of each step of each row; ``part`` has all of them, one after the other.

    Args:
        part: the prediction of every step, as rows.
        steps: the steps of a row.
        novelty: how unlike the training rows each row is; see ``Predictive``.
    """

    part: Predictive
    steps: tuple[int, ...]
    novelty: Tensor | None = field(default=None, compare=False, repr=False)

    def _apart(self, values: Tensor, front: int = 0) -> Tensor:
        """Rows and steps in dimensions of their own, behind ``front`` others."""
        shape = values.shape
        return values.reshape(*shape[:front], -1, *self.steps, *shape[front + 1 :])

    @property
    def has_classes(self) -> bool:
        """Whether the targets are classes."""
        return self.part.has_classes

    @property
    def is_discrete(self) -> bool:
        """Whether the targets are whole numbers."""
        return self.part.is_discrete

    @property
    def mean(self) -> Tensor:
        """Of every step."""
        return self._apart(self.part.mean)

    @property
    def variance(self) -> Tensor:
        """Of every step."""
        return self._apart(self.part.variance)

    @property
    def epistemic(self) -> Tensor:
        """Of every step."""
        return self._apart(self.part.epistemic)

    @property
    def aleatoric(self) -> Tensor:
        """Of every step."""
        return self._apart(self.part.aleatoric)

    @property
    def probs(self) -> Tensor:
        """Of the classes, at every step."""
        return self._apart(self.part.probs)

    @property
    def labels(self) -> Tensor:
        """The most probable class at every step."""
        return self._apart(self.part.labels)

    @property
    def entropy(self) -> Tensor:
        """Of ``probs``, at every step."""
        return self._apart(self.part.entropy)

    @property
    def mode(self) -> Tensor:
        """Of every step by itself."""
        return self._apart(self.part.mode)

    def quantile(self, q: float) -> Tensor:
        """Of every step by itself."""
        return self._apart(self.part.quantile(q))

    @property
    def has_cdf(self) -> bool:
        """See ``Predictive``."""
        return self.part.has_cdf

    def cdf(self, y: Tensor) -> Tensor:
        """Of every step by itself."""
        return self._apart(self.part.cdf(torch.as_tensor(y).flatten(0, len(self.steps))))

    def step_log_prob(self, y: Tensor) -> Tensor:
        """Log density of every step; NaN where its target is missing."""
        flat = torch.as_tensor(y).flatten(0, len(self.steps))
        there = is_observed(flat)
        filled = flat.nan_to_num(0.0) if flat.is_floating_point() else flat.clamp_min(0)
        found = self.part.log_prob(filled)
        return self._apart(torch.where(there.to(found.device), found, torch.nan))

    def log_prob(self, y: Tensor) -> Tensor:
        """Sum over the steps of a row that are there."""
        return self.step_log_prob(y).flatten(1).nansum(1)

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Draws of every step by itself."""
        return self._apart(self.part.sample(n, generator), 1)

    def mixture_over_draws(self, draws: int) -> Predictive:
        """See ``Predictive``."""
        return StepsPredictive(self.part.mixture_over_draws(draws), self.steps, self.novelty)

    def double(self) -> StepsPredictive:
        """See ``Predictive``."""
        novelty = None if self.novelty is None else self.novelty.double()
        return StepsPredictive(self.part.double(), self.steps, novelty)
