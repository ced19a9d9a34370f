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
from tractable.predictive import NormalPredictive

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
        deviations: from the mean of what was forecast, in its standard deviations (of transformed
            values, with a transform).
        surprise: minus the log density of the value, in the units of the data; of a count, minus
            its log probability.
        probability: how likely a value at least as far off was, to both sides:
            ``2 min(F, 1 - F)`` with F the distribution function of the forecast.  Of counts it is
            the mid-p value: ``F(y) = P(Y < y) + P(Y = y) / 2``.

    Approximate: a forecast that does not say what its distribution function or the density of a
    single step is (such as one of angles) is taken for a normal one there.
    """

    times: npt.NDArray[Any]
    values: Array
    expected: Array
    deviations: Array
    surprise: Array
    probability: Array

    @classmethod
    def of(cls, state: State, panel: Panel) -> Anomalies:
        """Of all values of a panel that have a window before them."""
        arrays = [np.full(panel.values.shape, np.nan) for _ in range(4)]
        for origins, said in rolling.one_step(state, panel):
            for array, part in zip(arrays, _scored(said, panel.values[origins + 1]), strict=True):
                array[origins + 1] = part
        parts = [array[:, 0] if panel.alone else array for array in (panel.values, *arrays)]
        return cls(panel.stamps, *parts)

    def above(self, deviations: float = 4.0) -> npt.NDArray[Any]:
        """Places of values that were missed by more than so many deviations."""
        with np.errstate(invalid="ignore"):
            return (
                np.argwhere(np.abs(self.deviations) > deviations).squeeze(-1)
                if (self.deviations.ndim == 1)
                else np.argwhere(np.abs(self.deviations) > deviations)
            )


def _scored(said: rolling.Said, y: Array) -> tuple[Array, Array, Array, Array]:
    """Expected, deviations, surprise and probability of the next values, ``[origins, series]``."""
    found, inner = said.predictive, units.forward(said.transform, y)
    mean, variance = (p.numpy().reshape(said.shape)[..., 0] for p in (found.mean, found.variance))
    z = (inner - mean) / np.sqrt(variance)
    density = -0.5 * (z**2 + np.log(2 * np.pi * variance)) + units.log_slope(said.transform, y)
    tail = 2 * torch.special.ndtr(-torch.from_numpy(np.abs(z))).numpy()
    if not isinstance(found, NormalPredictive):
        density, tail = _own_density(said, y, density), _own_tail(said, inner, tail)
    gone = np.isnan(y) | ~said.there[..., 0]
    z, surprise, tail = (np.where(gone, np.nan, part) for part in (z, -density, tail))
    return said.median[..., 0], z, surprise, tail


def _own_density(said: rolling.Said, y: Array, normal: Array) -> Array:
    """Log density of the first step under the forecast itself, where it has one."""
    try:
        said.predictive.elementwise_log_prob(said.predictive.mean.round())
    except TypeError:
        return normal
    return said.log_density(_first_of_all(said, y, np.nan))[..., 0]


def _own_tail(said: rolling.Said, inner: Array, normal: Array) -> Array:
    """Two-sided probability under the forecast itself, where it has a distribution function."""
    found = said.predictive
    at = torch.from_numpy(_first_of_all(said, np.nan_to_num(inner), 0.0)).flatten(0, 1)
    try:
        share = found.cdf(at)
        if found.is_discrete:
            share = (share + found.cdf(at - 1)) / 2
    except TypeError:
        return normal
    below: Array = share.numpy().reshape(said.shape)[..., 0]
    return 2 * np.minimum(below, 1 - below)


def _first_of_all(said: rolling.Said, first: Array, rest: float) -> Array:
    """Values of the first step, beside something for the others."""
    whole = np.full(said.shape, rest)
    whole[..., 0] = first
    return whole
