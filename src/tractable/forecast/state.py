"""A fitted forecaster: a model, the end of its series, and how its latest forecasts did.

What it keeps of the series is as long as a window and the steps after it, however long a stream.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tractable.errors import InvalidInput
from tractable.forecast.forecast import Forecast
from tractable.forecast.model import Model, Setting
from tractable.forecast.recursion import Recursion
from tractable.forecast.spread import Spread, followed
from tractable.forecast.times import Grid
from tractable.forecast.units import Covariates, Units, backward
from tractable.forecast.windows import Array, History, seen_at
from tractable.learners import Ensemble, Learner
from tractable.predictive import NormalPredictive

Doubles = npt.NDArray[np.float64]
_WINDOWS_MISSING, _TIMES_MISSING = 10, 1000


@dataclass
class Told:
    """The forecasts of the last origins, as many as there are steps.

    Attributes:
        mean: ``[origins, series, steps]``, as a ring; NaN where nothing was told.
        variance: variances of the same.
        count: origins so far.
    """

    mean: Array
    variance: Array
    count: int = 0

    @classmethod
    def empty(cls, series: int, steps: int) -> Told:
        """Nothing was told yet."""
        nothing = np.full((steps, series, steps), np.nan, np.float32)
        return cls(nothing, nothing.copy())

    def add(self, mean: Array, variance: Array) -> None:
        """What the next origin says, ``[series, steps]``."""
        at = self.count % len(self.mean)
        self.mean[at], self.variance[at] = mean, variance
        self.count += 1

    @property
    def next(self) -> tuple[Array, Array]:
        """What the last origin said of the next time."""
        at = (self.count - 1) % len(self.mean)
        return self.mean[at, :, 0], self.variance[at, :, 0]

    def outcomes(self, y: Array) -> Array:
        """Squared errors of every step in units of its variance, now that its value is known."""
        steps = len(self.mean)
        ahead = np.arange(steps)
        at = (self.count - 1 - ahead) % steps
        mean, variance = (part[at, :, ahead].T for part in (self.mean, self.variance))
        found: Array = (y[:, None] - mean) ** 2 / variance
        return found


@dataclass
class State:
    """Everything that a forecaster has learnt.

    Attributes:
        model: the network.
        setting: what was chosen.
        units: units of the series.
        known: scale of covariates with a known future.
        past: scale of those without.
        spread: what held-out windows say of error bars.
        recent: the average of recent squared errors, ``[series, steps]``.
        history: the end of the series, scaled.
        grid: the times.
        now: step of the last value on the grid.
        names: names of the series.
        alone: whether one series came without a name.
        season: length of a season.
        updates: values that came after the fit.
        told: the latest forecasts of a stream, of which outcomes are still to come.
    """

    model: Model | Recursion
    setting: Setting
    units: Units
    known: Covariates
    past: Covariates
    spread: Spread
    recent: Array
    history: History
    grid: Grid
    now: int
    names: tuple[str, ...]
    alone: bool
    season: int
    updates: int = 0
    told: Told | None = field(default=None, repr=False)

    @property
    def keep(self) -> int:
        """Times to remember: a window, and the steps that it is taught by."""
        layout = self.model.one.layout if isinstance(self.model, Recursion) else self.model.layout
        return layout.lags + layout.steps

    @property
    def longest_gap(self) -> int:
        """Times that may be missing in a row: after ten windows all is forecast from forecasts."""
        return max(_WINDOWS_MISSING * self.keep, _TIMES_MISSING)

    def trimmed(self) -> None:
        """Forget what no window will need again."""
        h, n = self.history, self.keep
        parts = (part[-n:].copy() for part in (h.loc, h.variance, h.known[: len(h)], h.past))
        self.history = History(*parts)

    # --- forecasting -----------------------------------------------------------------------

    @property
    def horizon(self) -> int:
        """Steps that the fit was for."""
        return self.model.layout.steps

    @property
    def kind(self) -> type[Learner]:
        """Class of the learner, or of the members of an ensemble."""
        learner: Learner = self.model.learner
        return learner.method.kind if isinstance(learner, Ensemble) else type(learner)

    @property
    def recursive(self) -> bool:
        """Whether more steps than those of the fit can be forecast."""
        return isinstance(self.model, Recursion)

    def forecast(self, steps: int, known: Doubles | None) -> Forecast:
        """From the last value on."""
        there = self._with_values()
        history, now = self._with_future(known, steps), np.array([len(self.history) - 1])
        factors: Array = self.spread.factors * self.recent
        model, correlation, paths = self.model, self.spread.correlation[:steps, :steps], None
        if isinstance(model, Recursion):
            model = Recursion(model.one, steps, model.way, model.seed + self.updates)
            factors = _stretched(factors, steps)
            predictive = model.predictive(history, now, factors)
            if model.way == "paths":
                paths = self._paths(model, history, now, factors)
                correlation = np.stack([_correlation(p) for p in np.moveaxis(paths, 1, 0)])
            else:
                joint = model.joint(history, now)[1].numpy()
                std = np.sqrt(np.diagonal(joint, axis1=1, axis2=2))
                correlation = joint / (std[:, :, None] * std[:, None, :])
        else:
            predictive = model.predictive(history, now, factors[None])
            if steps < model.layout.steps:
                predictive = _first(predictive, steps)
        if self.model.units is None:
            mean, scale = (
                torch.from_numpy(p)[:, None] for p in (self.units.mean, self.units.scale)
            )
            predictive = predictive.double().rescaled(mean, scale)
        return Forecast(
            self.grid.stamps(self.now + 1, steps), self.names, predictive, correlation,
            self.units.transform, self.alone, paths, there,
        )  # fmt: skip

    def _with_values(self) -> npt.NDArray[np.bool_]:
        """Which series have a value in their last window; warns of those that have none."""
        lags = self.model.layout.lags
        there: npt.NDArray[np.bool_] = seen_at(
            self.history, lags, np.array([len(self.history) - 1])
        )[0]
        if there.all():
            return there
        ended = [name for name, seen in zip(self.names, there, strict=True) if not seen]
        words = (
            f"the last {lags} values of {', '.join(map(repr, ended))} are missing, and a forecast "
            "needs one of them: update() with later values, or leave out rows after the last value"
        )
        if not there.any():
            raise InvalidInput(f"no forecast from a window without a single value: {words}")
        warnings.warn(f"forecasts are NaN for some series: {words}", stacklevel=4)
        return there

    def _paths(self, model: Recursion, history: History, now: Any, factors: Array) -> Doubles:
        drawn = model.paths(history, now).numpy()
        mean = drawn.mean(0)
        drawn = mean + (drawn - mean) * np.sqrt(factors)
        if model.units is None:
            drawn = drawn * self.units.scale[:, None] + self.units.mean[:, None]
        made: Doubles = backward(self.units.transform, drawn)
        return made

    def _with_future(self, known: Doubles | None, steps: int) -> History:
        """The history with the covariates of the steps to come."""
        count, h = len(self.known.mean), self.history
        if count == 0:
            return h
        if known is None:
            raise InvalidInput(f"{count} known covariates: give their next {steps} values, known=")
        ahead = self.known.scaled(known).astype(np.float32)
        if len(ahead) < self.model.layout.steps:  # steps that nobody asked for
            more = self.model.layout.steps - len(ahead)
            ahead = np.concatenate([ahead, np.repeat(ahead[-1:], more, axis=0)])
        whole = np.concatenate([h.known[: len(h)], ahead])
        return History(h.loc, h.variance, whole, h.past)

    # --- streams ---------------------------------------------------------------------------

    def follow(self, y: Doubles, known: Doubles, past: Doubles, memory: float | None) -> None:
        """One more time: check the forecasts made of it, remember it, learn from it.

        Args:
            y: one value per series; NaN is missing.
            known: covariates of this time, and of as many after it as are at hand,
                ``[times, series, covariates]``.
            past: those without a known future.
            memory: rows that the learner is to remember; None for all.
        """
        scaled = self.units.scaled(y[None])[0].astype(np.float32)
        steps = self.model.layout.steps
        missing = np.isnan(scaled)
        spread = np.zeros_like(scaled)
        ahead = self.known.scaled(known[:steps]).astype(np.float32)
        if missing.any() or self.spread.memory is not None:
            said = self._say(ahead)
            if self.spread.memory is not None:
                z2 = said.outcomes(scaled)
                self.recent = followed(self.recent, z2, self.spread.memory)
            mean, variance = said.next
            scaled = np.where(missing, mean, scaled)
            forecast = missing & ~np.isnan(mean)  # a series may still have no value at all
            spread = np.where(forecast, variance, 0).astype(np.float32)
        self._append(scaled, spread, ahead[0], self.past.scaled(past).astype(np.float32))
        self.now += 1
        self.updates += 1
        taught = 1 if isinstance(self.model, Recursion) else steps
        if len(self.history) >= self.keep and not missing.all():
            self.model.update(self.history, len(self.history) - 1 - taught, memory)

    def _say(self, ahead: Array) -> Told:
        """What was forecast so far of the time that comes now.

        Steps whose known covariates are not at hand are forecast as if the last ones stayed, which
        the heads of earlier steps ask for, and are not told: their errors would not be those of
        forecasts that knew.
        """
        if self.told is None:
            self.told = Told.empty(len(self.names), self.model.layout.steps)
        h, at_hand = self.history, self.model.layout.steps
        if len(self.known.mean):
            at_hand = len(ahead)
            more = np.repeat(ahead[-1:], self.model.layout.steps - at_hand, axis=0)
            whole = np.concatenate([h.known[: len(h)], ahead, more])
            h = History(h.loc, h.variance, whole, h.past)
        found = self.model.predictive(h, np.array([len(h) - 1]), (self.spread.factors)[None])
        mean, variance = found.mean.numpy(), found.variance.numpy()
        if self.model.units is not None:
            mean = (mean - self.units.mean[:, None]) / self.units.scale[:, None]
            variance = variance / self.units.scale[:, None] ** 2
        unknown = np.arange(mean.shape[1]) >= at_hand
        there = seen_at(h, self.model.layout.lags, np.array([len(h.loc) - 1]))[0]
        unknown = unknown | ~there[:, None]
        self.told.add(*(np.where(unknown, np.nan, part) for part in (mean, variance)))
        return self.told

    def _append(self, loc: Array, variance: Array, known: Array, past: Array) -> None:
        h, row = self.history, (loc, variance, known, past)
        parts = [h.loc, h.variance, h.known, h.past]
        if len(h) >= self.keep:
            for part, new in zip(parts, row, strict=True):
                part[:-1] = part[1:]
                part[-1] = new
        else:
            self.history = History(
                *(np.concatenate([p, n[None]]) for p, n in zip(parts, row, strict=True))
            )


def _first(predictive: Any, steps: int) -> Any:
    """The first steps of a forecast."""
    if isinstance(predictive, NormalPredictive):
        parts = (predictive.loc, predictive.epistemic_variance, predictive.noise_variance)
        return NormalPredictive(*(part[:, :steps] for part in parts))
    raise InvalidInput(
        f"this likelihood forecasts all its steps together: ask for {predictive.mean.shape[1]}"
    )


def _stretched(factors: Array, steps: int) -> Array:
    """Factors of more steps than were measured: the last one goes on."""
    have = factors.shape[1]
    if steps <= have:
        return factors[:, :steps]
    return np.concatenate([factors, np.repeat(factors[:, -1:], steps - have, axis=1)], axis=1)


def _correlation(paths: Doubles) -> Doubles:
    centred = paths - paths.mean(0)
    cross = centred.T @ centred
    size = np.sqrt(np.maximum(cross.diagonal(), 1e-30))
    found: Doubles = cross / np.outer(size, size)
    return found
