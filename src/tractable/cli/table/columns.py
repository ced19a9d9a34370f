"""From cells of text to numbers: numeric columns as they are, categorical ones one-hot.

A column is numeric if its values are numbers, and categorical if they are texts of few kinds; what
lies between is refused with the reason, because a guess would be silent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tractable.cli.errors import BadUse
from tractable.cli.table.csv_file import CsvTable, is_missing

Array = npt.NDArray[np.float64]

MOST_LEVELS = 20
"""A text column with more kinds of values than this is one-hot encoded only when asked."""


@dataclass(frozen=True)
class Column:
    """How one column of the file becomes one or more columns of numbers.

    Attributes:
        name: in the header.
        kind: numeric, or categorical: one column of 0 and 1 for each level.
        levels: the values of a categorical column.
        fill: what stands for a missing value: the mean of each encoded column over the training
            rows (for a categorical column, the frequencies of its levels); empty before ``filled``.
    """

    name: str
    kind: Literal["numeric", "categorical"]
    levels: tuple[str, ...] = ()
    fill: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return len(self.levels) if self.kind == "categorical" else 1

    def encode(self, table: CsvTable) -> Array:
        """The encoded values, ``[rows, width]``; NaN where a value is missing.

        Raises:
            BadUse: a value that is no number, or a level that was not seen in training.
        """
        cells = table.column(self.name)
        values = np.full((len(cells), self.width), math.nan)
        for i, cell in enumerate(cells):
            if is_missing(cell):
                continue
            if self.kind == "numeric":
                values[i, 0] = self._number(cell, table, table.numbers[i])
            else:
                values[i] = 0.0
                values[i, self._level(cell, table, table.numbers[i])] = 1.0
        return values

    def filled(self, values: Array) -> Column:
        """The same column with the means of these training values to stand for missing ones."""
        if np.isnan(values).all():
            raise BadUse(f"column {self.name!r} has no values in the training rows: --drop it")
        return Column(self.name, self.kind, self.levels, tuple(np.nanmean(values, 0).tolist()))

    def _number(self, cell: str, table: CsvTable, row: int) -> float:
        value = parse(cell)
        if value is None:
            raise BadUse(
                f"{table.path.name}, column {self.name!r}, row {row}: {cell!r} is not a number, "
                f"as the column's other values are"
            )
        if not math.isfinite(value):
            raise BadUse(
                f"{table.path.name}, column {self.name!r}, row {row}: {cell!r} is not finite"
            )
        return value

    def _level(self, cell: str, table: CsvTable, row: int) -> int:
        try:
            return self.levels.index(cell)
        except ValueError:
            known = ", ".join(map(repr, self.levels[:8])) + (", ..." if self.width > 8 else "")
            raise BadUse(
                f"{table.path.name}, column {self.name!r}, row {row}: {cell!r} was not seen in "
                f"training (known: {known})"
            ) from None

    def to_json(self) -> dict[str, Any]:
        """As a model file holds it."""
        return asdict(self)

    @classmethod
    def from_json(cls, held: dict[str, Any]) -> Column:
        """What ``to_json`` gave."""
        return cls(held["name"], held["kind"], tuple(held["levels"]), tuple(held["fill"]))


def parse(cell: str) -> float | None:
    """The number that a cell holds, or None; digits may not be grouped by ``_``."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def infer(table: CsvTable, name: str, *, categorical: bool) -> Column:
    """What kind of column this is.

    Args:
        table: all rows.
        name: the column.
        categorical: the user says that it is.
    """
    cells = [cell for cell in table.column(name) if not is_missing(cell)]
    levels = tuple(sorted(set(cells)))
    numbers = sum(parse(cell) is not None for cell in cells)
    if categorical:
        return Column(name, "categorical", levels)
    if numbers > len(cells) / 2 or not cells:
        return Column(name, "numeric")  # encode() names the first value that is not a number
    if len(levels) > min(MOST_LEVELS, max(len(cells) // 2, 2)):
        raise BadUse(
            f"{table.path.name}, column {name!r}: text with {len(levels)} different values in "
            f"{len(cells)} rows; leave it out with --drop, copy it with --id, or one-hot encode "
            f"it with --categorical"
        )
    return Column(name, "categorical", levels)


def encode(columns: Sequence[Column], table: CsvTable) -> Array:
    """All columns beside each other, missing values filled where a column knows with what."""
    parts = []
    for column in columns:
        values = column.encode(table)
        if column.fill:
            gaps = np.isnan(values).any(1)
            values[gaps] = column.fill
        parts.append(values)
    return np.concatenate(parts, axis=1)
