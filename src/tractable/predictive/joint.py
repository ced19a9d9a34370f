"""Predictions of several targets of different kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from typing_extensions import override

from tractable.predictive.base import DelegatingPredictive, Predictive
from tractable.predictive.mixtures import general_mixture, mixture
from tractable.predictive.steps import is_observed


@dataclass(frozen=True)
class JointPredictive(DelegatingPredictive):
    """Predictions of several targets in columns; ``parts`` has each by itself.

    Moments, quantiles, modes and distribution functions are those of each target by itself; the
    mean of a class is its probabilities.

    Args:
        parts: the predictions.
        columns: number of targets of each.
        rows: the prediction of whole rows, if the targets of a row depend on each other because
            several weight samples or members of an ensemble are mixed.
        novelty: distance of each row to the training rows; see ``Predictive``.
    """

    parts: tuple[Predictive, ...]
    columns: tuple[int, ...]
    rows: Predictive | None = None
    novelty: Tensor | None = field(default=None, compare=False, repr=False)

    @override
    def each(self, ask: Callable[[Predictive], Tensor]) -> Tensor:
        found = [ask(part) for part in self.parts]
        return torch.cat([values.reshape(len(values), -1) for values in found], 1)

    def log_prob(self, y: Tensor) -> Tensor:
        """Return the sum over the parts whose targets are all observed; NaN counts as missing."""
        y = torch.as_tensor(y)
        if self.rows is not None:
            return self.rows.log_prob(y)
        total = torch.zeros(len(y), dtype=torch.float64, device=self.mean.device)
        for part, own in zip(self.parts, y.split(list(self.columns), 1), strict=True):
            observed = is_observed(own)
            found = part.log_prob(own.nan_to_num(0.0)).double()
            total = total + torch.where(observed.to(found.device), found, torch.zeros_like(found))
        return total.to(self.mean.dtype)

    @property
    @override
    def has_cdf(self) -> bool:
        return all(part.has_cdf for part in self.parts)

    @override
    def cdf(self, y: Tensor) -> Tensor:
        y = torch.as_tensor(y)
        found = [
            part.cdf(own).reshape(len(y), -1)
            for part, own in zip(self.parts, y.split(list(self.columns), 1), strict=True)
        ]
        return torch.cat(found, 1)

    @override
    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        if self.rows is not None:
            return self.rows.sample(n, generator)
        drawn = [part.sample(n, generator) for part in self.parts]
        return torch.cat([values.reshape(*values.shape[:2], -1) for values in drawn], 2)

    def mixture_over_draws(self, n_samples: int) -> Predictive:
        """Return the mixture of each target by itself, and of whole rows."""
        if n_samples == 1:
            return self
        parts = tuple(part.mixture_over_draws(n_samples) for part in self.parts)
        return JointPredictive(parts, self.columns, super().mixture_over_draws(n_samples))

    def mixture_with(self, others: Sequence[Predictive]) -> Predictive:
        """Return the mixture of each target by itself, and of whole rows."""
        joints = [self, *(part for part in others if isinstance(part, JointPredictive))]
        if len(joints) != 1 + len(others):
            return super().mixture_with(others)
        parts = tuple(
            mixture(list(own)) for own in zip(*(joint.parts for joint in joints), strict=True)
        )
        rows = general_mixture([joint if joint.rows is None else joint.rows for joint in joints])
        return JointPredictive(parts, self.columns, rows)
