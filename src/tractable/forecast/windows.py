"""Input rows and targets of a forecasting network, cut from series.

A row belongs to an origin, the last time that it knows, and to a series. Each window is normalized
by a level of its own (its last value, or its mean), which is added to the forecast again:
reversible instance normalization, as in NLinear (Zeng, Chen, Zhang & Xu, "Are transformers
effective for time series forecasting?", 2023). The network then forecasts changes, and slow drift
needs no learning.

A missing value in a window is a Gaussian: its own earlier forecast where there is one, else the
mean and the variance of the other values in the window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

Array = npt.NDArray[np.floating[Any]]
Normalization = Literal["last", "mean", "none"]
NORMALIZATIONS: tuple[Normalization, ...] = ("last", "mean", "none")


@dataclass(frozen=True)
class WindowLayout:
    """The content of an input row.

    Attributes:
        lags: length of the window, in time steps.
        steps: number of forecast steps, outputs of the network.
        normalize_by: level that is subtracted from a window.
        n_future_covariates: number of covariates that are known over the forecast steps.
        n_past_covariates: number of covariates that are known up to the origin.
        sequence: whether the window has shape ``[lags, 1 + n_past_covariates]``, for recurrent
            networks, instead of being flat.
    """

    lags: int
    steps: int
    normalize_by: Normalization = "last"
    n_future_covariates: int = 0
    n_past_covariates: int = 0
    sequence: bool = False

    @property
    def n_inputs(self) -> int:
        """Number of values in a row."""
        return self.lags * (1 + self.n_past_covariates) + self.steps * self.n_future_covariates


@dataclass(frozen=True)
class History:
    """Scaled series, in which missing values may be replaced by their forecasts.

    Attributes:
        loc: values ``[times, series]``; NaN where neither a value nor a forecast is known.
        variance: variance of the forecasts that stand for missing values, 0 for observed values.
        future_covariates: covariates ``[times, series, covariates]`` with a known future, which may
            extend beyond the series.
        past_covariates: covariates ``[times, series, covariates]`` without a known future.
    """

    loc: Array
    variance: Array
    future_covariates: Array
    past_covariates: Array

    @classmethod
    def from_observed(cls, loc: Array, future_covariates: Array, past_covariates: Array) -> History:
        """Return a history without forecasts, in single precision."""
        single = [
            np.asarray(part, np.float32) for part in (loc, future_covariates, past_covariates)
        ]
        return cls(single[0], np.zeros_like(single[0]), single[1], single[2])

    def __len__(self) -> int:
        return len(self.loc)


@dataclass(frozen=True)
class WindowBatch:
    """Input rows, the series of the first origin first.

    Attributes:
        loc: inputs ``[rows, n_inputs]``, or ``[rows, lags, 1 + n_past_covariates]``.
        variance: variances of the inputs; None if all are 0.
        level: value subtracted from each window, ``[rows]``.
        has_values: whether each window has at least one value, ``[rows]``.
    """

    loc: Array
    variance: Array | None
    level: Array
    has_values: npt.NDArray[np.bool_]


def rows_at(history: History, layout: WindowLayout, origins: npt.NDArray[np.int64]) -> WindowBatch:
    """Return the input rows of all series at these origins, each at least ``lags - 1``."""
    first = origins - layout.lags + 1
    loc = sliding_window_view(history.loc, layout.lags, axis=0)[first].reshape(-1, layout.lags)
    missing = np.isnan(loc)
    plain = not layout.n_past_covariates and not layout.n_future_covariates
    if plain and not missing.any() and not history.variance.any():
        return _complete_rows(loc, layout)
    var = sliding_window_view(history.variance, layout.lags, axis=0)[first].reshape(loc.shape)
    has_values: npt.NDArray[np.bool_] = np.any(~missing, axis=1)
    if missing.any():
        loc, var = _fill_missing(loc, var, missing)
    if layout.normalize_by == "last":
        level = _last_values(loc, missing)
    else:
        level = _level(loc, layout.normalize_by)
    parts, variances = [(loc - level[:, None])[..., None]], [var[..., None]]
    if layout.n_past_covariates:
        past = sliding_window_view(history.past_covariates, layout.lags, axis=0)[first]
        past = np.moveaxis(past, 3, 2).reshape(len(loc), layout.lags, layout.n_past_covariates)
        parts.append(np.nan_to_num(past))
        variances.append(np.isnan(past).astype(np.float32))  # standardized: unit variance
    x, v = np.concatenate(parts, 2), np.concatenate(variances, 2)
    if not layout.sequence:
        x, v = x.reshape(len(x), -1), v.reshape(len(x), -1)
    if layout.n_future_covariates:
        ahead = sliding_window_view(
            padded_future_covariates(history, layout.steps), layout.steps, axis=0
        )
        ahead = ahead[origins + 1].reshape(len(x), -1)
        x = np.concatenate([x, np.nan_to_num(ahead)], 1)
        v = np.concatenate([v, np.isnan(ahead).astype(np.float32)], 1)
    return WindowBatch(x, v if v.any() else None, level, has_values)


def targets_at(
    history: History, layout: WindowLayout, origins: npt.NDArray[np.int64], level: Array
) -> Array:
    """Return the values after each origin minus the level, ``[rows, steps]``; NaN if unknown."""
    after = sliding_window_view(padded_values(history, layout.steps), layout.steps, axis=0)
    targets: Array = after[origins + 1].reshape(len(level), layout.steps) - level[:, None]
    return targets


def windows_with_values(
    history: History, lags: int, origins: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return which windows have at least one value, ``[origins, series]``."""
    count = np.cumsum(~np.isnan(history.loc), axis=0)
    count = np.concatenate([np.zeros((1, count.shape[1]), count.dtype), count])
    found: npt.NDArray[np.bool_] = count[origins + 1] > count[origins + 1 - lags]
    return found


