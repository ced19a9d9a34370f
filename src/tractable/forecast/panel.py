"""What users call a series, as one table: times down, series across, NaN where nothing is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from tractable.errors import InvalidInput, did_you_mean
from tractable.forecast.times import COUNTED, Grid, as_stamps, infer

Array = npt.NDArray[np.float64]
Names = str | Sequence[str] | None


@dataclass(frozen=True)
class Columns:
    """Which columns of a frame are what.

    Attributes:
        time: the time stamps; by default the index, if it holds any.
        target: what is forecast; by default all columns that are nothing else.
        id: which series a row belongs to, in long frames.
        known: covariates whose future is known, such as holidays and prices.
        past: covariates that are known only up to now, such as the weather.
    """

    time: str | None = None
    target: Names = None
    id: str | None = None
    known: tuple[str, ...] = ()
    past: tuple[str, ...] = ()

    def named(self) -> list[str]:
        """All columns that are named, but for targets."""
        one = [name for name in (self.time, self.id) if name is not None]
        return [*one, *self.known, *self.past]


@dataclass(frozen=True)
class Panel:
    """One or several series on the same grid of times.

    Attributes:
        names: names of the series.
        values: ``[times, series]``; NaN is missing.
        grid: the times; row i is step i of it.
        known: covariates with a known future, ``[times, series, covariates]``.
        past: those without.
        alone: whether one series came without a name, so that forecasts have no series axis.
    """

    names: tuple[str, ...]
    values: Array
    grid: Grid
    known: Array
    past: Array
    alone: bool

    def __len__(self) -> int:
        return len(self.values)

    @property
    def stamps(self) -> npt.NDArray[Any]:
        """The time of every row."""
        return self.grid.stamps(0, len(self))

    def until(self, rows: int) -> Panel:
        """The first rows."""
        return replace(
            self, values=self.values[:rows], known=self.known[:rows], past=self.past[:rows]
        )


def read(
    y: Any, columns: Columns | None = None, *, known: Any = None, past: Any = None, time: Any = None
) -> Panel:
    """A panel of whatever holds series.

    Args:
        y: an array or a tensor of one series or of one in each column; a mapping from names to
            series; a data frame or series of pandas; what ``tractable.data`` gives for a series.
        columns: what the columns of a frame are.
        known: covariates with a known future, an array with a row per time.
        past: covariates without.
        time: time stamps, one per row, unless ``y`` has them.

    Raises:
        InvalidInput: not numbers, or times that are repeated or irregular.
    """
    columns = columns or Columns()
    if hasattr(y, "columns") and hasattr(y, "times"):  # tractable.data
        y, time = dict(zip(y.columns, y.values.T, strict=True)), y.times
    if isinstance(y, Mapping):
        return _of_mapping(y, known, past, time)
    if hasattr(y, "columns") and hasattr(y, "index"):
        return _of_frame(y, columns)
    if columns.named() or columns.target is not None:
        raise InvalidInput(f"columns are those of a data frame, and y is a {type(y).__name__}")
    values = numbers(y, "the series")
    alone = values.ndim == 1
    values = values[:, None] if alone else values
    if values.ndim != 2:
        raise InvalidInput(f"series must be one- or two-dimensional, got shape {values.shape}")
    names = tuple(str(getattr(y, "name", None) or "y") if alone else str(i) for i in _each(values))
    stamps = _index(y) if time is None else as_stamps(time)
    return _made(names, values, stamps, known, past, alone)


def covariates(given: Any, rows: int, series: int, what: str) -> Array:
    """Covariates as ``[rows, series, covariates]``; one row per time, the same for all series."""
    if given is None:
        return np.empty((rows, series, 0))
    if hasattr(given, "to_numpy"):
        given = given.to_numpy()
    values = numbers(given, f"{what} covariates")
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim == 2:
        values = np.repeat(values[:, None, :], series, axis=1)
    if values.ndim != 3 or values.shape[:2] != (rows, series):
        raise InvalidInput(
            f"{what} covariates need one row per time, so {rows} rows; got shape {values.shape}"
        )
    return values


def numbers(given: Any, what: str) -> Array:
    """An array of numbers; None and NaN are missing, and nothing is infinite."""
    if isinstance(given, Tensor):
        given = given.detach().cpu().numpy()
    try:
        array = np.asarray(given.to_numpy() if hasattr(given, "to_numpy") else given)
        if array.dtype.kind in "Mm":
            raise TypeError("dates are no numbers")
        values = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} must be numbers: {error}") from None
    if np.isinf(values).any():
        row = int(np.argwhere(np.isinf(values))[0, 0])
        raise InvalidInput(f"{what}: an infinite value in row {row}")
    if values.size == 0:
        raise InvalidInput(f"{what}: there are no values")
    return values


def _each(values: Array) -> range:
    return range(values.shape[1])


def _index(y: Any) -> npt.NDArray[Any] | None:
    """The index of pandas, if it holds times rather than row numbers."""
    index = getattr(y, "index", None)
    if index is None or callable(index) or type(index).__name__ == "RangeIndex":
        return None
    if not any(hasattr(index, word) for word in ("tz", "to_timestamp")):
        numeric = getattr(getattr(index, "dtype", None), "kind", "") in "iuf"
        return as_stamps(index, "the index") if numeric else None
    return as_stamps(index, "the index")


def _made(
    names: tuple[str, ...],
    values: Array,
    stamps: npt.NDArray[Any] | None,
    known: Any,
    past: Any,
    alone: bool,
) -> Panel:
    rows, series = values.shape
    extra = [covariates(known, rows, series, "known"), covariates(past, rows, series, "past")]
    if stamps is None:
        return Panel(names, values, COUNTED, extra[0], extra[1], alone)
    if len(stamps) != rows:
        raise InvalidInput(f"{rows} rows of values and {len(stamps)} time stamps")
    order = np.argsort(stamps, kind="stable")
    grid = infer(stamps[order])
    at = grid.places(stamps[order])
    tables = [_spread(table[order], at) for table in (values, *extra)]
    return Panel(names, tables[0], grid, tables[1], tables[2], alone)


def _spread(table: Array, at: npt.NDArray[np.int64]) -> Array:
    """Rows at their places, with missing ones in the gaps."""
    if len(at) == at[-1] + 1:
        return table
    whole = np.full((int(at[-1]) + 1, *table.shape[1:]), np.nan)
    whole[at] = table
    return whole


def _of_mapping(y: Mapping[Any, Any], known: Any, past: Any, time: Any) -> Panel:
    if not y:
        raise InvalidInput("there are no series")
    names = tuple(str(name) for name in y)
    parts = [numbers(part, f"series {name!r}").reshape(-1) for name, part in y.items()]
    indices = [_index(part) for part in y.values()]
    if time is None and all(index is not None for index in indices):
        return _joined(names, parts, [index for index in indices if index is not None])
    rows = max(len(part) for part in parts)
    if time is not None and min(len(part) for part in parts) < rows:
        raise InvalidInput("with common time stamps all series must be of one length")
    # Without times all series end now.
    values = np.stack([np.r_[np.full(rows - len(p), np.nan), p] for p in parts], axis=1)
    return _made(names, values, None if time is None else as_stamps(time), known, past, False)


def _joined(names: tuple[str, ...], parts: list[Array], indices: list[npt.NDArray[Any]]) -> Panel:
    """Series with times of their own on one grid."""
    for name, stamps in zip(names, indices, strict=True):
        infer(np.sort(stamps), name)
    stamps = np.unique(np.concatenate(indices))
    values = np.full((len(stamps), len(names)), np.nan)
    for column, (part, own) in enumerate(zip(parts, indices, strict=True)):
        values[np.searchsorted(stamps, own), column] = part
    return _made(names, values, stamps, None, None, False)


def _of_frame(frame: Any, columns: Columns) -> Panel:
    have = [str(name) for name in frame.columns]
    targets = [columns.target] if isinstance(columns.target, str) else columns.target
    for name in [*columns.named(), *(targets or [])]:
        if name not in have:
            raise InvalidInput(f"no column {name!r} in the frame.{did_you_mean(name, have)}")
    if targets is None:
        targets = [name for name in have if name not in columns.named()]
    if not targets:
        raise InvalidInput("no column is left to be forecast: give target=")
    if columns.id is not None:
        return _of_long_frame(frame, columns, targets)
    values = np.stack([numbers(frame[name], f"column {name!r}") for name in targets], axis=1)
    stamps = _index(frame) if columns.time is None else as_stamps(frame[columns.time], columns.time)
    extra = [_of_columns(frame, names) for names in (columns.known, columns.past)]
    alone = len(targets) == 1 and isinstance(columns.target, str)
    return _made(tuple(targets), values, stamps, extra[0], extra[1], alone)


def _of_columns(frame: Any, names: Sequence[str]) -> Array | None:
    if not names:
        return None
    return np.stack([numbers(frame[name], f"column {name!r}") for name in names], axis=1)


def _of_long_frame(frame: Any, columns: Columns, targets: Sequence[str]) -> Panel:
    """Series one below the other, told apart by a column."""
    if len(targets) != 1:
        raise InvalidInput(f"a long frame has one target column, got {', '.join(targets)}")
    ids = np.asarray(frame[columns.id]).astype(str)
    names = tuple(dict.fromkeys(ids.tolist()))
    given = _index(frame) if columns.time is None else as_stamps(frame[columns.time], columns.time)
    if given is None:
        raise InvalidInput("a long frame needs time stamps: give time=")
    for name in names:
        infer(np.sort(given[ids == name]), name)
    stamps, row = np.unique(given, return_inverse=True)
    column = np.array([names.index(name) for name in ids.tolist()])
    tables = []
    for part in (targets, columns.known, columns.past):
        table = np.full((len(stamps), len(names), len(part)), np.nan)
        if part:
            table[row, column] = _of_columns(frame, part)
        tables.append(table)
    known, past = (table if table.shape[2] else None for table in tables[1:])
    return _made(names, tables[0][..., 0], stamps, known, past, False)
