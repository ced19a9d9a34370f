"""Reading of series in all accepted forms: arrays, mappings, data frames.

The result is a ``Panel``: one table with a row per time and a column per series, NaN where a value
is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tractable.errors import InvalidInput
from tractable.forecast.data_frames import ColumnRoles, LabeledFrame, to_numbers
from tractable.forecast.time_index import ROW_NUMBERS, TimeGrid, infer_grid, to_timestamps

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Panel:
    """One or several series on a common grid of time stamps.

    Attributes:
        series_names: names of the series.
        values: values ``[times, series]``; NaN where missing.
        grid: time stamps; row i is step i of it.
        future_covariates: covariates with a known future, ``[times, series, covariates]``.
        past_covariates: covariates without a known future, ``[times, series, covariates]``.
        squeezed: whether it is one series given as a vector, whose forecasts have no series axis.
    """

    series_names: tuple[str, ...]
    values: Array
    grid: TimeGrid
    future_covariates: Array
    past_covariates: Array
    squeezed: bool

    def __len__(self) -> int:
        return len(self.values)

    @property
    def stamps(self) -> npt.NDArray[Any]:
        """Time stamp of each row."""
        return self.grid.stamps(0, len(self))

    def reordered(self, names: tuple[str, ...]) -> Panel:
        """Return the panel with its series in this order; unchanged if they have other names."""
        same = sorted(self.series_names) == sorted(names) and len(set(names)) == len(names)
        if not same or self.series_names == names:
            return self
        order = [self.series_names.index(name) for name in names]
        return replace(
            self,
            series_names=names,
            values=self.values[:, order],
            future_covariates=self.future_covariates[:, order],
            past_covariates=self.past_covariates[:, order],
        )


def read_panel(
    y: Any,
    roles: ColumnRoles | None = None,
    *,
    future_covariates: Any = None,
    past_covariates: Any = None,
    times: Any = None,
) -> Panel:
    """Return the panel of series given in any accepted form.

    Args:
        y: an array or tensor of one series or of one series per column; a mapping from names to
            series; a pandas data frame or series; a series of ``tractable.data``.
        roles: roles of the columns, if ``y`` is a data frame.
        future_covariates: covariates with a known future, one row per time.
        past_covariates: covariates without a known future, one row per time.
        times: time stamps, one per row, unless ``y`` has them.

    Raises:
        InvalidInput: the values are not numbers, or time stamps are repeated or irregular.
    """
    roles = roles or ColumnRoles()
    if is_dataframe(y):
        return _from_dataframe(LabeledFrame(y), roles)
    if roles != ColumnRoles():
        raise InvalidInput(
            f"time_col=, target_cols= and id_col= name columns of a data frame, and y is a "
            f"{type(y).__name__}: give the series to forecast as y, and time stamps as times="
        )
    if hasattr(y, "columns") and hasattr(y, "times"):  # tractable.data; a frame has an index
        if times is not None:
            raise InvalidInput(f"a {type(y).__name__} has times of its own: leave out times=")
        y, times = dict(zip(y.columns, y.values.T, strict=True)), y.times
    if isinstance(y, Mapping):
        return _from_mapping(y, future_covariates, past_covariates, times)
    values = to_numbers(y, "the series")
    squeezed = values.ndim == 1
    values = values[:, None] if squeezed else values
    if values.ndim != 2:
        raise InvalidInput(f"series must be one- or two-dimensional, got shape {values.shape}")
    name = getattr(y, "name", None)
    names = tuple(map(str, range(values.shape[1])))
    if squeezed:
        names = ("y" if name is None else str(name),)
    stamps = time_index_of(y) if times is None else to_timestamps(times)
    return _make_panel(names, values, stamps, future_covariates, past_covariates, squeezed)


def is_dataframe(given: Any) -> bool:
    """Return whether an object is like a data frame: whether it has columns and an index."""
    return hasattr(given, "columns") and hasattr(given, "index")


def to_covariates(given: Any, rows: int, series: int, what: str) -> Array:
    """Return covariates as ``[rows, series, covariates]``.

    Args:
        given: one row per time: ``[rows]``, ``[rows, covariates]``, the same for all series, or
            ``[rows, series, covariates]``; None for no covariates.
        rows: number of times.
        series: number of series.
        what: name of the argument, for error messages.
    """
    if given is None:
        return np.empty((rows, series, 0))
    if hasattr(given, "to_numpy"):
        given = given.to_numpy()
    values = to_numbers(given, what)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim == 2:
        values = np.repeat(values[:, None, :], series, axis=1)
    if values.ndim != 3 or values.shape[:2] != (rows, series):
        raise InvalidInput(
            f"{what} must have one row per time, so {rows} rows; got shape {values.shape}"
        )
    return values


def time_index_of(y: Any) -> npt.NDArray[Any] | None:
    """Return the index of a pandas object as time stamps; None for row numbers or no index."""
    index = getattr(y, "index", None)
    if index is None or callable(index) or type(index).__name__ == "RangeIndex":
        return None
    if not any(hasattr(index, word) for word in ("tz", "to_timestamp")):
        numeric = getattr(getattr(index, "dtype", None), "kind", "") in "iuf"
        return to_timestamps(index, "the index") if numeric else None
    return to_timestamps(index, "the index")


def _make_panel(
    names: tuple[str, ...],
    values: Array,
    stamps: npt.NDArray[Any] | None,
    future_covariates: Any,
    past_covariates: Any,
    squeezed: bool,
) -> Panel:
    """Return a panel with its rows sorted by time, and rows of NaN in gaps."""
    rows, series = values.shape
    future = to_covariates(future_covariates, rows, series, "future_covariates")
    past = to_covariates(past_covariates, rows, series, "past_covariates")
    if stamps is None:
        return Panel(names, values, ROW_NUMBERS, future, past, squeezed)
    if len(stamps) != rows:
        raise InvalidInput(f"{rows} rows of values and {len(stamps)} time stamps")
    order = np.argsort(stamps, kind="stable")
    grid = infer_grid(stamps[order])
    steps = grid.steps_from_start(stamps[order])
    values, future, past = (_with_gaps(table[order], steps) for table in (values, future, past))
    return Panel(names, values, grid, future, past, squeezed)


def _with_gaps(table: Array, steps: npt.NDArray[np.int64]) -> Array:
    """Return a table with a row for every step, NaN where none is given."""
    if len(steps) == steps[-1] + 1:
        return table
    full = np.full((int(steps[-1]) + 1, *table.shape[1:]), np.nan)
    full[steps] = table
    return full


def _from_mapping(y: Mapping[Any, Any], future: Any, past: Any, times: Any) -> Panel:
    if not y:
        raise InvalidInput("there are no series")
    names = tuple(str(name) for name in y)
    parts = [to_numbers(part, f"series {name!r}").reshape(-1) for name, part in y.items()]
    indices = [time_index_of(part) for part in y.values()] if times is None else []
    given = [index for index in indices if index is not None]
    if given and len(given) == len(parts):
        return _join_series(names, parts, given, future, past)
    if given:
        without = next(n for n, index in zip(names, indices, strict=True) if index is None)
        raise InvalidInput(
            f"series {without!r} has no time stamps, and others have: give all of them an index of "
            "times, or times= for series of one length"
        )
    rows = max(len(part) for part in parts)
    if times is not None and min(len(part) for part in parts) < rows:
        raise InvalidInput("with common time stamps all series must have the same length")
    # Without time stamps all series are aligned at their ends.
    values = np.stack([np.r_[np.full(rows - len(p), np.nan), p] for p in parts], axis=1)
    stamps = None if times is None else to_timestamps(times)
    return _make_panel(names, values, stamps, future, past, False)


def _join_series(
    names: tuple[str, ...],
    parts: list[Array],
    indices: list[npt.NDArray[Any]],
    future: Any,
    past: Any,
) -> Panel:
    """Return a panel of series with different time stamps; covariates have a row for each stamp."""
    for name, stamps in zip(names, indices, strict=True):
        infer_grid(np.sort(stamps), name)
    if len({stamps.dtype.kind == "M" for stamps in indices}) > 1:
        raise InvalidInput("some series have dates as time stamps, and others have numbers")
    stamps = np.unique(np.concatenate(indices))
    values = np.full((len(stamps), len(names)), np.nan)
    for column, (part, own) in enumerate(zip(parts, indices, strict=True)):
        values[np.searchsorted(stamps, own), column] = part
    return _make_panel(names, values, stamps, future, past, False)


def _from_dataframe(frame: LabeledFrame, given: ColumnRoles) -> Panel:
    roles = given.resolved(frame)
    targets, squeezed = roles.target_cols, isinstance(roles.target_cols, str)
    if targets is None:
        others = {roles.time_col, roles.id_col, *roles.future_covariates, *roles.past_covariates}
        targets = tuple(frame.name(name) for name in frame.names if name not in others)
    targets = (targets,) if squeezed else targets
    if not targets:
        raise InvalidInput("no column is left to forecast: give target_cols=")
    time_col = roles.time_col
    if time_col is None:
        stamps = time_index_of(frame.frame)
    else:
        stamps = to_timestamps(frame[time_col], time_col)
    covariates = (roles.future_covariates, roles.past_covariates)
    if roles.id_col is not None:
        return _from_long_frame(frame, roles.id_col, stamps, (targets, *covariates))
    future, past = (frame.table(names) if names else None for names in covariates)
    return _make_panel(targets, frame.table(targets), stamps, future, past, squeezed)


def _from_long_frame(
    frame: LabeledFrame,
    id_col: str,
    given: npt.NDArray[Any] | None,
    columns: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]],
) -> Panel:
    """Return the panel of a frame with one row per time and series.

    Args:
        frame: the frame.
        id_col: column with the name of the series.
        given: time stamp of each row.
        columns: names of the target column, and of future and past covariates.
    """
    targets = columns[0]
    if len(targets) != 1:
        raise InvalidInput(f"a long frame has one target column, got {', '.join(targets)}")
    ids = _series_ids(frame[id_col], id_col)
    names = tuple(dict.fromkeys(ids.tolist()))
    if given is None:
        raise InvalidInput("a long frame needs time stamps: give time_col=")
    for name in names:
        infer_grid(np.sort(given[ids == name]), name)
    stamps, row = np.unique(given, return_inverse=True)
    column_of = {name: column for column, name in enumerate(names)}
    column = np.array([column_of[name] for name in ids.tolist()])
    tables = []
    for part in columns:
        table = np.full((len(stamps), len(names), len(part)), np.nan)
        if part:
            table[row, column] = frame.table(part)
        tables.append(table)
    future, past = (table if table.shape[2] else None for table in tables[1:])
    return _make_panel(names, tables[0][..., 0], stamps, future, past, False)


def _series_ids(column: Any, name: str) -> npt.NDArray[np.str_]:
    """Return the series name of each row as text.

    Raises:
        InvalidInput: a name is missing; its row would become a series called "nan".
    """
    cells = np.asarray(column, dtype=object).tolist()
    texts = ["" if _is_missing(cell) else str(cell) for cell in cells]
    if "" in texts:
        raise InvalidInput(f"column {name!r}: no series is named in row {texts.index('')}")
    return np.array(texts)


def _is_missing(cell: Any) -> bool:
    nan = isinstance(cell, float) and cell != cell
    return cell is None or nan or str(cell).strip() in ("", "NaT", "<NA>")
