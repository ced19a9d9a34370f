"""Predictions of every step of a sequence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from typing_extensions import override

from tractable.predictive.base import DelegatingPredictive, Predictive

NO_LABEL = -100
"""Label of a missing step, as in ``torch.nn.CrossEntropyLoss``."""


def is_observed(y: Tensor, *, partly: bool = False) -> Tensor:
    """Return which rows of targets are not missing, ``[rows]``.

    Args:
        y: targets, ``[rows, ...]``.
        partly: whether a row of which only some targets are missing counts as observed.
    """
    missing = y.isnan() if y.is_floating_point() else y == NO_LABEL
    if y.ndim == 1:
        return ~missing
    missing = missing.flatten(1)
    return ~(missing.all(1) if partly else missing.any(1))


@dataclass(frozen=True)
class StepsPredictive(DelegatingPredictive):
    """The prediction of each step of each row; tensors are ``[rows, *steps, ...]``.

    Args:
        part: the prediction of every step, as rows one after the other.
        steps: shape of the steps of a row.
        novelty: distance of each row to the training rows; see ``Predictive``.
    """

    part: Predictive
    steps: tuple[int, ...]
    novelty: Tensor | None = field(default=None, compare=False, repr=False)

    def _apart(self, values: Tensor, front: int = 0) -> Tensor:
        """Return values with dimensions for rows and steps, after ``front`` others."""
        shape = values.shape
        return values.reshape(*shape[:front], -1, *self.steps, *shape[front + 1 :])

    @override
    def each(self, ask: Callable[[Predictive], Tensor]) -> Tensor:
        return self._apart(ask(self.part))

    @property
    @override
    def has_classes(self) -> bool:
        return self.part.has_classes

    @property
    @override
    def is_discrete(self) -> bool:
        return self.part.is_discrete

    @property
    @override
    def probs(self) -> Tensor:
        return self.each(lambda part: part.probs)

    @property
    @override
    def labels(self) -> Tensor:
        return self.each(lambda part: part.labels)

    @property
    @override
    def entropy(self) -> Tensor:
        return self.each(lambda part: part.entropy)

    @property
    @override
    def has_cdf(self) -> bool:
        return self.part.has_cdf

    @override
    def cdf(self, y: Tensor) -> Tensor:
        return self._apart(self.part.cdf(torch.as_tensor(y).flatten(0, len(self.steps))))

    def step_log_prob(self, y: Tensor) -> Tensor:
        """Return the log density of every step, ``[rows, *steps]``; NaN for missing targets."""
        flat = torch.as_tensor(y).flatten(0, len(self.steps))
        observed = is_observed(flat)
        filled = flat.nan_to_num(0.0) if flat.is_floating_point() else flat.clamp_min(0)
        found = self.part.log_prob(filled)
        return self._apart(torch.where(observed.to(found.device), found, torch.nan))

    def log_prob(self, y: Tensor) -> Tensor:
        """Return the sum over the observed steps of each row."""
        return self.step_log_prob(y).flatten(1).nansum(1)

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Return samples; steps are independent given the outputs."""
        return self._apart(self.part.sample(n, generator), 1)

    @override
    def mixture_over_draws(self, n_samples: int) -> Predictive:
        return StepsPredictive(self.part.mixture_over_draws(n_samples), self.steps, self.novelty)
