"""The outlier gate: smaller weights of targets far from their predictions.

Under a normal likelihood the message of a target is proportional to its residual, so one residual
of a thousand standard deviations outweighs all others together.  With ``chi2 = e^2 / S`` of a
value, where S is the variance of its prediction, the messages of the value are multiplied by

    w = min(1, k^2 T / chi2)        k = 3.5 deviations

which is the score of a density that is Gaussian up to k deviations and falls like ``|e|^-(k^2)``
beyond.  The level T adapts to a lasting change of the data.  It is a running mean t of the clipped
``chi2``, so that one value widens its own gate to 4 standard deviations and ten in a row to 16:

    t <- max(1, t + (min(chi2, 4 t) / b - t) / 10)      b = E min(z^2, 4) of a standard normal z

for the values of a batch in turn; T is the largest t of the batch.
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
"""Number of outliers in the log."""


@dataclass(frozen=True)
class Outlier:
    """A target far from its prediction, which was down-weighted."""

    target: float
    mean: float
    """Mean of the prediction."""
    deviations: float
    """Distance between the two, in standard deviations of the prediction."""


@dataclass(frozen=True)
class OutlierReport:
    """The number of down-weighted targets so far, and the last few, newest first."""

    count: int
    last: tuple[Outlier, ...]


@dataclass(frozen=True)
class OutlierWeights:
    """The weights of a batch; nothing is changed until ``OutlierGate.take``."""

    weight: Tensor
    """Weight of each value, in double precision, in the shape of the values."""
    level: list[float]
    """Level of each noise after the batch."""
    gated: list[tuple[float, float, float]]
    """Target, mean and deviations of values with a weight below 1."""

    @property
    def all_trusted(self) -> bool:
        """Whether every target has full weight."""
        return not self.gated


class OutlierGate:
    """The level of errors for each noise, and a log of outliers, both changed in place.

    Args:
        noises: number of noises, one per output or one for all.
    """

    def __init__(self, noises: int) -> None:
        self.level = torch.ones(noises, dtype=torch.float64)
        # The total number, then target, mean and deviations of the last ones.
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
            mean: mean of the prediction, in the same shape.
            spread: variance of the prediction including noise, in double precision.
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
    """Return the level after some values, and the largest level; without calls, for speed."""
    top = 0.0
    for value in values:
        most = _CLIP * level
        level = level + ((most if most < value else value) / _MEAN - level) / _STEPS
        if not level > 1.0:
            level = 1.0
        if level > top:
            top = level
    return level, top
