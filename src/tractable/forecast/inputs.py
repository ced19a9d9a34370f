"""User data in the light of a fitted forecaster: later values, time stamps and covariates."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tractable.errors import InvalidInput
from tractable.forecast.data_frames import ColumnRoles, LabeledFrame, to_numbers
from tractable.forecast.panel import (
    Panel,
    is_dataframe,
    read_panel,
    time_index_of,
    to_covariates,
)
from tractable.forecast.state import ForecasterState
from tractable.forecast.time_index import ROW_NUMBERS, TimeGrid, to_timestamps

Array = npt.NDArray[np.float64]


def read_series(
    y: Any, previous: ColumnRoles, future: Any, past: Any, times: Any, *columns: Any
) -> tuple[Panel, ColumnRoles]:
    """Return the panel of user data, and the roles of the columns of a data frame.

    Args:
        y: series in any form.
        previous: roles of the last fit, for data frames without other roles.
        future: covariates with a known future.
        past: covariates without a known future.
        times: time stamps, if ``y`` is no data frame.
        columns: ``time_col``, ``target_cols`` and ``id_col``, if it is one.
    """
    time_col, target_cols, id_col = columns
    if not is_dataframe(y):
        roles = ColumnRoles(time_col, target_cols, id_col)
        panel = read_panel(y, roles, future_covariates=future, past_covariates=past, times=times)
        return panel, ColumnRoles()
    if times is not None:
        raise InvalidInput("a data frame has its own time stamps: name their column, time_col=")
    roles = previous
    if any(part is not None for part in (*columns, future, past)):
        roles = ColumnRoles(time_col, target_cols, id_col, future, past)
        roles = roles.resolved(LabeledFrame(y))
    return read_panel(y, roles), roles


def later_values(y: Any, series_names: tuple[str, ...]) -> Array:
    """Return values after the last one, ``[times, series]``.

    Raises:
        InvalidInput: there is not one column for each fitted series.
    """
    if is_dataframe(y) and set(series_names) <= set(map(str, y.columns)):
        frame = LabeledFrame(y)
        return frame.table([frame.name(name) for name in series_names])
    values = to_numbers(y, "the values")
    if values.ndim < 2:
        values = values.reshape(-1, 1) if len(series_names) == 1 else values.reshape(1, -1)
    if values.ndim > 2 or values.shape[1] != len(series_names):
        raise InvalidInput(
            f"fitted to {len(series_names)} series: the values need one column for each, got "
            f"shape {np.shape(y)}"
        )
    return values


def later_times(y: Any, roles: ColumnRoles, grid: TimeGrid) -> npt.NDArray[Any] | None:
    """Return the dates of a pandas object, if the fit had dates."""
    name = roles.time_col
    if grid.kind == "number":
        return None
    if is_dataframe(y) and name is not None and name in map(str, y.columns):
        return to_timestamps(LabeledFrame(y)[name], name)
    index = time_index_of(y)
    return index if index is not None and index.dtype.kind == "M" else None


def later_covariates(
    given: Any, names: tuple[str, ...], shape: tuple[int, int], n_fitted: int, what: str
) -> Array:
    """Return covariates of later times, ``[times, series, covariates]``.

    Args:
        given: covariates; of a data frame the columns that were named in the fit.
        names: names of these columns.
        shape: numbers of times and of series.
        n_fitted: number of covariates of the fit.
        what: name of the argument, for error messages.

    Raises:
        InvalidInput: there are other numbers of rows or of covariates.
    """
    if is_dataframe(given) and names:
        frame = LabeledFrame(given)
        given = frame.table([frame.name(name) for name in names])
    covariates = to_covariates(given, *shape, what)
    check_covariates(covariates, n_fitted, what)
    return covariates


def check_covariates(covariates: Array, n_fitted: int, what: str) -> None:
    """Raise unless there are as many covariates as in the fit."""
    if covariates.shape[2] != n_fitted:
        raise InvalidInput(
            f"fitted with {n_fitted} {what}, got {covariates.shape[2]}: give the same"
        )


def check_panel(panel: Panel, state: ForecasterState) -> None:
    """Raise an error unless a panel has the series, covariates and time step of the fit."""
    given, fitted = panel.series_names, state.series_names
    if len(given) != len(fitted):
        other = sorted(set(given) ^ set(fitted))
        raise InvalidInput(
            f"fitted to {len(fitted)} series, got {len(given)}: give the same series, "
            f"NaN where values are missing ({', '.join(other[:5])} in one of them only)"
        )
    n_future, n_past = len(state.future_scaler.mean), len(state.past_scaler.mean)
    check_covariates(panel.future_covariates, n_future, "future_covariates")
    check_covariates(panel.past_covariates, n_past, "past_covariates")
    row_numbers = panel.grid is ROW_NUMBERS or state.grid is ROW_NUMBERS
    if not (row_numbers or panel.grid.same_step(state.grid)):
        raise InvalidInput(
            f"fitted to steps of {state.grid.step_name}, got time stamps with steps of "
            f"{panel.grid.step_name}"
        )


def count_learned_rows(panel: Panel, state: ForecasterState) -> int:
    """Return the number of rows of a panel up to the last value that the forecaster learned."""
    first = 0
    if panel.grid is not ROW_NUMBERS and state.grid is not ROW_NUMBERS:
        first = int(state.grid.steps_from_start(panel.stamps[:1])[0])
    return state.now + 1 - first


def first_forecast_row(panel: Panel, start: Any, n_learned: int, steps: int) -> int:
    """Return the row of the first time to forecast in a backtest.

    Args:
        panel: the series.
        start: a row number, a time stamp, or a share of the series; None for the first time that
            was not learned, or the last fifth if too few follow.
        n_learned: number of rows that were learned.
        steps: number of forecast steps.
    """
    if start is None:
        last = len(panel) - steps
        return n_learned if 0 < n_learned <= last else min(int(0.8 * len(panel)), last)
    if isinstance(start, float) and 0 < start < 1:
        return int(start * len(panel))
    if isinstance(start, int | np.integer):
        return int(start)
    return int(panel.grid.steps_from_start(to_timestamps(np.array([start])))[0])


def with_gaps(rows: npt.NDArray[Any], steps: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Return a row for every step up to the last one; NaN where none is given."""
    full = np.full((int(steps.max(initial=-1)) + 1, *rows.shape[1:]), np.nan)
    full[steps] = rows
    return full
