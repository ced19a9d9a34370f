"""Forecasts from every origin of a stretch of time, as they would have been made then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tractable.forecast import units
from tractable.forecast.backtest import LEVELS, Backtest, Tally, seasonal_naive
from tractable.forecast.forecast import log_densities
from tractable.forecast.model import Origins
from tractable.forecast.panel import Panel
from tractable.forecast.spread import Errors, tracked
from tractable.forecast.state import State
from tractable.forecast.windows import Array, History, seen_at
from tractable.predictive import Predictive

Doubles = npt.NDArray[np.float64]
_AVERAGED = 3
"""Times the memory, over which an average is run in before it is used."""


def scaled_history(state: State, panel: Panel) -> History:
    """A panel as the model of a state sees it."""
    return History.observed(
        state.units.scaled(panel.values),
        state.known.scaled(panel.known),
        state.past.scaled(panel.past),
    )


def drift(state: State, history: History, origins: Origins, seen: int) -> Array | None:
    """The average of recent squared errors at consecutive origins; None without a memory.

    Args:
        state: what the forecaster has learnt.
        history: scaled.
        origins: consecutive.
        seen: times that the forecaster was fitted to: errors before are not those of forecasts.
    """
    memory = state.spread.memory
    if memory is None:
        return None
    layout, first, start = state.model.layout, int(origins[0]), None
    if first + 1 >= seen:
        begin, start = max(seen - layout.steps - 1, layout.lags - 1), state.recent
    else:
        begin = first - layout.steps - int(_AVERAGED * memory)
        begin = max(begin, layout.lags - 1)
    run_in = np.arange(min(begin, first), int(origins[-1]) + 1)
    errors = Errors.of(state.model, history, run_in)
    z2 = errors.error**2 / errors.variance(state.spread.factors)
    if start is not None:  # what was seen by the fit is no outcome of a forecast
        outcome = run_in[:, None] + 1 + np.arange(layout.steps)
        z2[np.broadcast_to((outcome < seen)[:, None, :], z2.shape)] = np.nan
    followed, _ = tracked(z2, memory, start)
    return followed[len(run_in) - len(origins) :]


def backtest(
    state: State, panel: Panel, first: int, stride: int, seen: int, *, keep: bool
) -> Backtest:
    """Scores of forecasts from all origins of which every step is known.

    Args:
        state: what the forecaster has learnt; it is left as it is.
        panel: the series, with what lies before the first origin.
        first: the first origin.
        stride: between origins.
        seen: times that the forecaster was fitted to.
        keep: whether to keep the forecasts.
    """
    history, steps = scaled_history(state, panel), state.model.layout.steps
    every = np.arange(first, len(panel) - steps)
    followed = drift(state, history, every, seen)
    origins = every[::stride]
    ours, naive = Tally(steps, len(state.names)), Tally(steps, len(state.names))
    spread = _naive_spread(panel, state.season, first, steps)
    kept: list[tuple[Doubles, Doubles, Doubles]] = []
    for some in state.model.chunks(origins, len(state.names)):
        factors = state.spread.factors[None]
        if followed is not None:
            factors = factors * followed[some - first]
        said = Said.of(state, history, some, factors)
        y = _after(panel.values, some, steps)
        judged = np.where(said.there, y, np.nan)  # a window without values has no forecast
        ours.add(judged, said.mean, said.median, said.log_density(y), said.ends())
        _add_naive(naive, panel, state.season, some, y, spread)
        if keep:
            kept.append((said.mean, said.std, y))
    arrays: list[Any] = [np.moveaxis(np.concatenate(p), 1, 2) for p in zip(*kept, strict=True)]
    return Backtest(
        state.names, panel.stamps[origins], ours.scores(), naive.scores(), *(arrays or [None] * 3)
    )


@dataclass(frozen=True)
class Said:
    """Forecasts in the units of the data, ``[origins, series, steps]`` each.

    Attributes:
        predictive: predictive distribution of the transformed values.
        transform: what was applied to the data.
        shape: origins, series and steps.
        there: which windows have any value, ``[origins, series, 1]``; others have no forecast,
            and numbers are NaN.
    """

    predictive: Predictive
    transform: units.Transform
    shape: tuple[int, int, int]
    there: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, state: State, history: History, origins: Origins, factors: Array) -> Said:
        """At these origins."""
        found = state.model.predictive(history, origins, factors).double()
        if state.model.units is None:
            parts = (
                np.tile(p, len(origins))[:, None] for p in (state.units.mean, state.units.scale)
            )
            mean, scale = (torch.from_numpy(p) for p in parts)
            found = found.rescaled(mean, scale)
        shape = (len(origins), len(state.names), state.model.layout.steps)
        there = seen_at(history, state.model.layout.lags, origins)[..., None]
        return cls(found, state.units.transform, shape, there)

    @property
    def mean(self) -> Doubles:
        """Expected values."""
        return self._given(self._moments[0])

    @property
    def std(self) -> Doubles:
        """Standard deviations."""
        return self._given(np.sqrt(self._moments[1]))

    @property
    def _moments(self) -> tuple[Doubles, Doubles]:
        mean, variance = self.predictive.mean.numpy(), self.predictive.variance.numpy()
        return units.moments(self.transform, mean, variance)

    @property
    def median(self) -> Doubles:
        """Medians."""
        return self._quantile(0.5)

    def ends(self) -> dict[float, tuple[Doubles, Doubles]]:
        """Of the central intervals of all levels."""
        return {q: (self._quantile((1 - q) / 2), self._quantile((1 + q) / 2)) for q in LEVELS}

    def _quantile(self, q: float) -> Doubles:
        found = self.predictive.quantile(q).numpy()
        return self._given(units.backward(self.transform, found))

    def _given(self, found: Doubles) -> Doubles:
        return np.where(self.there, found.reshape(self.shape), np.nan)

    def log_density(self, y: Doubles) -> Doubles:
        """Of every value; NaN where it is missing."""
        rows = y.reshape(-1, self.shape[2])
        density = log_densities(self.predictive, units.forward(self.transform, rows))
        return self._given(density + units.log_slope(self.transform, rows))


def one_step(state: State, panel: Panel) -> Iterator[tuple[Origins, Said]]:
    """Forecasts at every origin after a whole window, calibrated; the first step is what counts."""
    history = scaled_history(state, panel)
    origins = np.arange(state.model.layout.lags - 1, len(panel) - 1)
    for some in state.model.chunks(origins, len(state.names)):
        yield some, Said.of(state, history, some, state.spread.factors[None])


def _after(y: Doubles, origins: Origins, steps: int) -> Doubles:
    """What came, ``[origins, series, steps]``."""
    at = origins[:, None] + 1 + np.arange(steps)
    made: Doubles = np.moveaxis(y[at], 1, 2)
    return made


def _naive_spread(panel: Panel, season: int, first: int, steps: int) -> Doubles:
    """Return the mean squared error of the seasonal naive forecast before the first origin.

    NaN where it made no forecast whose outcome lies before: nothing is known of its spread then.
    """
    origins = np.arange(season - 1, max(first + 1 - steps, season - 1))
    total, count = np.zeros((len(panel.names), steps)), np.zeros((len(panel.names), steps))
    for some in np.array_split(origins, max(len(origins) * steps // (1 << 20), 1)):
        e = _after(panel.values, some, steps) - seasonal_naive(panel.values, season, some, steps)
        total += np.nansum(e * e, axis=0)
        count += (~np.isnan(e)).sum(0)
    known = panel.values[: first + 1]
    some = ~np.isnan(known)
    middle = np.where(some, known, 0).sum(0) / np.maximum(some.sum(0), 1)
    variance = np.where(some, (known - middle) ** 2, 0).sum(0) / np.maximum(some.sum(0), 1)
    # A series that repeats itself exactly has errors of rounding only, in units of its own.
    smallest = np.maximum(1e-12 * variance, np.finfo(np.float64).tiny)[:, None]
    spread: Doubles = np.maximum(total / np.maximum(count, 1), smallest)
    return np.where(count > 0, spread, np.nan)


def _add_naive(
    tally: Tally, panel: Panel, season: int, origins: Origins, y: Doubles, spread: Doubles
) -> None:
    mean = seasonal_naive(panel.values, season, origins, y.shape[2])
    density = -0.5 * ((y - mean) ** 2 / spread + np.log(2 * np.pi * spread))
    score = torch.special.ndtri(torch.tensor([(1 + q) / 2 for q in LEVELS], dtype=torch.float64))
    std = np.sqrt(spread)
    ends = {
        q: (mean - float(z) * std, mean + float(z) * std)
        for q, z in zip(LEVELS, score, strict=True)
    }
    tally.add(np.where(np.isnan(mean), np.nan, y), mean, mean, density, ends)
