"""Predictions of several targets of different kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tractable.predictive.base import Predictive
from tractable.predictive.mixtures import general_mixture, mixture
from tractable.predictive.steps import is_observed


@dataclass(frozen=True)
class JointPredictive(Predictive):
    """Predictions of several targets, side by side; ``parts`` has each by itself.

    Args:
        parts: the predictions.
        columns: how many targets each has.
        rows: the prediction of whole rows, where the targets of a row depend on each other because
            several draws of the weights or several members are mixed.
        novelty: how unlike the training rows each row is; see ``Predictive``.
    """

    parts: tuple[Predictive, ...]
    columns: tuple[int, ...]
    rows: Predictive | None = None
    novelty: Tensor | None = field(default=None, compare=False, repr=False)

    def beside(self, look: Callable[[Predictive], Tensor]) -> Tensor:
        """What each part says, in columns of its own."""
        found = [look(part) for part in self.parts]
        return torch.cat([values.reshape(len(values), -1) for values in found], 1)

    @property
    def mean(self) -> Tensor:
        """Means of all targets (of classes, the probabilities)."""
        return self.beside(lambda part: part.mean)

    @property
    def variance(self) -> Tensor:
        """Variances of all targets."""
        return self.beside(lambda part: part.variance)

    @property
    def epistemic(self) -> Tensor:
        """What more data would remove, target by target."""
        return self.beside(lambda part: part.epistemic)

    @property
    def aleatoric(self) -> Tensor:
        """What the data hide, target by target."""
        return self.beside(lambda part: part.aleatoric)

    def log_prob(self, y: Tensor) -> Tensor:
        """Sum over the parts of which a row has all targets; one with a NaN counts for nothing."""
        y = torch.as_tensor(y)
        if self.rows is not None:
            return self.rows.log_prob(y)
        total = torch.zeros(len(y), dtype=torch.float64, device=self.mean.device)
        for part, own in zip(self.parts, y.split(list(self.columns), 1), strict=True):
            there = is_observed(own)
            found = part.log_prob(own.nan_to_num(0.0)).double()
            total = total + torch.where(there.to(found.device), found, torch.zeros_like(found))
        return total.to(self.mean.dtype)

    @property
    def has_cdf(self) -> bool:
        """See ``Predictive``."""
        return all(part.has_cdf for part in self.parts)

    def cdf(self, y: Tensor) -> Tensor:
        """Of each target by itself."""
        y = torch.as_tensor(y)
        found = [
            part.cdf(own).reshape(len(y), -1)
            for part, own in zip(self.parts, y.split(list(self.columns), 1), strict=True)
        ]
        return torch.cat(found, 1)

    def quantile(self, q: float) -> Tensor:
        """Of each target by itself."""
        return self.beside(lambda part: part.quantile(q))

    @property
    def mode(self) -> Tensor:
        """Of each target by itself."""
        return self.beside(lambda part: part.mode)

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Draws of all targets."""
        if self.rows is not None:
            return self.rows.sample(n, generator)
        drawn = [part.sample(n, generator) for part in self.parts]
        return torch.cat([values.reshape(*values.shape[:2], -1) for values in drawn], 2)

    def double(self) -> JointPredictive:
        """See ``Predictive``."""
        novelty = None if self.novelty is None else self.novelty.double()
        rows = None if self.rows is None else self.rows.double()
        parts = tuple(part.double() for part in self.parts)
        return JointPredictive(parts, self.columns, rows, novelty)

    def mixture_over_draws(self, draws: int) -> Predictive:
        """See ``Predictive``; each target is mixed by itself, and so are whole rows."""
        if draws == 1:
            return self
        parts = tuple(part.mixture_over_draws(draws) for part in self.parts)
        return JointPredictive(parts, self.columns, super().mixture_over_draws(draws))

    def mixture_with(self, others: Sequence[Predictive]) -> Predictive:
        """See ``Predictive``; each target is mixed by itself, and so are whole rows."""
        joints = [self, *(part for part in others if isinstance(part, JointPredictive))]
        if len(joints) != 1 + len(others):
            return super().mixture_with(others)
        parts = tuple(
            mixture(list(own)) for own in zip(*(joint.parts for joint in joints), strict=True)
        )
        rows = general_mixture([joint if joint.rows is None else joint.rows for joint in joints])
        return JointPredictive(parts, self.columns, rows)
