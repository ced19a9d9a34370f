"""Backtests: forecasts from many past origins, as they would have been made, and their scores.

They are compared with the seasonal naive forecast, the value one season (or several) before, with a
normal distribution whose variance is measured before the first origin. Where too few values lie
before it (fewer than a season and the forecast steps) that variance is unknown, and the scores that
need it are NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tractable.errors import MissingExtra
from tractable.forecast.calibration import ForecastErrors, error_ewma
from tractable.forecast.direct import Origins
from tractable.forecast.panel import Panel
from tractable.forecast.rolling import LEVELS, RollingForecasts, scaled_history
from tractable.forecast.state import ForecasterState
from tractable.forecast.windows import Array, History

Doubles = npt.NDArray[np.float64]
_BURN_IN = 3  # error windows before the first origin: 95 % of the weight of the average


@dataclass
class Scores:
    """Scores of the forecasts of one method, ``[steps, series]`` each.

    Attributes:
        mse: mean squared error of the mean.
        mae: mean absolute error of the median.
        log_likelihood: mean log density of the observed values.
        coverage: share of observed values in the central interval, by level.
    """

    mse: Doubles
    mae: Doubles
    log_likelihood: Doubles
    coverage: dict[float, Doubles]


@dataclass
class Backtest:
    """Scores of forecasts from many origins.

    Attributes:
        series_names: names of the series.
        origins: last time that each forecast knew.
        model: scores of the forecaster.
        baseline: scores of the seasonal naive forecast.
        mean: forecast means ``[origins, steps, series]``, if forecasts were kept.
        std: forecast standard deviations of the same shape.
        actual: observed values of the same shape.
    """

    series_names: tuple[str, ...]
    origins: npt.NDArray[Any]
    model: Scores
    baseline: Scores
    mean: Doubles | None = None
    std: Doubles | None = None
    actual: Doubles | None = None

    @property
    def mse(self) -> float:
        """Mean squared error over all steps and series."""
        return _mean(self.model.mse)

    @property
    def mae(self) -> float:
        """Mean absolute error of the median over all steps and series."""
        return _mean(self.model.mae)

    @property
    def log_likelihood(self) -> float:
        """Mean log density of one value."""
        return _mean(self.model.log_likelihood)

    def coverage(self, level: float = 0.9) -> float:
        """Return the share of values in the central interval of a level, one of ``LEVELS``."""
        return _mean(self.model.coverage[level])

    def summary(self) -> dict[str, dict[str, float]]:
        """Return the mean scores of the forecaster and of the seasonal naive forecast."""
        return {
            name: {
                "mse": _mean(scores.mse),
                "mae": _mean(scores.mae),
                "log_likelihood": _mean(scores.log_likelihood),
                **{f"coverage_{100 * q:g}": _mean(c) for q, c in scores.coverage.items()},
            }
            for name, scores in (("model", self.model), ("seasonal naive", self.baseline))
        }

    def to_frame(self) -> Any:
        """Return the summary as a pandas data frame.

        Raises:
            MissingExtra: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtra("to_frame needs pandas: pip install pandas") from error
        return pd.DataFrame(self.summary()).T


class RunningScores:
    """Sums of scores over chunks of origins.

    Args:
        steps: number of forecast steps.
        series: number of series.
    """

    def __init__(self, steps: int, series: int) -> None:
        shape = (series, steps)
        self.count, self.square, self.absolute, self.log = (np.zeros(shape) for _ in range(4))
        self.inside = {level: np.zeros(shape) for level in LEVELS}

    def add(
        self,
        y: Doubles,
        mean: Doubles,
        median: Doubles,
        log_density: Doubles,
        intervals: dict[float, tuple[Doubles, Doubles]],
    ) -> None:
        """Add values and their forecasts, ``[origins, series, steps]`` each; NaN is ignored."""
        known = ~np.isnan(y)
        self.count += known.sum(0)
        self.square += np.where(known, (y - mean) ** 2, 0).sum(0)
        self.absolute += np.where(known, np.abs(y - median), 0).sum(0)
        self.log += np.where(known, log_density, 0).sum(0)
        for level, (low, high) in intervals.items():
            inside = ((y >= low) & (y <= high)).astype(float)
            inside[known & np.isnan(low + high)] = np.nan  # there is no interval
            self.inside[level] += inside.sum(0)

    def scores(self) -> Scores:
        """Return the mean scores of all forecasts that were added."""
        with np.errstate(invalid="ignore"):
            means = [
                (part / np.where(self.count > 0, self.count, np.nan)).T
                for part in (self.square, self.absolute, self.log, *self.inside.values())
            ]
        square, absolute, log, *inside = means
        return Scores(square, absolute, log, dict(zip(self.inside, inside, strict=True)))


def run_backtest(
    state: ForecasterState,
    panel: Panel,
    first: int,
    stride: int,
    n_learned: int,
    *,
    keep_forecasts: bool,
) -> Backtest:
    """Return the scores of forecasts from all origins after which every step is known.

    Args:
        state: state of the forecaster, which does not change.
        panel: series, from before the first origin.
        first: row of the first origin.
        stride: number of times between origins.
        n_learned: number of rows that the forecaster has learned.
        keep_forecasts: whether to return the forecasts as well.
    """
    history, steps = scaled_history(state, panel), state.model.layout.steps
    every = np.arange(first, len(panel) - steps)
    averages = rolling_error_ewma(state, history, every, n_learned)
    origins = every[::stride]
    n_series = len(state.series_names)
    ours, baseline = RunningScores(steps, n_series), RunningScores(steps, n_series)
    variance = _naive_variance(panel, state.season_length, first, steps)
    kept: list[tuple[Doubles, Doubles, Doubles]] = []
    for chunk in state.model.chunks(origins, n_series):
        factors = state.calibration.noise_factors[None]
        if averages is not None:
            factors = factors * averages[chunk - first]
        forecasts = RollingForecasts.at(state, history, chunk, factors)
        y = _values_after(panel.values, chunk, steps)
        scored = np.where(forecasts.has_values, y, np.nan)
        density = forecasts.log_density(y)
        ours.add(scored, forecasts.mean, forecasts.median, density, forecasts.intervals())
        _add_naive(baseline, panel, state.season_length, chunk, y, variance)
        if keep_forecasts:
            kept.append((forecasts.mean, forecasts.std, y))
    arrays: list[Any] = [np.moveaxis(np.concatenate(p), 1, 2) for p in zip(*kept, strict=True)]
    return Backtest(
        state.series_names, panel.stamps[origins], ours.scores(), baseline.scores(),
        *(arrays or [None] * 3),
    )  # fmt: skip


