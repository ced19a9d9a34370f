"""The forecaster: fit a series, say what comes next and how sure that is, and go on learning."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from torch import nn

from tractable.errors import InvalidInput, NotFitted
from tractable.forecast import files, fitting, rolling
from tractable.forecast.anomalies import Anomalies
from tractable.forecast.arguments import check_forget, recipe_of, wanted_of, whole
from tractable.forecast.backtest import Backtest
from tractable.forecast.choosing import Tried
from tractable.forecast.forecast import Forecast
from tractable.forecast.model import Setting
from tractable.forecast.panel import (
    Columns,
    Frame,
    Panel,
    covariates,
    index_of,
    is_frame,
    numbers,
    read,
)
from tractable.forecast.state import State
from tractable.forecast.times import COUNTED, as_stamps, steps_after
from tractable.forecast.windows import Level
from tractable.learners import TAGI, Learner
from tractable.likelihoods import Likelihood


class Forecaster:
    """Forecasts of one or several series, with error bars that were measured on held-out windows.

    A network looks at a window of the past and has an output for every step ahead, each with a
    noise of its own (``strategy="direct"``).  Several series share the network, each in units of
    its own.  Settings that are not given are chosen on the last windows, which are held out; these
    also set the noise of every step, say how the errors of steps hang together, and whether error
    bars should follow recent errors (``tractable.forecast.spread``).

    Exact: as the learner is.  Approximate: a Gaussian at every step, and a Gaussian copula between
    them (of ``Normal`` likelihoods, a joint Gaussian).

    Args:
        net: ``"linear"``, widths of hidden layers, or a ``torch.nn.Module`` from rows to
            ``horizon`` outputs (one, if recursive).  By default a linear model, or one hidden
            layer of 64 where held-out windows gain by it.
        horizon: steps to forecast.
        season: length of a season in steps; by default the usual one of the time stamps (24 for
            hours, 7 for days, 12 for months), and none without.
        likelihood: how values scatter; by default normal, with a noise that is inferred.  Counts
            (``Poisson``, ``NegativeBinomial``) are not standardised.
        learner: a class of learners, or its name.
        lags: length of the window; by default 2, 7 or 14 seasons, as held-out windows say.
        level: what a window is measured from: ``"last"`` value, ``"mean"`` or ``"none"``.
        transform: ``"log"``, ``"log1p"`` or ``"sqrt"``, applied before all else.
        strategy: ``"direct"``, or ``"recursive"``: a network that looks one step ahead is run on.
        spread: how a recursion carries its spread: ``"covariance"`` of the window, or ``"paths"``.
        members: size of an ensemble; 1 for a single network.
        epochs: over the windows; by default about 32,000 windows, from 4 to 40 epochs.
        batch_size: windows per update.
        stride: times between windows to learn from; more than 1 where neighbours are much alike.
        validation: times to hold out at the end; by default a fifth.
        refit: learn from those as well in the end.
        memory: times that recent errors are averaged over, to widen and narrow error bars; None
            never does, ``"auto"`` chooses. A number needs ``strategy="direct"``.
        forget: about how many of the last rows ``update`` remembers; None forgets nothing. Of
            ``TAGI`` only.
        sequence: give windows as ``[rows, lags, 1 + past covariates]``, for recurrent networks.
        options: further arguments of the learner.
        seed: seed of the learner.

    Attributes:
        setting_: what was chosen.
        tried_: what was tried on held-out windows.
        state_: everything that was learnt.

    >>> import numpy as np
    >>> t = np.arange(400)
    >>> y = 10 + np.sin(2 * np.pi * t / 12) + 0.1 * np.random.default_rng(0).standard_normal(400)
    >>> forecast = Forecaster(horizon=12, season=12).fit(y[:388]).predict()
    >>> bool(np.abs(forecast.mean - y[388:]).max() < 0.5), forecast.times[0].item()
    (True, 388)
    """

    def __init__(
        self,
        net: Any = None,
        horizon: int = 24,
        *,
        season: int | None = None,
        likelihood: Likelihood | None = None,
        learner: type[Learner] | str = TAGI,
        lags: int | None = None,
        level: Level | None = None,
        transform: str | None = None,
        strategy: Literal["direct", "recursive"] = "direct",
        spread: Literal["covariance", "paths"] = "covariance",
        members: int = 1,
        epochs: int | None = None,
        batch_size: int | None = None,
        stride: int = 1,
        validation: int | None = None,
        refit: bool = True,
        memory: float | Literal["auto"] | None = "auto",
        forget: float | None = None,
        sequence: bool = False,
        options: dict[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        self.net, self.horizon, self.season = net, horizon, season
        self.likelihood, self.learner = likelihood, learner
        self.lags, self.level, self.transform = lags, level, transform
        self.strategy, self.spread, self.members = strategy, spread, members
        self.epochs, self.batch_size, self.validation = epochs, batch_size, validation
        self.refit, self.memory, self.forget = refit, memory, forget
        self.sequence, self.options, self.seed, self.stride = sequence, options, seed, stride

    # --- as scikit-learn has it ------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {name: getattr(self, name) for name in _PARAMETERS}

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the constructor."""
        for name, value in params.items():
            if name not in _PARAMETERS:
                raise ValueError(f"a Forecaster has no parameter {name!r}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(Forecaster.__init__).parameters
        told = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value is not defaults[name].default
        ]
        return f"Forecaster({', '.join(told)})"

    # --- learning --------------------------------------------------------------------------

    def fit(
        self,
        y: Any,
        *,
        known: Any = None,
        past: Any = None,
        time: Any = None,
        target: Any = None,
        id: Any = None,
    ) -> Self:
        """Learn from one or several series.

        Args:
            y: values in order, NaN where missing: an array or tensor (series in columns), a
                mapping from names to series, or a frame or series of pandas.
            known: covariates whose future is known: names of columns of a frame, or an array with
                a row per time.
            past: covariates that are known up to now only.
            time: name of the column of time stamps; or, if ``y`` is no frame, the stamps.
            target: names of the columns to forecast; by default all that are nothing else.
            id: name of the column that says which series a row belongs to.

        Raises:
            InvalidInput: values that are not numbers, a constant series, time stamps that are
                repeated or irregular, or fewer values than the horizon needs.
        """
        panel, columns = self._read(y, known, past, time, target, id)
        season = whole(self.season, "season") or panel.grid.season
        state, tried = fitting.fitted(panel, recipe_of(self, panel), wanted_of(self, season))
        self.state_, self.tried_, self.setting_ = state, tried, state.setting
        self._columns = columns
        return self

    def predict(self, horizon: int | None = None, *, known: Any = None) -> Forecast:
        """The distribution of the next values.

        Args:
            horizon: steps; by default (and, if direct, at most) those of the fit.
            known: the next values of the known covariates, a row per step.
        """
        state = self._state
        steps = whole(horizon, "horizon") or state.horizon
        if steps > state.horizon and not state.recursive:
            raise InvalidInput(
                f"there are heads for {state.horizon} steps, and {steps} are asked for: fit with "
                f"horizon={steps}, or strategy='recursive'"
            )
        ahead = None
        if known is not None:
            known = _columns(known, self._columns.known)
            ahead = covariates(known, steps, len(state.names), "known")
            _same_number(ahead, state.known.mean, "known")
        return state.forecast(steps, ahead)

    def update(self, y: Any, *, known: Any = None, past: Any = None, time: Any = None) -> Self:
        """Learn from the next values as they come; memory does not grow.

        Args:
            y: one value (of each series), or several times in order; NaN is missing, and is
                replaced by what was forecast.
            known: known covariates of these times.  Error bars follow recent errors of a step as
                far as its covariates had come in the same call: one row at a time tells of the
                first step only, several rows of as many steps.
            past: other covariates of these times.
            time: their stamps, by default those of a frame or series of pandas that has dates;
                times that were left out count as missing.

        Raises:
            InvalidInput: among other things, a stamp that leaves out more than ten times what a
                window and its steps span, and more than 1,000 times: nothing that was seen says
                anything of what comes after, and a wrong year is more likely.
        """
        state = self._state
        check_forget(self.forget, state.kind)
        values, time = self._next(y), self._stamps(y) if time is None else time
        rows, series = values.shape
        known = covariates(_columns(known, self._columns.known), rows, series, "known")
        past = covariates(_columns(past, self._columns.past), rows, series, "past")
        _same_number(known, state.known.mean, "known")
        _same_number(past, state.past.mean, "past")
        state.units.scaled(values)  # says what cannot be transformed before anything is changed
        after = np.arange(rows)
        if time is not None:
            after = steps_after(state.grid, state.now, time, rows, state.longest_gap)
        values, known, past = (_with_gaps(part, after) for part in (values, known, past))
        for i, value in enumerate(values):
            state.follow(value, known[i:], past[i], self.forget)
        return self

    # --- looking back ----------------------------------------------------------------------

    def backtest(
        self,
        y: Any,
        *,
        start: Any = None,
        stride: int = 1,
        keep: bool = False,
        known: Any = None,
        past: Any = None,
        time: Any = None,
        target: Any = None,
        id: Any = None,
    ) -> Backtest:
        """Forecast from many origins of a series, and compare with what came.

        The network learns nothing meanwhile; error bars follow recent errors, as they would have.

        Args:
            y: the series, from as early on as the one that was fitted, and as far as it goes.
            start: first time to be forecast: a row number, a time stamp, or a share of the series;
                by default the first after those that were learned by ``fit`` and ``update``; if too
                few follow, the last fifth, of which some or all were learned.
            stride: times between origins.
            keep: keep every forecast (``mean``, ``std``, ``actual``).
            known: as in ``fit``.
            past: as in ``fit``.
            time: as in ``fit``.
            target: as in ``fit``.
            id: as in ``fit``.
        """
        state = self._state
        panel = self._panel(y, known, past, time, target, id)
        seen = state.now + 1 - self._ahead_of(panel)
        first = self._first(panel, start, seen) - 1
        steps, lags = state.model.layout.steps, state.model.layout.lags
        if first < lags - 1:
            raise InvalidInput(f"the first forecast needs {lags} values before it, got {first + 1}")
        if first + steps >= len(panel):
            left = len(panel) - 1 - first
            raise InvalidInput(f"no origin has {steps} known values after it: {left} are left")
        if stride < 1:
            raise ValueError(f"stride must be at least 1, got {stride}")
        return rolling.backtest(state, panel, first, stride, seen, keep=keep)

    def anomalies(
        self,
        y: Any,
        *,
        known: Any = None,
        past: Any = None,
        time: Any = None,
        target: Any = None,
        id: Any = None,
    ) -> Anomalies:
        """How surprising each value is, given those before it.

        Args:
            y: a series, as in ``fit``.
            known: as in ``fit``.
            past: as in ``fit``.
            time: as in ``fit``.
            target: as in ``fit``.
            id: as in ``fit``.
        """
        panel = self._panel(y, known, past, time, target, id)
        return Anomalies.of(self._state, panel)

    # --- files -----------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the fitted forecaster to one file, atomically: tensors and JSON."""
        if not hasattr(self, "state_"):
            raise NotFitted("this Forecaster is not fitted yet: there is nothing to save")
        files.save(self, path, self._columns)

    @classmethod
    def load(cls, path: str | Path, net: nn.Module | None = None) -> Self:
        """Read a forecaster that ``save`` wrote; nothing that the file names is imported or run.

        Args:
            path: the file.
            net: the network, where it was a module of the user's own.
        """
        self = cls()
        self._columns = files.load(self, path, net)
        return self

    # --- inside ----------------------------------------------------------------------------

    @property
    def _state(self) -> State:
        if not hasattr(self, "state_"):
            raise NotFitted("this Forecaster is not fitted yet: call fit first")
        return self.state_

    def _read(
        self, y: Any, known: Any, past: Any, time: Any, target: Any, id: Any
    ) -> tuple[Panel, Columns]:
        if not is_frame(y):
            return read(
                y, Columns(target=target, id=id), known=known, past=past, time=time
            ), Columns()
        given = (time, target, id, known, past)
        columns = self._columns if hasattr(self, "state_") else Columns()
        if any(part is not None for part in given):
            columns = Columns(*given).resolved(Frame(y))
        return read(y, columns), columns

    def _next(self, y: Any) -> npt.NDArray[np.float64]:
        """Values that come after the last, ``[times, series]``."""
        names = self._state.names
        if is_frame(y) and set(names) <= set(map(str, y.columns)):
            return Frame(y).table([Frame(y).name(name) for name in names])
        values = numbers(y, "the values")
        if values.ndim < 2:
            values = values.reshape(-1, 1) if len(names) == 1 else values.reshape(1, -1)
        if values.ndim > 2 or values.shape[1] != len(names):
            raise InvalidInput(
                f"fitted to {len(names)} series: the values need one column for each, got shape "
                f"{np.shape(y)}"
            )
        return values

    def _stamps(self, y: Any) -> npt.NDArray[Any] | None:
        """Dates that a frame or series of pandas brings along, if the fit had dates."""
        named = self._columns.time
        if self._state.grid.kind == "number":
            return None
        if is_frame(y) and named is not None and named in map(str, y.columns):
            return as_stamps(Frame(y)[named], named)
        index = index_of(y)
        return index if index is not None and index.dtype.kind == "M" else None

    def _panel(self, y: Any, known: Any, past: Any, time: Any, target: Any, id: Any) -> Panel:
        """A later panel of the series that were fitted, in the order of the fit."""
        state = self._state
        panel = self._read(y, known, past, time, target, id)[0].ordered(state.names)
        if len(panel.names) != len(state.names):
            other = sorted(set(panel.names) ^ set(state.names))
            raise InvalidInput(
                f"fitted to {len(state.names)} series, got {len(panel.names)}: give the same "
                f"series, NaN where values are missing ({', '.join(other[:5])} on one side only)"
            )
        if panel.known.shape[2] != len(state.known.mean):
            raise InvalidInput(f"fitted with {len(state.known.mean)} known covariates: give them")
        if panel.past.shape[2] != len(state.past.mean):
            raise InvalidInput(f"fitted with {len(state.past.mean)} past covariates: give them")
        counted = panel.grid is COUNTED or state.grid is COUNTED
        if not (counted or panel.grid.same_step(state.grid)):
            raise InvalidInput(
                f"fitted to steps of {state.grid.words}, got time stamps with steps of "
                f"{panel.grid.words}"
            )
        return panel

    def _ahead_of(self, panel: Panel) -> int:
        """Steps from the first time of the fit to the first of a panel."""
        if panel.grid is COUNTED or self._state.grid is COUNTED:
            return 0
        return int(self._state.grid.places(panel.stamps[:1])[0])

    def _first(self, panel: Panel, start: Any, seen: int) -> int:
        """Row of the first time to be forecast."""
        if start is None:
            free = len(panel) - self._state.model.layout.steps
            return seen if 0 < seen <= free else min(int(0.8 * len(panel)), free)
        if isinstance(start, float) and 0 < start < 1:
            return int(start * len(panel))
        if isinstance(start, int | np.integer):
            return int(start)
        return int(panel.grid.places(as_stamps(np.array([start])))[0])


_PARAMETERS = [n for n in inspect.signature(Forecaster.__init__).parameters if n != "self"]


def _columns(given: Any, names: tuple[str, ...]) -> Any:
    """The covariates of a frame that were named in the fit; what else is given as it is."""
    if not (is_frame(given) and names):
        return given
    frame = Frame(given)
    return frame.table([frame.name(name) for name in names])


def _same_number(given: npt.NDArray[Any], wanted: npt.NDArray[Any], what: str) -> None:
    if given.shape[2] != len(wanted):
        raise InvalidInput(f"fitted with {len(wanted)} {what} covariates, got {given.shape[2]}")


def _with_gaps(rows: npt.NDArray[Any], after: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """A row for every time up to the last of these; NaN where there is none."""
    whole = np.full((int(after.max(initial=-1)) + 1, *rows.shape[1:]), np.nan)
    whole[after] = rows
    return whole


__all__ = ["Forecaster", "Setting", "Tried"]
