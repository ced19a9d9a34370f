"""Series of a table as a forecaster reads them: targets, covariates and timestamps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from tractable.cli.errors import UsageError, one_line
from tractable.cli.tables.cell_formats import infer_date_format, parse_date_as, parse_number
from tractable.cli.tables.columns import Column, numeric_column
from tractable.cli.tables.reader import TextTable
from tractable.errors import InvalidInput, TractableError
from tractable.forecast.scaling import TRANSFORMS, Transform, forward


@dataclass(frozen=True)
class ForecastOptions:
    """Options of ``tractable forecast``."""

    data: Path
    time: str | None
    target: tuple[str, ...]
    horizon: int
    out: Path
    season_length: int | None = None
    id: str | None = None
    future_covariates: tuple[str, ...] = ()
    past_covariates: tuple[str, ...] = ()
    transform: str | None = None
    learner: str = "tagi"
    decimal: str | None = None
    encoding: str | None = None
    test: float = 0.2
    level: float = 0.9
    seed: int = 0
    threads: int = 1
    force: bool = False


class TableColumns:
    """The columns of a file, with the interface of a data frame that a forecaster requires.

    Args:
        parts: values of the columns, by name.
    """

    index = None

    def __init__(self, parts: dict[str, Any]) -> None:
        self.parts, self.columns = parts, list(parts)

    def __getitem__(self, name: str) -> Any:
        return self.parts[name]

    def at(self, rows: Any) -> TableColumns:
        """Return some rows."""
        return TableColumns({name: part[rows] for name, part in self.parts.items()})


@dataclass(frozen=True)
class FutureRows:
    """Rows after the last target.

    Attributes:
        covariates: future covariates, as for ``Forecaster.predict``.
        stamps: times of these rows, for each series.
    """

    covariates: Any
    stamps: list[Any]


def timestamps(frame: TableColumns, options: ForecastOptions) -> Any:
    """Return the time of each row; without a time column, the number of the row."""
    from tractable.forecast.time_index import to_timestamps

    if options.time is None:
        return np.arange(len(frame[options.target[0]]))
    return to_timestamps(frame[options.time], options.time)


def read_series(
    table: TextTable, options: ForecastOptions
) -> tuple[TableColumns, FutureRows | None]:
    """Return the rows up to the last target, and the covariates of the rows after it."""
    one = [name for name in (options.time, options.id) if name is not None]
    numeric = [*options.target, *options.future_covariates, *options.past_covariates]
    table.require([*one, *numeric])
    if options.id is not None and options.time is None:
        raise UsageError("--id requires --time, which aligns the series")
    parts: dict[str, Any] = {name: np.array(table.column(name)) for name in one}
    if options.time is not None:
        parts[options.time] = _parse_times(table, options.time)
    parts |= {name: _parse_values(table, name, options.decimal) for name in numeric}
    frame = TableColumns(parts)
    there = ~np.all([np.isnan(parts[name]) for name in options.target], axis=0)
    if not there.any():
        raise UsageError(f"{table.path.name}: {', '.join(options.target)} has no values")
    try:
        stamps = timestamps(frame, options)
    except TractableError as error:
        raise UsageError(f"{table.path.name}: {table.in_file(one_line(error))}") from error
    _check_transform(table, frame, options)
    later = stamps > stamps[there].max()
    if not options.future_covariates:
        return frame.at(~later), None
    return frame.at(~later), _future_rows(frame, stamps, later, options)


def _check_transform(table: TextTable, frame: TableColumns, options: ForecastOptions) -> None:
    """Refuse values outside the domain of the transform, with their row in the file."""
    for name in options.target if options.transform in TRANSFORMS else ():
        try:
            forward(cast("Transform", options.transform), frame[name])
        except InvalidInput as error:
            raise UsageError(
                f"{table.path.name}, column {name!r}: {table.in_file(one_line(error))}"
            ) from error


def _future_rows(
    frame: TableColumns, stamps: Any, later: Any, options: ForecastOptions
) -> FutureRows:
    """Return the covariates of the forecast steps, ordered by time (and series)."""
    names = [""] if options.id is None else list(dict.fromkeys(frame[options.id].tolist()))
    found, times = [], []
    for name in names:
        mine = later if options.id is None else later & (frame[options.id] == name)
        rows = np.flatnonzero(mine)[np.argsort(stamps[mine], kind="stable")][: options.horizon]
        if len(rows) < options.horizon:
            whose = f" of {name!r}" if name else ""
            raise UsageError(
                f"--future-covariate needs the next {options.horizon} values of "
                f"{', '.join(options.future_covariates)}{whose}, in rows after the last "
                f"{options.target[0]}: there are {len(rows)}"
            )
        found.append(
            np.stack([frame[column][rows] for column in options.future_covariates], axis=1)
        )
        times.append(stamps[rows])
    return FutureRows(found[0] if options.id is None else np.stack(found, axis=1), times)


def _parse_times(table: TextTable, name: str) -> Any:
    """Return timestamps; dates in ISO 8601 format."""
    cells = table.column(name)
    try:
        plain = all(parse_number(cell) is not None for cell in cells)
        form = None if plain else infer_date_format(cells)
    except ValueError as error:
        raise UsageError(f"{table.path.name}, column {name!r}: {error}") from None
    if form is None:
        return np.array(cells)
    when = [parse_date_as(cell, form) for cell in cells]
    iso = [c if w is None else w.isoformat() for c, w in zip(cells, when, strict=True)]
    return np.array(iso)


def _parse_values(table: TextTable, name: str, decimal: str | None) -> Any:
    """Return the values of a column, NaN where they are missing."""
    try:
        column = numeric_column(table, name, decimal) or Column(name, "numeric")
    except ValueError as error:
        raise UsageError(f"{table.path.name}, column {name!r}: {error}") from None
    return column.encode(table)[:, 0]
