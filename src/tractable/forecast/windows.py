"""Rows for a network, cut from series: a window of the past, and what came after it.

The origin of a row is the last time that it knows.  Its window is measured from a level of its own
(the last value, or the mean of the window), to which forecasts are added again: reversible instance
normalisation, as in NLinear (Zeng, Chen, Zhang & Xu, "Are transformers effective for time series
forecasting?", 2023).  So a network forecasts changes, and a drift of the level costs nothing.

What is missing in a window is a Gaussian: the forecast that was made of it, where there is one,
else the mean and the variance of what the window has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

Array = npt.NDArray[np.floating[Any]]
Level = Literal["last", "mean", "none"]
LEVELS: tuple[Level, ...] = ("last", "mean", "none")


@dataclass(frozen=True)
class Layout:
    """What a row holds.

    Attributes:
        lags: length of the window.
        steps: how many steps ahead the network looks.
        level: what a window is measured from.
        known: number of covariates with a known future.
        past: number of those without.
        sequence: whether the window is given as ``[lags, 1 + past]``, for recurrent networks.
    """

    lags: int
    steps: int
    level: Level = "last"
    known: int = 0
    past: int = 0
    sequence: bool = False

    @property
    def inputs(self) -> int:
        """Numbers in a row."""
        return self.lags * (1 + self.past) + self.steps * self.known


@dataclass(frozen=True)
class History:
    """Scaled series, of which some values may be forecasts.

    Attributes:
        loc: ``[times, series]``; NaN where nothing is known.
        variance: 0 of what was observed.
        known: covariates with a known future, which may reach beyond the series.
        past: covariates without.
    """

    loc: Array
    variance: Array
    known: Array
    past: Array

    @classmethod
    def observed(cls, loc: Array, known: Array, past: Array) -> History:
        """Values without error bars, in single precision, as networks take them."""
        single = [np.asarray(part, np.float32) for part in (loc, known, past)]
        return cls(single[0], np.zeros_like(single[0]), single[1], single[2])

    def __len__(self) -> int:
        return len(self.loc)


@dataclass(frozen=True)
class Rows:
    """Windows as a network takes them, all series of an origin below each other.

    Attributes:
        loc: the inputs.
        variance: their variances; None where all are certain.
        level: what was subtracted, one number a row.
        there: whether the window has any value at all.
    """

    loc: Array
    variance: Array | None
    level: Array
    there: npt.NDArray[np.bool_]


def rows_at(history: History, layout: Layout, origins: npt.NDArray[np.int64]) -> Rows:
    """The rows of these origins, from ``lags - 1`` on, and of all series."""
    first = origins - layout.lags + 1
    loc = sliding_window_view(history.loc, layout.lags, axis=0)[first].reshape(-1, layout.lags)
    missing = np.isnan(loc)
    if not layout.past and not layout.known and not missing.any() and not history.variance.any():
        return _certain(loc, layout)
    var = sliding_window_view(history.variance, layout.lags, axis=0)[first].reshape(loc.shape)
    there: npt.NDArray[np.bool_] = np.any(~missing, axis=1)
    if missing.any():
        loc, var = _filled(loc, var, missing)
    level = _last(loc, missing) if layout.level == "last" else _level(loc, layout.level)
    parts, spreads = [(loc - level[:, None])[..., None]], [var[..., None]]
    if layout.past:
        seen = sliding_window_view(history.past, layout.lags, axis=0)[first]
        seen = np.moveaxis(seen, 3, 2).reshape(len(loc), layout.lags, layout.past)
        parts.append(np.nan_to_num(seen))
        spreads.append(np.isnan(seen).astype(np.float32))  # scaled: unit variance
    x, v = np.concatenate(parts, 2), np.concatenate(spreads, 2)
    if not layout.sequence:
        x, v = x.reshape(len(x), -1), v.reshape(len(x), -1)
    if layout.known:
        ahead = sliding_window_view(known_ahead(history, layout.steps), layout.steps, axis=0)
        ahead = ahead[origins + 1].reshape(len(x), -1)
        x = np.concatenate([x, np.nan_to_num(ahead)], 1)
        v = np.concatenate([v, np.isnan(ahead).astype(np.float32)], 1)
    return Rows(x, v if v.any() else None, level, there)


def _certain(loc: Array, layout: Layout) -> Rows:
    """The usual case: every value is there, and no covariates."""
    level = _level(loc, layout.level)
    x = loc - level[:, None]
    there = np.ones(len(x), dtype=np.bool_)
    return Rows(x[..., None] if layout.sequence else x, None, level, there)


def _level(loc: Array, level: Level) -> Array:
    if level == "last":
        return loc[:, -1]
    found: Array = loc.mean(1) if level == "mean" else np.zeros(len(loc), loc.dtype)
    return found


def targets_at(
    history: History, layout: Layout, origins: npt.NDArray[np.int64], level: Array
) -> Array:
    """What came after each origin, measured from the level; NaN where it is not known."""
    after = sliding_window_view(padded(history, layout.steps), layout.steps, axis=0)[origins + 1]
    made: Array = after.reshape(len(level), layout.steps) - level[:, None]
    return made


def padded(history: History, steps: int) -> Array:
    """Observed values with room for so many steps behind the last; forecasts count as missing."""
    seen = np.where(history.variance > 0, np.nan, history.loc)
    return np.concatenate([seen, np.full((steps, seen.shape[1]), np.nan, seen.dtype)])


def known_ahead(history: History, steps: int) -> Array:
    """Covariates with room for so many steps behind the last value; missing where unknown."""
    short = len(history) + steps - len(history.known)
    if short <= 0:
        return history.known
    more = np.full((short, *history.known.shape[1:]), np.nan, history.known.dtype)
    return np.concatenate([history.known, more])


def _filled(loc: Array, var: Array, missing: npt.NDArray[np.bool_]) -> tuple[Array, Array]:
    """The mean and the variance of what the window has, where it lacks a value."""
    count = np.maximum((~missing).sum(1, keepdims=True), 1)
    known = np.where(missing, 0.0, loc)
    mean = known.sum(1, keepdims=True) / count
    spread = np.where(missing, 0.0, (loc - mean) ** 2).sum(1, keepdims=True) / count
    wide = np.where(count > 1, spread, 1.0)
    return np.where(missing, mean, loc), np.where(missing, wide, var)


def _last(loc: Array, missing: npt.NDArray[np.bool_]) -> Array:
    """The last value that is there."""
    back = np.argmax(~missing[:, ::-1], axis=1)
    found: Array = loc[np.arange(len(loc)), loc.shape[1] - 1 - back]
    return found


def seen_at(history: History, lags: int, origins: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which windows have any value, ``[origins, series]``."""
    there = np.cumsum(~np.isnan(history.loc), axis=0)
    there = np.concatenate([np.zeros((1, there.shape[1]), there.dtype), there])
    found: npt.NDArray[np.bool_] = there[origins + 1] > there[origins + 1 - lags]
    return found
