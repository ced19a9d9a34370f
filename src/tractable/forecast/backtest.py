"""Forecasts from many origins in the past, beside what came: how good they would have been.

Beside them stands the seasonal naive forecast, the value one season (or several) before, with a
normal spread of its own that was measured before the first origin; too few values before it (fewer
than a season and the steps ahead) tell of no spread, and what follows from it is NaN then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tractable.errors import MissingExtra

Array = npt.NDArray[np.float64]
LEVELS = (0.5, 0.8, 0.9, 0.95)
"""Of intervals whose coverage is counted."""


@dataclass
class Scores:
    """How good forecasts of one kind were, ``[steps, series]`` each.

    Attributes:
        mse: mean squared error of the mean.
        mae: mean absolute error of the median.
        log_likelihood: mean log density of what came.
        coverage: share of what came in the central interval of each level.
    """

    mse: Array
    mae: Array
    log_likelihood: Array
    coverage: dict[float, Array]


@dataclass
class Backtest:
    """Forecasts from rolling origins.

    Attributes:
        names: names of the series.
        origins: the last time that each forecast knew.
        model: scores of the forecaster.
        naive: scores of the seasonal naive forecast.
        mean: forecast means, ``[origins, steps, series]``, if they were kept.
        std: forecast deviations.
        actual: what came.
    """

    names: tuple[str, ...]
    origins: npt.NDArray[Any]
    model: Scores
    naive: Scores
    mean: Array | None = None
    std: Array | None = None
    actual: Array | None = None

    @property
    def mse(self) -> float:
        """Mean squared error over all steps and series."""
        return _mean(self.model.mse)

    @property
    def mae(self) -> float:
        """Mean absolute error of the median."""
        return _mean(self.model.mae)

    @property
    def log_likelihood(self) -> float:
        """Mean log density of one value."""
        return _mean(self.model.log_likelihood)

    def coverage(self, level: float = 0.9) -> float:
        """Share of values in the central interval of a level, one of ``LEVELS``."""
        return _mean(self.model.coverage[level])

    def summary(self) -> dict[str, dict[str, float]]:
        """All means, of the forecaster and of the seasonal naive forecast."""
        return {
            name: {
                "mse": _mean(scores.mse),
                "mae": _mean(scores.mae),
                "log_likelihood": _mean(scores.log_likelihood),
                **{f"coverage_{100 * q:g}": _mean(c) for q, c in scores.coverage.items()},
            }
            for name, scores in (("model", self.model), ("seasonal naive", self.naive))
        }

    def to_frame(self) -> Any:
        """The summary as a data frame of pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtra("to_frame needs pandas: pip install pandas") from error
        return pd.DataFrame(self.summary()).T


class Tally:
    """Scores that are summed up origin by origin.

    Args:
        steps: ahead.
        series: number of series.
    """

    def __init__(self, steps: int, series: int) -> None:
        shape = (series, steps)
        self.count, self.square, self.absolute, self.log = (np.zeros(shape) for _ in range(4))
        self.inside = {level: np.zeros(shape) for level in LEVELS}

    def add(
        self,
        y: Array,
        mean: Array,
        median: Array,
        log_density: Array,
        ends: dict[float, tuple[Array, Array]],
    ) -> None:
        """What came and what was said, ``[origins, series, steps]`` each; NaN is left out."""
        there = ~np.isnan(y)
        self.count += there.sum(0)
        self.square += np.where(there, (y - mean) ** 2, 0).sum(0)
        self.absolute += np.where(there, np.abs(y - median), 0).sum(0)
        self.log += np.where(there, log_density, 0).sum(0)
        for level, (low, high) in ends.items():
            inside = ((y >= low) & (y <= high)).astype(float)
            inside[there & np.isnan(low + high)] = np.nan  # no interval was given
            self.inside[level] += inside.sum(0)

    def scores(self) -> Scores:
        """Means so far."""
        with np.errstate(invalid="ignore"):
            made = [
                (part / np.where(self.count > 0, self.count, np.nan)).T
                for part in (self.square, self.absolute, self.log, *self.inside.values())
            ]
        square, absolute, log, *inside = made
        return Scores(square, absolute, log, dict(zip(self.inside, inside, strict=True)))


def seasonal_naive(y: Array, season: int, origins: npt.NDArray[np.int64], steps: int) -> Array:
    """The value a whole number of seasons before each step, ``[origins, series, steps]``.

    Args:
        y: ``[times, series]``; a missing value is that of the season before.
        season: length of the season; 1 repeats the last value.
        origins: the last times known.
        steps: ahead.
    """
    filled = y.copy()
    for t in np.flatnonzero(np.isnan(y).any(1)):
        if t >= season:
            missing = np.isnan(filled[t])
            filled[t, missing] = filled[t - season, missing]
    ahead = np.arange(1, steps + 1)
    at = origins[:, None] + ahead - season * -(-ahead // season)
    found: Array = np.moveaxis(filled[np.maximum(at, 0)], 1, 2).copy()
    found[np.broadcast_to((at < 0)[:, None, :], found.shape)] = np.nan
    return found


def _mean(values: Array) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")