def rolling_error_ewma(
    state: ForecasterState, history: History, origins: Origins, n_learned: int
) -> Array | None:
    """Return the average of recent squared errors at each origin, as it was known then.

    Args:
        state: state of the forecaster.
        history: scaled series.
        origins: consecutive origins.
        n_learned: number of rows that the forecaster has learned; errors before are not those of
            forecasts.

    Returns:
        Averages ``[origins, series, steps]``; None without an error window.
    """
    window = state.calibration.error_window
    if window is None:
        return None
    layout, first, start = state.model.layout, int(origins[0]), None
    if first + 1 >= n_learned:
        begin, start = max(n_learned - layout.steps - 1, layout.lags - 1), state.error_ewma
    else:
        begin = first - layout.steps - int(_BURN_IN * window)
        begin = max(begin, layout.lags - 1)
    every = np.arange(min(begin, first), int(origins[-1]) + 1)
    errors = ForecastErrors.of_model(state.model, history, every)
    z2 = errors.error**2 / errors.variance(state.calibration.noise_factors)
    if start is not None:  # a learned value is not the outcome of a forecast
        outcome = every[:, None] + 1 + np.arange(layout.steps)
        z2[np.broadcast_to((outcome < n_learned)[:, None, :], z2.shape)] = np.nan
    averages, _ = error_ewma(z2, window, start)
    return averages[len(every) - len(origins) :]


def seasonal_naive(
    y: Doubles, season_length: int, origins: npt.NDArray[np.int64], steps: int
) -> Doubles:
    """Return the value a whole number of seasons before each step, ``[origins, series, steps]``.

    Args:
        y: series ``[times, series]``; a missing value is replaced by that of the season before.
        season_length: length of the season; 1 repeats the last value.
        origins: last known times, as rows.
        steps: number of forecast steps.
    """
    season = season_length
    filled = y.copy()
    for t in np.flatnonzero(np.isnan(y).any(1)):
        if t >= season:
            missing = np.isnan(filled[t])
            filled[t, missing] = filled[t - season, missing]
    ahead = np.arange(1, steps + 1)
    at = origins[:, None] + ahead - season * -(-ahead // season)
    found: Doubles = np.moveaxis(filled[np.maximum(at, 0)], 1, 2).copy()
    found[np.broadcast_to((at < 0)[:, None, :], found.shape)] = np.nan
    return found


def _values_after(y: Doubles, origins: Origins, steps: int) -> Doubles:
    """Return the values after each origin, ``[origins, series, steps]``."""
    at = origins[:, None] + 1 + np.arange(steps)
    values: Doubles = np.moveaxis(y[at], 1, 2)
    return values


def _naive_variance(panel: Panel, season: int, first: int, steps: int) -> Doubles:
    """Return the mean squared error of the seasonal naive forecast before the first origin.

    NaN for steps without an outcome before it.
    """
    origins = np.arange(season - 1, max(first + 1 - steps, season - 1))
    shape = (len(panel.series_names), steps)
    total, count = np.zeros(shape), np.zeros(shape)
    for chunk in np.array_split(origins, max(len(origins) * steps // (1 << 20), 1)):
        naive = seasonal_naive(panel.values, season, chunk, steps)
        e = _values_after(panel.values, chunk, steps) - naive
        total += np.nansum(e * e, axis=0)
        count += (~np.isnan(e)).sum(0)
    values = panel.values[: first + 1]
    known = ~np.isnan(values)
    mean = np.where(known, values, 0).sum(0) / np.maximum(known.sum(0), 1)
    variance = np.where(known, (values - mean) ** 2, 0).sum(0) / np.maximum(known.sum(0), 1)
    # The errors of a series that repeats itself exactly are rounding errors, relative to its scale.
    smallest = np.maximum(1e-12 * variance, np.finfo(np.float64).tiny)[:, None]
    naive_variance: Doubles = np.maximum(total / np.maximum(count, 1), smallest)
    return np.where(count > 0, naive_variance, np.nan)


def _add_naive(
    scores: RunningScores,
    panel: Panel,
    season: int,
    origins: Origins,
    y: Doubles,
    variance: Doubles,
) -> None:
    mean = seasonal_naive(panel.values, season, origins, y.shape[2])
    density = -0.5 * ((y - mean) ** 2 / variance + np.log(2 * np.pi * variance))
    z = torch.special.ndtri(torch.tensor([(1 + q) / 2 for q in LEVELS], dtype=torch.float64))
    std = np.sqrt(variance)
    intervals = {
        q: (mean - float(width) * std, mean + float(width) * std)
        for q, width in zip(LEVELS, z, strict=True)
    }
    scores.add(np.where(np.isnan(mean), np.nan, y), mean, mean, density, intervals)


def _mean(values: Doubles) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")
