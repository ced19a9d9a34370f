"""How surprising values are, given their past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tractable.forecast import rolling, units
from tractable.forecast.panel import Panel
from tractable.forecast.state import State

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Anomalies:
    """A score of each value, from the forecast that was made one step before it.

    Arrays are ``[times]``, or ``[times, series]``; NaN where a value is missing, or has no window
    before it.

    Attributes:
        times: the time stamps.
        values: as they came.
        expected: the median of what was forecast.
        deviations: between the two, in standard deviations of the forecast.
        surprise: minus the log density of the value, in the units of the data.
        probability: how likely a value at least as far off was.
    """

    times: npt.NDArray[Any]
    values: Array
    expected: Array
    deviations: Array
    surprise: Array
    probability: Array

    @classmethod
    def of(cls, state: State, panel: Panel, seen: int) -> Anomalies:
        """Of all values of a panel that have a window before them."""
        mean, variance = np.full_like(panel.values, np.nan), np.full_like(panel.values, np.nan)
        for origins, m, v in rolling.one_step(state, panel, seen):
            mean[origins + 1], variance[origins + 1] = m, v
        own, scaled = state.units, state.units.scaled(panel.values)
        z = (scaled - mean) / np.sqrt(variance)
        density = -0.5 * (z**2 + np.log(2 * np.pi * variance)) - np.log(own.scale)
        density = density + units.log_slope(own.transform, panel.values)
        tail = 2 * torch.special.ndtr(-torch.from_numpy(np.abs(z))).numpy()
        expected = units.backward(own.transform, mean * own.scale + own.mean)
        arrays = (panel.values, expected, z, -density, tail)
        parts = [array[:, 0] if panel.alone else array for array in arrays]
        return cls(panel.stamps, *parts)

    def above(self, deviations: float = 4.0) -> npt.NDArray[Any]:
        """Places of values that were missed by more than so many deviations."""
        with np.errstate(invalid="ignore"):
            return (
                np.argwhere(np.abs(self.deviations) > deviations).squeeze(-1)
                if (self.deviations.ndim == 1)
                else np.argwhere(np.abs(self.deviations) > deviations)
            )
