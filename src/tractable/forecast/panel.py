"""What users call a series, as one table: times down, series across, NaN where nothing is known."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from tractable.errors import InvalidInput, did_you_mean
from tractable.forecast.times import COUNTED, Grid, as_stamps, infer

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Columns:
    """Which columns of a frame are what.

    Columns are named by their labels, or by the text of their labels; after ``resolved`` by text.

    Attributes:
        time: the time stamps; by default the index, if it holds any.
        target: what is forecast; by default all columns that are nothing else.
        id: which series a row belongs to, in long frames.
        known: covariates whose future is known, such as holidays and prices.
        past: covariates that are known only up to now, such as the weather.
    """

    time: Any = None
    target: Any = None
    id: Any = None
    known: Any = ()
    past: Any = ()

    def resolved(self, frame: Frame) -> Columns:
        """The same columns by the text of their labels, each of which the frame has once."""
        time, id = (None if n is None else frame.name(n) for n in (self.time, self.id))
        known, past = (
            frame.names_of(n, w) for n, w in ((self.known, "known"), (self.past, "past"))
        )
        target: str | tuple[str, ...] | None = None
        if self.target is not None:
            target = frame.names_of(self.target, "target")
            target = target[0] if frame.is_name(self.target) else target
        return Columns(time, target, id, known, past)


class Frame:
    """The columns of a data frame, by the text of their labels.

    Labels are numbers, tuples or anything else that pandas allows.

    Args:
        frame: pandas data frame, or an object that has ``columns`` and gives a column for a label.
    """

    def __init__(self, frame: Any) -> None:
        self.frame, self.labels = frame, list(frame.columns)
        self.names = [str(label) for label in self.labels]

    def __getitem__(self, name: str) -> Any:
        return self.frame[self.labels[self.names.index(name)]]

    def is_name(self, given: Any) -> bool:
        """Whether one column is named, and not a list of them; a tuple may be a label."""
        several = isinstance(given, list | tuple) and str(given) not in self.names
        return not several

    def name(self, given: Hashable) -> str:
        """The text of a label.

        Raises:
            InvalidInput: there is no such column, or more than one.
        """
        name = str(given)
        count = self.names.count(name)
        if count == 0:
            close = did_you_mean(name, list(dict.fromkeys(self.names)))
            raise InvalidInput(f"no column {name!r} in the frame.{close}")
        if count > 1:
            raise InvalidInput(
                f"{count} columns of the frame are called {name!r}: rename them, or leave out all "
                "but one"
            )
        return name

    def names_of(self, given: Any, what: str) -> tuple[str, ...]:
        """The texts of one or several labels."""
        if given is None:
            return ()
        if hasattr(given, "shape") and not isinstance(given, np.generic):
            raise InvalidInput(
                f"{what} of a frame are names of columns, got an array of shape {given.shape}"
            )
        each = [given] if self.is_name(given) else given
        return tuple(self.name(label) for label in each)

    def table(self, names: Sequence[str]) -> Array:
        """Columns side by side, ``[rows, columns]``."""
        return np.stack([numbers(self[name], f"column {name!r}") for name in names], axis=1)


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

    def ordered(self, names: tuple[str, ...]) -> Panel:
        """The same series in this order, if they have these names; else as they are."""
        same = sorted(self.names) == sorted(names) and len(set(names)) == len(names)
        if not same or self.names == names:
            return self
        order = [self.names.index(name) for name in names]
        values, known, past = (part[:, order] for part in (self.values, self.known, self.past))
        return replace(self, names=names, values=values, known=known, past=past)


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
    if is_frame(y):
        return _of_frame(Frame(y), columns)
    if columns != Columns():
        raise InvalidInput(
            f"target= and id= name columns of a data frame, and y is a {type(y).__name__}: give "
            "the series to forecast as y"
        )
    if hasattr(y, "columns") and hasattr(y, "times"):  # tractable.data; a frame has an index
        if time is not None:
            raise InvalidInput(f"a {type(y).__name__} has times of its own: leave out time=")
        y, time = dict(zip(y.columns, y.values.T, strict=True)), y.times
    if isinstance(y, Mapping):
        return _of_mapping(y, known, past, time)
    values = numbers(y, "the series")
    alone = values.ndim == 1
    values = values[:, None] if alone else values
    if values.ndim != 2:
        raise InvalidInput(f"series must be one- or two-dimensional, got shape {values.shape}")
    name = getattr(y, "name", None)
    names = ("y" if name is None else str(name),) if alone else tuple(map(str, _each(values)))
    stamps = index_of(y) if time is None else as_stamps(time)
    return _made(names, values, stamps, known, past, alone)


def is_frame(given: Any) -> bool:
    """Whether something is a data frame, or has columns and an index like one."""
    return hasattr(given, "columns") and hasattr(given, "index")


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
    try:
        if isinstance(given, Tensor):
            given = given.detach().cpu().double().numpy()
        array = np.asarray(given.to_numpy() if hasattr(given, "to_numpy") else given)
        if array.dtype.kind in "Mm":
            raise TypeError("dates are no numbers")
        values = array.astype(np.float64, order="C")  # sums depend on the order in memory
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


def index_of(y: Any) -> npt.NDArray[Any] | None:
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
    indices = [index_of(part) for part in y.values()] if time is None else []
    given = [index for index in indices if index is not None]
    if given and len(given) == len(parts):
        return _joined(names, parts, given, known, past)
    if given:
        without = next(n for n, index in zip(names, indices, strict=True) if index is None)
        raise InvalidInput(
            f"series {without!r} has no time stamps, and others have: give all of them an index of "
            "times, or time= for series of one length"
        )
    rows = max(len(part) for part in parts)
    if time is not None and min(len(part) for part in parts) < rows:
        raise InvalidInput("with common time stamps all series must be of one length")
    # Without times all series end now.
    values = np.stack([np.r_[np.full(rows - len(p), np.nan), p] for p in parts], axis=1)
    return _made(names, values, None if time is None else as_stamps(time), known, past, False)


def _joined(
    names: tuple[str, ...],
    parts: list[Array],
    indices: list[npt.NDArray[Any]],
    known: Any,
    past: Any,
) -> Panel:
    """Series with times of their own on one grid; covariates have a row for each of all times."""
    for name, stamps in zip(names, indices, strict=True):
        infer(np.sort(stamps), name)
    if len({stamps.dtype.kind == "M" for stamps in indices}) > 1:
        raise InvalidInput("some series have dates for time stamps, and others have numbers")
    stamps = np.unique(np.concatenate(indices))
    values = np.full((len(stamps), len(names)), np.nan)
    for column, (part, own) in enumerate(zip(parts, indices, strict=True)):
        values[np.searchsorted(stamps, own), column] = part
    return _made(names, values, stamps, known, past, False)


def _of_frame(frame: Frame, columns: Columns) -> Panel:
    found = columns.resolved(frame)
    targets, alone = found.target, isinstance(found.target, str)
    if targets is None:
        others = {found.time, found.id, *found.known, *found.past}
        targets = tuple(frame.name(name) for name in frame.names if name not in others)
    targets = (targets,) if alone else targets
    if not targets:
        raise InvalidInput("no column is left to be forecast: give target=")
    time = found.time
    stamps = index_of(frame.frame) if time is None else as_stamps(frame[time], time)
    if found.id is not None:
        return _of_long_frame(frame, found.id, stamps, (targets, found.known, found.past))
    extra = [frame.table(names) if names else None for names in (found.known, found.past)]
    return _made(targets, frame.table(targets), stamps, extra[0], extra[1], alone)


def _of_long_frame(
    frame: Frame,
    id: str,
    given: npt.NDArray[Any] | None,
    columns: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]],
) -> Panel:
    """Series one below the other, told apart by a column; targets, known and past columns."""
    targets = columns[0]
    if len(targets) != 1:
        raise InvalidInput(f"a long frame has one target column, got {', '.join(targets)}")
    ids = _ids(frame[id], id)
    names = tuple(dict.fromkeys(ids.tolist()))
    if given is None:
        raise InvalidInput("a long frame needs time stamps: give time=")
    for name in names:
        infer(np.sort(given[ids == name]), name)
    stamps, row = np.unique(given, return_inverse=True)
    places = {name: place for place, name in enumerate(names)}
    column = np.array([places[name] for name in ids.tolist()])
    tables = []
    for part in columns:
        table = np.full((len(stamps), len(names), len(part)), np.nan)
        if part:
            table[row, column] = frame.table(part)
        tables.append(table)
    known, past = (table if table.shape[2] else None for table in tables[1:])
    return _made(names, tables[0][..., 0], stamps, known, past, False)


def _ids(column: Any, name: str) -> npt.NDArray[np.str_]:
    """Names of the series of all rows.

    Raises:
        InvalidInput: one is missing; its row would become a series called "nan".
    """
    cells = np.asarray(column, dtype=object).tolist()
    texts = ["" if _is_missing(cell) else str(cell) for cell in cells]
    if "" in texts:
        raise InvalidInput(f"column {name!r}: no series is named in row {texts.index('')}")
    return np.array(texts)


def _is_missing(cell: Any) -> bool:
    nan = isinstance(cell, float) and cell != cell
    return cell is None or nan or str(cell).strip() in ("", "NaT", "<NA>")