def padded_values(history: History, steps: int) -> Array:
    """Return observed values followed by ``steps`` rows of NaN; forecasts count as missing."""
    observed = np.where(history.variance > 0, np.nan, history.loc)
    padding = np.full((steps, observed.shape[1]), np.nan, observed.dtype)
    return np.concatenate([observed, padding])


def padded_future_covariates(history: History, steps: int) -> Array:
    """Return future covariates up to ``steps`` rows after the last value; NaN where unknown."""
    n_missing = len(history) + steps - len(history.future_covariates)
    if n_missing <= 0:
        return history.future_covariates
    shape, dtype = history.future_covariates.shape[1:], history.future_covariates.dtype
    padding = np.full((n_missing, *shape), np.nan, dtype)
    return np.concatenate([history.future_covariates, padding])


def _complete_rows(loc: Array, layout: WindowLayout) -> WindowBatch:
    """Return rows of the usual case: no missing values, no covariates."""
    level = _level(loc, layout.normalize_by)
    x = loc - level[:, None]
    has_values = np.ones(len(x), dtype=np.bool_)
    return WindowBatch(x[..., None] if layout.sequence else x, None, level, has_values)


def _level(loc: Array, normalize_by: Normalization) -> Array:
    if normalize_by == "last":
        return loc[:, -1]
    level: Array = loc.mean(1) if normalize_by == "mean" else np.zeros(len(loc), loc.dtype)
    return level


def _fill_missing(loc: Array, var: Array, missing: npt.NDArray[np.bool_]) -> tuple[Array, Array]:
    """Replace missing values by the mean and the variance of the others in the window."""
    count = np.maximum((~missing).sum(1, keepdims=True), 1)
    values = np.where(missing, 0.0, loc)
    mean = values.sum(1, keepdims=True) / count
    variance = np.where(missing, 0.0, (loc - mean) ** 2).sum(1, keepdims=True) / count
    variance = np.where(count > 1, variance, 1.0)  # one value: that of the standardized series
    return np.where(missing, mean, loc), np.where(missing, variance, var)


def _last_values(loc: Array, missing: npt.NDArray[np.bool_]) -> Array:
    """Return the last value of each window that is not missing."""
    back = np.argmax(~missing[:, ::-1], axis=1)
    last: Array = loc[np.arange(len(loc)), loc.shape[1] - 1 - back]
    return last
