"""Encoding of text cells as numbers: numeric, categorical (one-hot) and date columns.

A column is numeric if most of its values are numbers in one of the number formats, a date column if
all values are dates, and categorical if it is text with few distinct values.  All other columns
raise an error, because a guess would be silent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tractable.cli.errors import UsageError
from tractable.cli.tables import cell_formats
from tractable.cli.tables.cell_formats import PLAIN
from tractable.cli.tables.reader import TextTable, is_missing

Array = npt.NDArray[np.float64]

_LOOKED_AT = 200  # number of rows from which the decimal separator is inferred
MAX_LEVELS = 20
"""Text columns with more distinct values are one-hot encoded only on request."""


@dataclass(frozen=True)
class Column:
    """Encoding of a column of the file as one or more columns of numbers.

    Attributes:
        name: name in the header.
        kind: ``numeric``; ``categorical``: one column of 0 and 1 for each level; or ``date``: days,
            and sine and cosine of the day of the year, the day of the week (and the time of day).
        levels: values of a categorical column.
        fill: values that replace missing ones: the mean of each encoded column over the training
            rows (for a categorical column, the frequencies of its levels); empty before
            ``with_fill_values``.
        notation: format of numbers or dates; see ``tractable.cli.tables.cell_formats``.
    """

    name: str
    kind: Literal["numeric", "categorical", "date"]
    levels: tuple[str, ...] = ()
    fill: tuple[float, ...] = ()
    notation: str = PLAIN

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        if self.kind == "date":
            return 7 if cell_formats.has_time(self.notation) else 5
        return len(self.levels) if self.kind == "categorical" else 1

    def encode(self, table: TextTable, *, unknown: bool = False) -> Array:
        """Return the encoded values, ``[rows, width]``; NaN where a value is missing.

        Args:
            table: rows to encode.
            unknown: whether levels that are not in the training data count as missing.

        Raises:
            UsageError: a value is not a number or date, or a level is not in the training data.
        """
        cells = table.column(self.name)
        values = np.full((len(cells), self.width), math.nan)
        for i, cell in enumerate(cells):
            if is_missing(cell):
                continue
            if self.kind == "numeric":
                values[i, 0] = self._number(cell, table, table.numbers[i])
            elif self.kind == "date":
                values[i] = self._date(cell, table, table.numbers[i])
            elif cell in self.levels or not unknown:
                values[i] = 0.0
                values[i, self._level(cell, table, table.numbers[i])] = 1.0
        return values

    def unknown_levels(self, table: TextTable) -> list[str]:
        """Return the levels of a table that are not in the training data."""
        if self.kind != "categorical":
            return []
        cells = dict.fromkeys(table.column(self.name))
        return [cell for cell in cells if not is_missing(cell) and cell not in self.levels]

    def with_fill_values(self, values: Array) -> Column:
        """Return the column with the means of these values as fill values."""
        if np.isnan(values).all():
            raise UsageError(f"column {self.name!r} has no values in the training rows: --drop it")
        return replace(self, fill=tuple(np.nanmean(values, 0).tolist()))

    def _number(self, cell: str, table: TextTable, row: int) -> float:
        value = cell_formats.parse_number(cell, self.notation)
        if value is None:
            raise UsageError(
                f"{table.path.name}, column {self.name!r}, row {row}: {cell!r} is not a number, "
                f"{self._others(table)}"
            )
        if not abs(value) <= cell_formats.MAX_NUMBER:
            what = "too large" if math.isfinite(value) else "not finite"
            raise UsageError(
                f"{table.path.name}, column {self.name!r}, row {row}: {cell!r} is {what}"
            )
        return value

    def _others(self, table: TextTable) -> str:
        """How many of the values are numbers."""
        cells = [cell for cell in table.column(self.name) if not is_missing(cell)]
        good = sum(cell_formats.parse_number(cell, self.notation) is not None for cell in cells)
        if good > len(cells) / 2:
            return "as the column's other values are"
        return f"and {'none' if good == 0 else f'only {good}'} of the {len(cells)} values is"

    def _date(self, cell: str, table: TextTable, row: int) -> list[float]:
        when = cell_formats.parse_date(cell, self.notation)
        if when is None:
            raise UsageError(
                f"{table.path.name}, column {self.name!r}, row {row}: {cell!r} is not a date as "
                f"the column's other values are ({self.notation})"
            )
        return cell_formats.date_features(when, times=cell_formats.has_time(self.notation))

    def _level(self, cell: str, table: TextTable, row: int) -> int:
        try:
            return self.levels.index(cell)
        except ValueError:
            known = ", ".join(map(repr, self.levels[:8])) + (", ..." if self.width > 8 else "")
            raise UsageError(
                f"{table.path.name}, column {self.name!r}, row {row}: {cell!r} is not in the "
                f"training data (known levels: {known}); --unknown missing treats it as missing"
            ) from None

    def to_json(self) -> dict[str, Any]:
        """Return the column as JSON values; a plain notation is omitted."""
        held = asdict(self)
        if self.notation == PLAIN:
            del held["notation"]
        return held

    @classmethod
    def from_json(cls, held: dict[str, Any]) -> Column:
        """Return a column from JSON values; without a notation, numbers are plain."""
        return cls(
            held["name"], held["kind"], tuple(held["levels"]), tuple(held["fill"]),
            held.get("notation", PLAIN),
        )  # fmt: skip


def parse(cell: str) -> float | None:
    """Return the number in a cell in plain format, or None."""
    return cell_formats.parse_number(cell)


def infer_column(
    table: TextTable, name: str, *, categorical: bool = False, decimal: str | None = None
) -> Column:
    """Return the inferred encoding of a column.

    Args:
        table: all rows.
        name: name of the column.
        categorical: whether the user declared it categorical.
        decimal: decimal separator, if the user gave it.
    """
    cells = [cell for cell in table.column(name) if not is_missing(cell)]
    levels = tuple(sorted(set(cells)))
    if categorical:
        return Column(name, "categorical", levels)
    try:
        found = numeric_column(table, name, decimal)
        form = None
        if cells and (found is None or found.notation != PLAIN):
            form = cell_formats.infer_date_format(cells)
    except ValueError as error:
        raise UsageError(f"{table.path.name}, column {name!r}: {error}") from None
    if form is not None:
        return Column(name, "date", notation=form)
    if found is not None or not cells:
        return found or Column(name, "numeric")
    if len(levels) > min(MAX_LEVELS, max(len(cells) // 2, 2)):
        held = name in table.texts and cell_formats.infer_number_format(cells, decimal) is not None
        hint = "; if these are numbers, save the column as numbers and not as text" if held else ""
        raise UsageError(
            f"{table.path.name}, column {name!r}: text with {len(levels)} distinct values in "
            f"{len(cells)} rows, such as {cells[0]!r}; leave it out with --drop, copy it with "
            f"--id, or one-hot encode it with --categorical{hint}"
        )
    return Column(name, "categorical", levels)


def numeric_column(
    table: TextTable, name: str, decimal: str | None = None, *, force: bool = False
) -> Column | None:
    """Return a numeric column, if most of its values are numbers; else None.

    Args:
        table: all rows.
        name: name of the column.
        decimal: decimal separator, if the user gave it.
        force: whether to parse numbers that the file stores as text.

    Raises:
        ValueError: the number format is ambiguous.
    """
    cells = [cell for cell in table.column(name) if not is_missing(cell)]
    if not cells:
        return None
    text = name in table.texts and not force
    found = cell_formats.infer_number_format(cells, decimal or infer_decimal(table), text=text)
    return None if found is None else Column(name, "numeric", notation=found)


def infer_decimal(table: TextTable) -> str | None:
    """Return a comma, if a table with another delimiter has numbers with a decimal comma."""
    if table.delimiter == ",":
        return None
    cells = (cell for row in table.rows[:_LOOKED_AT] for cell in row)
    return "," if any(cell_formats.has_decimal_comma(cell) for cell in cells) else None


def encode(
    columns: Sequence[Column], table: TextTable, *, fill: bool = False, unknown: bool = False
) -> Array:
    """Return all encoded columns; NaN where a value is missing.

    Args:
        columns: encodings of the columns.
        table: rows to encode.
        fill: whether to replace missing values by the means of the training rows.
        unknown: whether levels that are not in the training data count as missing.
    """
    parts = []
    for column in columns:
        values = column.encode(table, unknown=unknown)
        if fill and column.fill:
            values[np.isnan(values).any(1)] = column.fill
        parts.append(values)
    return np.concatenate(parts, axis=1)
