"""The forecaster: fitting, forecasts, online updates, backtests, anomaly scores and files."""

from __future__ import annotations

import inspect
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from torch import nn

from tractable.errors import InvalidInput, NotFitted
from tractable.forecast import serialization
from tractable.forecast.anomalies import Anomalies
from tractable.forecast.backtest import Backtest, run_backtest
from tractable.forecast.config import (
    Uncertainty,
    check_memory_rows,
    fit_options,
    model_config,
    positive_int,
)
from tractable.forecast.data_frames import ColumnRoles
from tractable.forecast.forecast import Forecast
from tractable.forecast.inputs import (
    check_panel,
    count_learned_rows,
    first_forecast_row,
    later_covariates,
    later_times,
    later_values,
    read_series,
    with_gaps,
)
from tractable.forecast.model_selection import cv_results, fit_forecaster
from tractable.forecast.panel import Panel
from tractable.forecast.state import ForecasterState
from tractable.forecast.time_index import steps_until
from tractable.forecast.windows import Normalization
from tractable.learners import TAGI, Learner
from tractable.likelihoods import Likelihood


class Forecaster:
    """Probabilistic forecasts of one or several time series.

    A network maps a window of past values to all forecast steps, each with its own noise variance
    (``strategy="direct"``). Several series share the network, and each is standardized by itself.
    Hyperparameters that are not given are selected on validation windows at the end of the series.
    On these windows the noise of each step, the correlation of the steps and the adaptation to
    recent errors are calibrated as well (``tractable.forecast.calibration``).

    Exact: as the learner. Approximate: a Gaussian at each step, and a Gaussian copula between the
    steps (for ``Normal`` likelihoods, a joint Gaussian).

    Args:
        net: ``"linear"``, widths of hidden layers, or a ``torch.nn.Module`` from rows to
            ``horizon`` outputs (one output if recursive). Default: a linear model, or one hidden
            layer of 64 units where that has a lower validation error.
        horizon: number of forecast steps.
        season_length: length of a season in time steps. Default: the usual one of the time stamps
            (24 for hours, 7 for days, 12 for months), 1 without time stamps.
        likelihood: likelihood of the values. Default: ``Normal`` with learned noise. The targets of
            counts (``Poisson``, ``NegativeBinomial``) are not standardized.
        learner: class of learners, or its name.
        lags: length of the window in time steps. Default: 2, 7 or 14 seasons, selected.
        normalize_by: value subtracted from a window and added to its forecast: ``"last"``,
            ``"mean"`` or ``"none"``. Default: ``"last"`` or ``"mean"``, selected.
        transform: ``"log"``, ``"log1p"`` or ``"sqrt"``, applied to the values first.
        strategy: ``"direct"`` (one output per step) or ``"recursive"`` (an iterated step).
        uncertainty: for the recursive strategy, ``"covariance"`` of the window, or ``"paths"``.
        n_estimators: number of networks in an ensemble; 1 for a single network.
        epochs: number of passes over the windows. Default: 4 to 40, about 32,000 windows in total.
        batch_size: windows per update. Default: that of the learner.
        window_stride: number of times between training windows.
        n_validation: number of times at the end for validation. Default: a fifth of the series.
        refit: whether to train on the validation times as well in the end.
        error_window: number of times over which recent errors are averaged to scale the prediction
            intervals; None for no scaling; ``"auto"`` selects 500 or None. A number needs
            ``strategy="direct"``.
        memory_rows: effective number of past rows that ``update`` remembers; None for all. ``TAGI``
            only.
        sequence: pass windows as ``[rows, lags, 1 + past covariates]``, for recurrent networks.
        learner_kwargs: further arguments of the learner.
        seed: random seed of the learner.

    Attributes:
        best_params_: selected hyperparameters: ``lags``, ``hidden_layer_sizes``, ``normalize_by``,
            ``gain``, ``epochs``.
        cv_results_: validation scores of all candidates in the form of ``GridSearchCV``:
            ``params``, ``mean_test_score``, ``rank_test_score``.
        state_: everything that was learned.

    >>> import numpy as np
    >>> t = np.arange(400)
    >>> y = 10 + np.sin(2 * np.pi * t / 12) + 0.1 * np.random.default_rng(0).standard_normal(400)
    >>> forecast = Forecaster(horizon=12, season_length=12).fit(y[:388]).predict()
    >>> bool(np.abs(forecast.mean - y[388:]).max() < 0.5), forecast.times[0].item()
    (True, 388)
    """

    state_: ForecasterState
    best_params_: dict[str, Any]
    cv_results_: dict[str, Any]
    _columns: ColumnRoles

    def __init__(
        self,
        net: Any = None,
        horizon: int = 24,
        *,
        season_length: int | None = None,
        likelihood: Likelihood | None = None,
        learner: type[Learner] | str = TAGI,
        lags: int | None = None,
        normalize_by: Normalization | None = None,
        transform: str | None = None,
        strategy: Literal["direct", "recursive"] = "direct",
        uncertainty: Uncertainty = "covariance",
        n_estimators: int = 1,
        epochs: int | None = None,
        batch_size: int | None = None,
        window_stride: int = 1,
        n_validation: int | None = None,
        refit: bool = True,
        error_window: float | Literal["auto"] | None = "auto",
        memory_rows: float | None = None,
        sequence: bool = False,
        learner_kwargs: dict[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        self.net, self.horizon, self.season_length = net, horizon, season_length
        self.likelihood, self.learner = likelihood, learner
        self.lags, self.normalize_by, self.transform = lags, normalize_by, transform
        self.strategy, self.uncertainty, self.n_estimators = strategy, uncertainty, n_estimators
        self.epochs, self.batch_size, self.window_stride = epochs, batch_size, window_stride
        self.n_validation, self.refit = n_validation, refit
        self.error_window, self.memory_rows = error_window, memory_rows
        self.sequence, self.learner_kwargs, self.seed = sequence, learner_kwargs, seed

    # --- scikit-learn interface ------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor; ``deep`` is ignored."""
        return {name: getattr(self, name) for name in _PARAMETERS}

    def set_params(self, **params: Any) -> Self:
        """Set ``params``, arguments of the constructor by name, for the next ``fit``."""
        for name, value in params.items():
            if name not in _PARAMETERS:
                raise ValueError(f"Forecaster has no parameter {name!r}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(Forecaster.__init__).parameters
        params = self.get_params().items()
        changed = [f"{n}={value!r}" for n, value in params if value is not defaults[n].default]
        return f"Forecaster({', '.join(changed)})"

    # --- learning --------------------------------------------------------------------------

    def fit(
        self,
        y: Any,
        *,
        future_covariates: Any = None,
        past_covariates: Any = None,
        times: Any = None,
        time_col: Any = None,
        target_cols: Any = None,
        id_col: Any = None,
        progress: bool | None = None,
    ) -> Self:
        """Fit to one or several series.

        Args:
            y: values in order of time, NaN where missing: an array or tensor (series in columns), a
                mapping from names to series, or a pandas data frame or series.
            future_covariates: covariates whose future is known: names of columns of a data frame,
                or an array with a row per time.
            past_covariates: covariates that are known up to the present only, likewise.
            times: time stamps, one per row, if ``y`` is no data frame.
            time_col: column of time stamps of a data frame. Default: its index.
            target_cols: columns of a data frame to forecast. Default: all without another role.
            id_col: column of a long data frame with the name of the series of each row.
            progress: show a progress bar. Default: on a terminal only.

        Raises:
            InvalidInput: values are not numbers, a series is constant, time stamps are repeated or
                irregular, or there are fewer values than the horizon needs.
        """
        previous = self._columns if hasattr(self, "state_") else ColumnRoles()
        panel, columns = read_series(
            y, previous, future_covariates, past_covariates, times, time_col, target_cols, id_col
        )
        season_length = positive_int(self.season_length, "season_length")
        options = fit_options(self, season_length or panel.grid.season_length)
        state, trials = fit_forecaster(panel, model_config(self, panel), options, progress)
        self.state_, self.cv_results_ = state, cv_results(trials)
        self.best_params_ = asdict(state.params)
        self._columns = columns
        return self

    def predict(self, horizon: int | None = None, *, future_covariates: Any = None) -> Forecast:
        """Return the distribution of the next values.

        Args:
            horizon: number of steps. Default (and maximum for ``strategy="direct"``): that of the
                fit.
            future_covariates: covariates of these steps, a row per step.

        Raises:
            NotFitted: the forecaster is not fitted.
            InvalidInput: the horizon is too long, or covariates are missing.
        """
        state = self._fitted_state
        steps = positive_int(horizon, "horizon") or state.horizon
        if steps > state.horizon and not state.recursive:
            raise InvalidInput(
                f"the network has outputs for {state.horizon} steps, and {steps} are asked for: "
                f"fit with horizon={steps}, or strategy='recursive'"
            )
        ahead = None
        if future_covariates is not None:
            ahead = self._later(future_covariates, (steps, len(state.series_names)), "future")
        return state.forecast(steps, ahead)

    def update(
        self,
        y: Any,
        *,
        future_covariates: Any = None,
        past_covariates: Any = None,
        times: Any = None,
    ) -> Self:
        """Learn from the next values online; the stored part of the series does not grow.

        Args:
            y: one value (of each series), or several times in order. Missing values (NaN) are
                replaced by their forecasts.
            future_covariates: covariates with a known future, of these times. Prediction intervals
                adapt to the errors of as many steps as have covariates in the same call: with one
                row per call, to the errors of the first step only.
            past_covariates: other covariates of these times.
            times: time stamps. Default: those of a pandas object with dates. Times that are left
                out count as missing.

        Raises:
            InvalidInput: e.g. a time stamp after a gap of more than ten windows and 1,000 times.
        """
        state = self._fitted_state
        check_memory_rows(self.memory_rows, state.learner_class)
        values = later_values(y, state.series_names)
        if times is None:
            times = later_times(y, self._columns, state.grid)
        rows, series = values.shape
        future = self._later(future_covariates, (rows, series), "future")
        past = self._later(past_covariates, (rows, series), "past")
        state.scaler.scaled(values)  # raises before anything is changed
        steps = np.arange(rows)
        if times is not None:
            steps = steps_until(state.grid, state.now, times, rows, state.max_gap)
        values, future, past = (with_gaps(part, steps) for part in (values, future, past))
        for i, value in enumerate(values):
            state.step(value, future[i:], past[i], self.memory_rows)
        return self

    # --- evaluation ------------------------------------------------------------------------

    def backtest(
        self,
        y: Any,
        *,
        start: Any = None,
        stride: int = 1,
        keep_forecasts: bool = False,
        future_covariates: Any = None,
        past_covariates: Any = None,
        times: Any = None,
        time_col: Any = None,
        target_cols: Any = None,
        id_col: Any = None,
    ) -> Backtest:
        """Return the scores of forecasts from many origins of a series.

        The network does not learn meanwhile. Prediction intervals adapt to recent errors, as they
        would have at that time.

        Args:
            y: the series, from the beginning of the fitted one or later, up to the last value.
            start: first time to forecast: a row number, a time stamp, or a share of the series.
                Default: the first time after those learned by ``fit`` and ``update``; if too few
                follow, the last fifth, of which some or all were learned.
            stride: number of times between origins.
            keep_forecasts: keep every forecast (``mean``, ``std``, ``actual``).
            future_covariates: as in ``fit``.
            past_covariates: as in ``fit``.
            times: as in ``fit``.
            time_col: as in ``fit``.
            target_cols: as in ``fit``.
            id_col: as in ``fit``.
        """
        state = self._fitted_state
        panel = self._read_like_fit(
            y, future_covariates, past_covariates, times, time_col, target_cols, id_col
        )
        steps, lags = state.model.layout.steps, state.model.layout.lags
        n_learned = count_learned_rows(panel, state)
        first = first_forecast_row(panel, start, n_learned, steps) - 1
        if first < lags - 1:
            raise InvalidInput(f"the first forecast needs {lags} values before it, got {first + 1}")
        if first + steps >= len(panel):
            rest = len(panel) - 1 - first
            raise InvalidInput(f"no origin has {steps} known values after it: {rest} are left")
        if stride < 1:
            raise ValueError(f"stride must be at least 1, got {stride}")
        return run_backtest(state, panel, first, stride, n_learned, keep_forecasts=keep_forecasts)

    def anomalies(
        self,
        y: Any,
        *,
        future_covariates: Any = None,
        past_covariates: Any = None,
        times: Any = None,
        time_col: Any = None,
        target_cols: Any = None,
        id_col: Any = None,
    ) -> Anomalies:
        """Return how unlikely each value is, given the values before it.

        Args:
            y: the series, as in ``fit``.
            future_covariates: as in ``fit``.
            past_covariates: as in ``fit``.
            times: as in ``fit``.
            time_col: as in ``fit``.
            target_cols: as in ``fit``.
            id_col: as in ``fit``.
        """
        panel = self._read_like_fit(
            y, future_covariates, past_covariates, times, time_col, target_cols, id_col
        )
        return Anomalies.score(self._fitted_state, panel)

    # --- files -----------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the fitted forecaster to one file, atomically, as tensors and JSON.

        Raises:
            NotFitted: the forecaster is not fitted.
        """
        _ = self._fitted_state
        serialization.save(self, path, self._columns)

    @classmethod
    def load(cls, path: str | Path, *, net: nn.Module | None = None) -> Self:
        """Return the forecaster of a file, without importing or running what it names.

        Args:
            path: file written by ``save``.
            net: the network, if it was a module of the user.

        Raises:
            FileNotFoundError: there is no such file.
            InvalidModelFile: the file is damaged or holds no forecaster.
        """
        self = cls()
        self._columns = serialization.load(self, path, net)
        return self

    # --- internal --------------------------------------------------------------------------

    @property
    def _fitted_state(self) -> ForecasterState:
        if hasattr(self, "state_"):
            return self.state_
        raise NotFitted("this Forecaster is not fitted yet: call fit first")

    def _read_like_fit(self, y: Any, future: Any, past: Any, times: Any, *columns: Any) -> Panel:
        """Return a panel of the fitted series, in the order of the fit."""
        state = self._fitted_state
        panel, _ = read_series(y, self._columns, future, past, times, *columns)
        panel = panel.reordered(state.series_names)
        check_panel(panel, state)
        return panel

    def _later(
        self, given: Any, shape: tuple[int, int], kind: Literal["future", "past"]
    ) -> npt.NDArray[np.float64]:
        """Return covariates of later times, ``[times, series, covariates]``."""
        names = getattr(self._columns, f"{kind}_covariates")
        scaler = getattr(self._fitted_state, f"{kind}_scaler")
        return later_covariates(given, names, shape, len(scaler.mean), f"{kind}_covariates")


_PARAMETERS = [n for n in inspect.signature(Forecaster.__init__).parameters if n != "self"]
