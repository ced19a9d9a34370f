"""State of a fitted forecaster: model, end of the series, and pending forecasts.

The stored part of the series has the length of one window and the steps after it, however long a
stream becomes.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tractable.errors import InvalidInput
from tractable.forecast.calibration import ErrorCalibration, ewma_step
from tractable.forecast.config import HyperParameters
from tractable.forecast.direct import DirectModel
from tractable.forecast.forecast import Forecast
from tractable.forecast.recursive import RecursiveModel
from tractable.forecast.scaling import CovariateScaler, SeriesScaler, backward
from tractable.forecast.time_index import TimeGrid
from tractable.forecast.windows import Array, History, windows_with_values
from tractable.learners import Ensemble, Learner
from tractable.predictive import NormalPredictive

Doubles = npt.NDArray[np.float64]
_MAX_GAP_WINDOWS, _MIN_MAX_GAP = 10, 1000


@dataclass
class PendingForecasts:
    """The forecasts of the last origins of a stream, whose outcomes are still to come.

    Attributes:
        mean: means ``[origins, series, steps]``, a ring buffer with one origin per step; NaN where
            there is no forecast.
        variance: variances of the same.
        count: number of origins so far.
    """

    mean: Array
    variance: Array
    count: int = 0

    @classmethod
    def empty(cls, series: int, steps: int) -> PendingForecasts:
        """Return a buffer without forecasts."""
        nothing = np.full((steps, series, steps), np.nan, np.float32)
        return cls(nothing, nothing.copy())

    def add(self, mean: Array, variance: Array) -> None:
        """Add the forecasts of the next origin, ``[series, steps]``."""
        at = self.count % len(self.mean)
        self.mean[at], self.variance[at] = mean, variance
        self.count += 1

    @property
    def next(self) -> tuple[Array, Array]:
        """Mean and variance of the next time, from the last origin, ``[series]``."""
        at = (self.count - 1) % len(self.mean)
        return self.mean[at, :, 0], self.variance[at, :, 0]

    def squared_errors(self, y: Array) -> Array:
        """Return the squared error of each step for value ``y``, in units of its variance."""
        steps = len(self.mean)
        ahead = np.arange(steps)
        at = (self.count - 1 - ahead) % steps
        mean, variance = (part[at, :, ahead].T for part in (self.mean, self.variance))
        z2: Array = (y[:, None] - mean) ** 2 / variance
        return z2


@dataclass
class ForecasterState:
    """Everything that a forecaster has learned.

    Attributes:
        model: trained model.
        params: selected hyperparameters.
        scaler: scaler of the series.
        future_scaler: scaler of covariates with a known future.
        past_scaler: scaler of covariates without a known future.
        calibration: calibration of the forecast errors.
        error_ewma: average of recent squared errors, ``[series, steps]``.
        history: end of the series, scaled.
        grid: time stamps.
        now: step of the last value on the grid.
        series_names: names of the series.
        squeezed: whether it is one series given as a vector.
        season_length: length of a season, in time steps.
        n_updates: number of values after the fit.
        pending: latest forecasts of a stream; None before the first update.
    """

    model: DirectModel | RecursiveModel
    params: HyperParameters
    scaler: SeriesScaler
    future_scaler: CovariateScaler
    past_scaler: CovariateScaler
    calibration: ErrorCalibration
    error_ewma: Array
    history: History
    grid: TimeGrid
    now: int
    series_names: tuple[str, ...]
    squeezed: bool
    season_length: int
    n_updates: int = 0
    pending: PendingForecasts | None = field(default=None, repr=False)

    @property
    def n_stored(self) -> int:
        """Number of times to store: a window, and the steps that it is trained on."""
        model = self.model
        layout = model.one_step.layout if isinstance(model, RecursiveModel) else model.layout
        return layout.lags + layout.steps

    @property
    def max_gap(self) -> int:
        """Number of times that may be missing in a row: ten windows, and at least 1,000 times.

        After so many, forecasts depend on other forecasts only.
        """
        return max(_MAX_GAP_WINDOWS * self.n_stored, _MIN_MAX_GAP)

    def trim(self) -> None:
        """Remove what no window will need again from the history."""
        h, n = self.history, self.n_stored
        parts = (h.loc, h.variance, h.future_covariates[: len(h)], h.past_covariates)
        self.history = History(*(part[-n:].copy() for part in parts))

    # --- forecasting -----------------------------------------------------------------------

    @property
    def horizon(self) -> int:
        """Number of forecast steps of the fit."""
        return self.model.layout.steps

    @property
    def learner_class(self) -> type[Learner]:
        """Class of the learner, or of the networks of an ensemble."""
        learner: Learner = self.model.learner
        return learner.method.kind if isinstance(learner, Ensemble) else type(learner)

    @property
    def recursive(self) -> bool:
        """Whether forecasts can have more steps than those of the fit."""
        return isinstance(self.model, RecursiveModel)

    def forecast(self, steps: int, future_covariates: Doubles | None) -> Forecast:
        """Return the forecast of the next steps.

        Args:
            steps: number of steps.
            future_covariates: covariates of these steps, ``[steps, series, covariates]``.
        """
        has_forecast = self._has_values()
        history = self._with_future(future_covariates, steps)
        now = np.array([len(self.history) - 1])
        factors: Array = self.calibration.noise_factors * self.error_ewma
        model, paths = self.model, None
        correlation = self.calibration.correlation[:steps, :steps]
        if isinstance(model, RecursiveModel):
            seed = model.seed + self.n_updates
            model = RecursiveModel(model.one_step, steps, model.uncertainty, seed)
            factors = _extended(factors, steps)
            predictive = model.predictive(history, now, factors)
            if model.uncertainty == "paths":
                paths = self._sample_paths(model, history, now, factors)
                correlation = np.stack([_correlation(p) for p in np.moveaxis(paths, 1, 0)])
            else:
                joint = model.joint(history, now)[1].numpy()
                std = np.sqrt(np.diagonal(joint, axis1=1, axis2=2))
                correlation = joint / (std[:, :, None] * std[:, None, :])
        else:
            predictive = model.predictive(history, now, factors[None])
            if steps < model.layout.steps:
                predictive = _first_steps(predictive, steps)
        if self.model.target_units is None:
            mean, scale = (
                torch.from_numpy(p)[:, None] for p in (self.scaler.mean, self.scaler.scale)
            )
            predictive = predictive.double().rescaled(mean, scale)
        return Forecast(
            self.grid.stamps(self.now + 1, steps), self.series_names, predictive, correlation,
            self.scaler.transform, self.squeezed, paths, has_forecast,
        )  # fmt: skip

    def _has_values(self) -> npt.NDArray[np.bool_]:
        """Return which series have a value in their last window, with a warning for the others."""
        lags = self.model.layout.lags
        last = np.array([len(self.history) - 1])
        has_values: npt.NDArray[np.bool_] = windows_with_values(self.history, lags, last)[0]
        if has_values.all():
            return has_values
        ended = [n for n, some in zip(self.series_names, has_values, strict=True) if not some]
        reason = (
            f"the last {lags} values of {', '.join(map(repr, ended))} are missing, and a forecast "
            "needs one of them: update() with later values, or leave out rows after the last value"
        )
        if not has_values.any():
            raise InvalidInput(f"no forecast from a window without a single value: {reason}")
        warnings.warn(f"forecasts are NaN for some series: {reason}", stacklevel=4)
        return has_values

    def _sample_paths(
        self, model: RecursiveModel, history: History, now: Any, factors: Array
    ) -> Doubles:
        """Return sample paths in the units of the data, with calibrated deviations."""
        paths = model.paths(history, now).numpy()
        mean = paths.mean(0)
        paths = mean + (paths - mean) * np.sqrt(factors)
        if model.target_units is None:
            paths = paths * self.scaler.scale[:, None] + self.scaler.mean[:, None]
        found: Doubles = backward(self.scaler.transform, paths)
        return found

    def _with_future(self, future_covariates: Doubles | None, steps: int) -> History:
        """Return the history with the covariates of the next steps."""
        count, h = len(self.future_scaler.mean), self.history
        if count == 0:
            return h
        if future_covariates is None:
            raise InvalidInput(
                f"fitted with {count} future covariates: give their next {steps} values, "
                "future_covariates="
            )
        ahead = self.future_scaler.scaled(future_covariates).astype(np.float32)
        if len(ahead) < self.model.layout.steps:  # outputs that are not asked for
            ahead = _repeat_last(ahead, self.model.layout.steps)
        full = np.concatenate([h.future_covariates[: len(h)], ahead])
        return History(h.loc, h.variance, full, h.past_covariates)

    # --- streams ---------------------------------------------------------------------------

    def step(self, y: Doubles, future: Doubles, past: Doubles, memory_rows: float | None) -> None:
        """Score pending forecasts with the next value, append it, and update the learner.

        In this order, so that the value has not been learned when its forecasts are scored.

        Args:
            y: one value per series; NaN where missing.
            future: covariates with a known future, of this time and as many later ones as are
                known, ``[times, series, covariates]``.
            past: covariates without a known future, of this time, ``[series, covariates]``.
            memory_rows: number of rows that the learner effectively remembers; None for all.
        """
        scaled = self.scaler.scaled(y[None])[0].astype(np.float32)
        steps = self.model.layout.steps
        missing = np.isnan(scaled)
        variance = np.zeros_like(scaled)
        ahead = self.future_scaler.scaled(future[:steps]).astype(np.float32)
        if missing.any() or self.calibration.error_window is not None:
            pending = self._predict_pending(ahead)
            if self.calibration.error_window is not None:
                z2 = pending.squared_errors(scaled)
                self.error_ewma = ewma_step(self.error_ewma, z2, self.calibration.error_window)
            mean, next_variance = pending.next
            scaled = np.where(missing, mean, scaled)
            forecast = missing & ~np.isnan(mean)  # a series may still have no value at all
            variance = np.where(forecast, next_variance, 0).astype(np.float32)
        self._append(scaled, variance, ahead[0], self.past_scaler.scaled(past).astype(np.float32))
        self.now += 1
        self.n_updates += 1
        target_steps = 1 if isinstance(self.model, RecursiveModel) else steps
        if len(self.history) >= self.n_stored and not missing.all():
            self.model.update(self.history, len(self.history) - 1 - target_steps, memory_rows)

    def _predict_pending(self, ahead: Array) -> PendingForecasts:
        """Add the forecasts of the last origin, and return all pending forecasts.

        Steps whose future covariates are unknown are computed with the last known ones, because the
        network needs inputs, and recorded as NaN: their errors would not be those of forecasts
        that knew the covariates.
        """
        steps = self.model.layout.steps
        if self.pending is None:
            self.pending = PendingForecasts.empty(len(self.series_names), steps)
        h, n_known = self.history, steps
        if len(self.future_scaler.mean):
            n_known = len(ahead)
            full = [h.future_covariates[: len(h)], _repeat_last(ahead, steps)]
            h = History(h.loc, h.variance, np.concatenate(full), h.past_covariates)
        factors = self.calibration.noise_factors[None]
        found = self.model.predictive(h, np.array([len(h) - 1]), factors)
        mean, variance = found.mean.numpy(), found.variance.numpy()
        if self.model.target_units is not None:
            mean = (mean - self.scaler.mean[:, None]) / self.scaler.scale[:, None]
            variance = variance / self.scaler.scale[:, None] ** 2
        unknown = np.arange(mean.shape[1]) >= n_known
        last = np.array([len(h.loc) - 1])
        has_values = windows_with_values(h, self.model.layout.lags, last)[0]
        unknown = unknown | ~has_values[:, None]
        self.pending.add(*(np.where(unknown, np.nan, part) for part in (mean, variance)))
        return self.pending

    def _append(self, loc: Array, variance: Array, future: Array, past: Array) -> None:
        h, row = self.history, (loc, variance, future, past)
        parts = [h.loc, h.variance, h.future_covariates, h.past_covariates]
        if len(h) >= self.n_stored:
            for part, new in zip(parts, row, strict=True):
                part[:-1] = part[1:]
                part[-1] = new
        else:
            self.history = History(
                *(np.concatenate([p, n[None]]) for p, n in zip(parts, row, strict=True))
            )


def _first_steps(predictive: Any, steps: int) -> Any:
    """Return the distribution of the first steps."""
    if isinstance(predictive, NormalPredictive):
        parts = (predictive.loc, predictive.epistemic_variance, predictive.noise_variance)
        return NormalPredictive(*(part[:, :steps] for part in parts))
    raise InvalidInput(
        f"this likelihood forecasts all {predictive.mean.shape[1]} steps together: use "
        f"predict(horizon={predictive.mean.shape[1]})"
    )


def _extended(factors: Array, steps: int) -> Array:
    """Return factors of so many steps; the last measured one holds for all later steps."""
    measured = factors.shape[1]
    if steps <= measured:
        return factors[:, :steps]
    return np.concatenate([factors, np.repeat(factors[:, -1:], steps - measured, axis=1)], axis=1)


def _repeat_last(ahead: Array, steps: int) -> Array:
    """Return covariates of so many steps, by repeating those of the last step."""
    return np.concatenate([ahead, np.repeat(ahead[-1:], steps - len(ahead), axis=0)])


def _correlation(paths: Doubles) -> Doubles:
    centered = paths - paths.mean(0)
    cross = centered.T @ centered
    size = np.sqrt(np.maximum(cross.diagonal(), 1e-30))
    found: Doubles = cross / np.outer(size, size)
    return found
