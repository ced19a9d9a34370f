"""The gate: what a reading far from all that was expected may say.

A normal likelihood believes every residual, and one of a thousand deviations more than all others
together.  With ``chi2 = e^2 / S`` of a value, where S is the variance it was predicted with, the
messages of the value are multiplied by

    w = min(1, k^2 T / chi2)        k = 3.5 deviations

which is the score of a density that is Gaussian up to k deviations and falls like ``|e|^-(k^2)``
from there on.  The level T lets a true change through: a running mean t of the ``chi2`` of the
values, each clipped, so that one alone moves its own gate to 4 deviations and ten in a row to 16:

    t <- max(1, t + (min(chi2, 4 t) / b - t) / 10)      b = E min(z^2, 4) of a standard normal z

for the values of a batch in turn; T is the largest t met in the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from tractable.likelihoods.outliers import OUTLIER_THRESHOLD

_CLIP = 4.0
_MEAN = 0.92
_STEPS = 10.0
KEPT = 8
"""Gated values that are remembered."""


@dataclass(frozen=True)
class Outlier:
    """A target far from its prediction, which was down-weighted."""

    target: float
    mean: float
    """What the network expected."""
    deviations: float
    """Between the two, in standard deviations of the prediction."""


@dataclass(frozen=True)
class OutlierReport:
    """The number of down-weighted targets so far, and the last few, newest first."""

    count: int
    last: tuple[Outlier, ...]


@dataclass(frozen=True)
class OutlierWeights:
    """The weights of a batch; nothing is changed until ``OutlierGate.take``."""

    weight: Tensor
    """Of each value, in double precision, in the shape of the values."""
    level: list[float]
    """After the batch."""
    gated: list[tuple[float, float, float]]
    """Target, mean and deviations of values with a weight below 1."""

    @property
    def all_trusted(self) -> bool:
        """Whether every target has full weight."""
        return not self.gated


class OutlierGate:
    """The usual size of errors per noise, and a log of outliers, both changed in place.

    Args:
        noises: how many noises there are, one per output or one for all.
    """

    def __init__(self, noises: int) -> None:
        self.level = torch.ones(noises, dtype=torch.float64)
        # How many in all, then the last ones as target, mean, deviations.
        self.log = torch.zeros(1 + 3 * KEPT, dtype=torch.float64)

    @cached_property
    def arrays(self) -> tuple[Any, Any]:
        """Levels and log as arrays that share memory with the tensors."""
        return self.level.numpy(), self.log.numpy()

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the arrays: a copy has its own memory."""
        return {"level": self.level, "log": self.log}

    def weigh(self, y: Tensor, mean: Tensor, spread: Tensor) -> OutlierWeights:
        """Return the weight of each target.

        Args:
            y: the values.
            mean: what was expected, in the same shape.
            spread: variance of the prediction, noise included, in double precision.
        """
        residual = y.double() - mean
        chi2 = residual * residual / spread
        levels, tops, clean = [], [], True
        for column, level in zip(self._columns(chi2), self.arrays[0].tolist(), strict=True):
            level, top = _followed(column, level)
            levels.append(level)
            tops.append(top)
            clean = clean and max(column, default=0.0) <= OUTLIER_THRESHOLD**2 * top
        if clean:  # as most batches are
            return OutlierWeights(torch.ones_like(chi2), levels, [])
        believed = OUTLIER_THRESHOLD**2 * torch.tensor(
            tops, dtype=torch.float64, device=chi2.device
        )
        weight = (believed / chi2.reshape(-1, len(tops))).clamp(max=1).reshape(chi2.shape)
        far = weight < 1
        gated = []
        if bool(far.any()):
            parts = (y[far].tolist(), mean[far].tolist(), chi2[far].sqrt().tolist())
            gated = list(zip(*parts, strict=True))
        return OutlierWeights(weight, levels, gated)

    def _columns(self, values: Tensor) -> list[list[float]]:
        """Return the targets of each noise."""
        noises = len(self.arrays[0])
        if noises == 1:
            return [values.flatten().tolist()]
        columns: list[list[float]] = values.reshape(-1, noises).T.tolist()
        return columns

    def take(self, verdict: OutlierWeights) -> None:
        """Store the changes of a batch that was learned."""
        self.arrays[0][:] = verdict.level
        for entry in verdict.gated:
            at = 1 + 3 * (int(self.log[0]) % KEPT)
            self.log[at : at + 3] = torch.tensor(entry, dtype=torch.float64)
            self.log[0] += 1

    def outliers(self) -> OutlierReport:
        """Return the outliers so far."""
        count = int(self.log[0])
        rows = self.log[1:].reshape(KEPT, 3).tolist()
        newest = [rows[(count - 1 - k) % KEPT] for k in range(min(count, KEPT))]
        return OutlierReport(count, tuple(Outlier(*row) for row in newest))


def _followed(values: list[float], level: float) -> tuple[float, float]:
    """The level after some values, and the largest met; without calls, for there may be many."""
    top = 0.0
    for value in values:
        most = _CLIP * level
        level = level + ((most if most < value else value) / _MEAN - level) / _STEPS
        if not level > 1.0:
            level = 1.0
        if level > top:
            top = level
    return level, top
