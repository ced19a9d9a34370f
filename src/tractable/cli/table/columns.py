"""From cells of text to numbers: numbers as they are, categories one-hot, dates as time goes.

A column is numeric if most of its values are numbers, in one of the ways to write them; dates, if
they all are; and categorical if they are texts of few kinds.  What lies between is refused with the
reason, because a guess would be silent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tractable.cli.errors import BadUse
from tractable.cli.table import notation as ways
from tractable.cli.table.csv_file import CsvTable, is_missing
from tractable.cli.table.notation import PLAIN

Array = npt.NDArray[np.float64]

_LOOKED_AT = 200  # rows, to find how numbers are written
MOST_LEVELS = 20
"""A text column with more kinds of values than this is one-hot encoded only when asked."""


@dataclass(frozen=True)
class Column:
    """How one column of the file becomes one or more columns of numbers.

    Attributes:
        name: in the header.
        kind: numeric; categorical: one column of 0 and 1 for each level; or date: days, and where
            in the year and in the week (and in the day) they are.
        levels: the values of a categorical column.
        fill: what stands for a missing value if it is to be filled: the mean of each encoded
            column over the training rows (for a categorical column, the frequencies of its
            levels); empty before ``filled``.
        notation: how numbers or dates are written; see ``tractable.cli.table.notation``.
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
            return 7 if ways.has_times(self.notation) else 5
        return len(self.levels) if self.kind == "categorical" else 1

    def encode(self, table: CsvTable, *, unknown: bool = False) -> Array:
        """The encoded values, ``[rows, width]``; NaN where a value is missing.

        Args:
            table: the rows.
            unknown: whether a level that was not seen in training counts as missing.

        Raises:
            BadUse: a value that is no number or date, or a level that was not seen in training.
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

    def strange(self, table: CsvTable) -> list[str]:
        """The levels of a table that were not seen in training."""
        if self.kind != "categorical":
            return []
        cells = dict.fromkeys(table.column(self.name))
        return [cell for cell in cells if not is_missing(cell) and cell not in self.levels]

    def filled(self, values: Array) -> Column:
        """The same column with the means of these training values to stand for missing ones."""
        if np.isnan(values).all():
            raise BadUse(f"column {self.name!r} has no values in the training rows: --drop it")
        return replace(self, fill=tuple(np.nanmean(values, 0).tolist()))

    def _number(self, cell: str, table: CsvTable, row: int) -> float:
        value = ways.number(cell, self.notation)
        if value is None:
            raise BadUse(
                f"{table.path.name}, column {self.name!r}, row {row}: {cell!r} is not a number, "
                f"{self._others(table)}"
            )
        if not abs(value) <= ways.LARGEST:
            what = "too large" if math.isfinite(value) else "not finite"
            raise BadUse(f"{table.path.name}, column {self.name!r}, row {row}: {cell!r} is {what}")
        return value

    def _others(self, table: CsvTable) -> str:
        """How many of the values are numbers."""
        cells = [cell for cell in table.column(self.name) if not is_missing(cell)]
        good = sum(ways.number(cell, self.notation) is not None for cell in cells)
        if good > len(cells) / 2:
            return "as the column's other values are"
        return f"and {'none' if good == 0 else f'only {good}'} of the {len(cells)} values is"

    def _date(self, cell: str, table: CsvTable, row: int) -> list[float]:
        when = ways.date_in(cell, self.notation)
        if when is None:
            raise BadUse(
                f"{table.path.name}, column {self.name!r}, row {row}: {cell!r} is not a date as "
                f"the column's other values are ({self.notation})"
            )
        return ways.parts(when, times=ways.has_times(self.notation))

    def _level(self, cell: str, table: CsvTable, row: int) -> int:
        try:
            return self.levels.index(cell)
        except ValueError:
            known = ", ".join(map(repr, self.levels[:8])) + (", ..." if self.width > 8 else "")
            raise BadUse(
                f"{table.path.name}, column {self.name!r}, row {row}: {cell!r} was not seen in "
                f"training (known: {known}); --unknown missing takes it as missing"
            ) from None

    def to_json(self) -> dict[str, Any]:
        """As a model file holds it: a notation only where it is not the plain one."""
        held = asdict(self)
        if self.notation == PLAIN:
            del held["notation"]
        return held

    @classmethod
    def from_json(cls, held: dict[str, Any]) -> Column:
        """What ``to_json`` gave; files of before there were notations have plain numbers."""
        return cls(
            held["name"], held["kind"], tuple(held["levels"]), tuple(held["fill"]),
            held.get("notation", PLAIN),
        )  # fmt: skip


def parse(cell: str) -> float | None:
    """The number that a cell holds, plainly written, or None."""
    return ways.number(cell)


def infer(
    table: CsvTable, name: str, *, categorical: bool = False, decimal: str | None = None
) -> Column:
    """What kind of column this is.

    Args:
        table: all rows.
        name: the column.
        categorical: the user says that it is.
        decimal: the sign between whole and parts of numbers, if the user says so.
    """
    cells = [cell for cell in table.column(name) if not is_missing(cell)]
    levels = tuple(sorted(set(cells)))
    if categorical:
        return Column(name, "categorical", levels)
    try:
        found = numeric(table, name, decimal)
        form = None
        if cells and (found is None or found.notation != PLAIN):
            form = ways.of_dates(cells)
    except ValueError as error:
        raise BadUse(f"{table.path.name}, column {name!r}: {error}") from None
    if form is not None:
        return Column(name, "date", notation=form)
    if found is not None or not cells:
        return found or Column(name, "numeric")
    if len(levels) > min(MOST_LEVELS, max(len(cells) // 2, 2)):
        held = name in table.texts and ways.of_numbers(cells, decimal) is not None
        hint = "; if these are numbers, save the column as numbers and not as text" if held else ""
        raise BadUse(
            f"{table.path.name}, column {name!r}: text with {len(levels)} different values in "
            f"{len(cells)} rows, such as {cells[0]!r}; leave it out with --drop, copy it with "
            f"--id, or one-hot encode it with --categorical{hint}"
        )
    return Column(name, "categorical", levels)


def numeric(
    table: CsvTable, name: str, decimal: str | None = None, *, wanted: bool = False
) -> Column | None:
    """The column as one of numbers, if most of its values are.

    Args:
        table: all rows.
        name: the column.
        decimal: the sign between whole and parts of numbers, if the user says so.
        wanted: the user says that these are numbers, even if the file holds them as text.

    Raises:
        ValueError: they can be read in two ways.
    """
    cells = [cell for cell in table.column(name) if not is_missing(cell)]
    if not cells:
        return None
    text = name in table.texts and not wanted
    found = ways.of_numbers(cells, decimal or decimal_of(table), text=text)
    return None if found is None else Column(name, "numeric", notation=found)


def decimal_of(table: CsvTable) -> str | None:
    """A comma, if numbers of a table that is not cut at commas clearly have decimal commas."""
    if table.delimiter == ",":
        return None
    cells = (cell for row in table.rows[:_LOOKED_AT] for cell in row)
    return "," if any(ways.clearly_decimal_comma(cell) for cell in cells) else None


def encode(
    columns: Sequence[Column], table: CsvTable, *, fill: bool = False, unknown: bool = False
) -> Array:
    """All columns beside each other; NaN where a value is missing.

    Args:
        columns: how each is encoded.
        table: the rows.
        fill: put the means of the training rows in place of missing values.
        unknown: whether levels that were not seen in training count as missing.
    """
    parts = []
    for column in columns:
        values = column.encode(table, unknown=unknown)
        if fill and column.fill:
            values[np.isnan(values).any(1)] = column.fill
        parts.append(values)
    return np.concatenate(parts, axis=1)
