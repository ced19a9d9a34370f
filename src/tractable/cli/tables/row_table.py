"""Tables without a target, as models of rows take them: a number for every cell, and back.

Numbers are as they are, dates are days; texts of few kinds are numbered, the most frequent one
first, and spread evenly around their number when learnt, so that a density exists.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tractable.cli.errors import UsageError
from tractable.cli.tables import formats
from tractable.cli.tables.columns import infer_column
from tractable.cli.tables.formats import DATE_FORMATS, NUMBER_FORMATS, PLAIN
from tractable.cli.tables.reader import TextTable, is_missing
from tractable.errors import InvalidModelFile
from tractable.generative import GenerativeModel, serialization
from tractable.persistence import model_file as storage
from tractable.persistence.validation import require_type

Array = npt.NDArray[np.float64]

ENTRY = "table_of_rows"
FORMAT = 1
MODEL = "model.tr"
_MOST_DECIMALS = 12


@dataclass(frozen=True)
class RowColumn:
    """How a column of text cells is one of numbers.

    Attributes:
        name: in the header.
        levels: texts in the order of their numbers; empty for a column of numbers.
        decimals: digits after the point that its numbers are written with.
        notation: how numbers or dates are written; see ``tractable.cli.tables.formats``.
    """

    name: str
    levels: tuple[str, ...] = ()
    decimals: int = 0
    notation: str = PLAIN

    @property
    def is_date(self) -> bool:
        """Whether its numbers are days."""
        return self.notation in DATE_FORMATS

    def encode(self, table: TextTable) -> Array:
        """Numbers, NaN where a value is missing.

        Raises:
            UsageError: a value that is no number or date, or a text that was not there before.
        """
        found = np.full(len(table), math.nan)
        places = {level: float(k) for k, level in enumerate(self.levels)}
        for i, cell in enumerate(table.column(self.name)):
            if is_missing(cell):
                continue
            value = places.get(cell) if self.levels else self._value(cell)
            if value is None or not abs(value) <= formats.MAX_NUMBER:
                raise UsageError(
                    f"{table.path.name}, column {self.name!r}, row {table.numbers[i]}: {cell!r}, "
                    f"wanted {self._wanted()}"
                )
            found[i] = value
        return found

    def _value(self, cell: str) -> float | None:
        if not self.is_date:
            return formats.parse_number(cell, self.notation)
        when = formats.parse_date(cell, self.notation)
        return None if when is None else formats.days_since_2000(when)

    def _wanted(self) -> str:
        if self.levels:
            return f"one of {', '.join(map(repr, self.levels[:8]))}"
        return f"a date ({self.notation})" if self.is_date else "a number up to 1e60"

    def decode(self, values: Array) -> list[str]:
        """Cells as the file had them; empty where a number is missing."""
        if not self.levels:
            return ["" if math.isnan(v) else self._cell(v) for v in values]
        last = len(self.levels) - 1
        return ["" if math.isnan(v) else self.levels[min(max(round(v), 0), last)] for v in values]

    def _cell(self, value: float) -> str:
        if self.is_date:
            return formats.format_date(value, self.notation)
        return formats.format_number(value, self.decimals, self.notation)

    def to_json(self) -> dict[str, Any]:
        """As a model file holds it: a notation only where it is not the plain one."""
        held = asdict(self)
        if self.notation == PLAIN:
            del held["notation"]
        return held


@dataclass(frozen=True)
class RowTable:
    """The columns of a table that are modelled, and how rows of the file become rows of numbers."""

    columns: tuple[RowColumn, ...]
    ids: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return [column.name for column in self.columns]

    @property
    def has_texts(self) -> bool:
        """Whether some are texts, to be spread."""
        return any(column.levels for column in self.columns)

    def encode(self, table: TextTable) -> Array:
        """``[rows, columns]``."""
        table.require(self.names)
        return np.stack([column.encode(table) for column in self.columns], 1)

    def decode(self, rows: Array) -> list[list[str]]:
        """Rows of cells."""
        parts = [column.decode(rows[:, k]) for k, column in enumerate(self.columns)]
        return [list(cells) for cells in zip(*parts, strict=True)]

    def named(self, message: str) -> str:
        """A message in which numbers of columns are their names."""

        def name(found: re.Match[str]) -> str:
            at = int(found[0])
            return repr(self.names[at]) if at < len(self.names) else found[0]

        return re.sub(
            r"(columns? )(\d+)( and (\d+))?", lambda m: re.sub(r"\d+", name, m[0]), message
        )

    def to_json(self) -> dict[str, Any]:
        """As a model file holds it."""
        return {
            "format": FORMAT,
            "columns": [column.to_json() for column in self.columns],
            "ids": list(self.ids),
        }


def infer_columns(
    table: TextTable, *, ids: Sequence[str] = (), drop: Sequence[str] = (),
    categorical: Sequence[str] = (), decimal: str | None = None,
) -> RowTable:  # fmt: skip
    """What the columns of a table are.

    Args:
        table: all rows.
        ids: columns that are copied, and not modelled.
        drop: columns that are left out.
        categorical: columns of numbers that are names of kinds.
        decimal: the sign between whole and parts of numbers, if the user says so.
    """
    table.require([*ids, *drop, *categorical])
    names = [name for name in table.header if name not in {*ids, *drop}]
    notes = list(table.notes)
    if table.counter in names and table.counter not in categorical:
        names.remove(table.counter)
        notes.append("The first column has no name and only counts the rows: left out.")
    if not names:
        raise UsageError(f"{table.path.name} has no columns left to model")
    columns = []
    for name in names:
        found = infer_column(table, name, categorical=name in categorical, decimal=decimal)
        cells = [cell for cell in table.column(name) if not is_missing(cell)]
        if not cells:
            raise UsageError(f"{table.path.name}, column {name!r} has no values: --drop it")
        if found.kind == "categorical":
            count = Counter(cells)
            columns.append(RowColumn(name, tuple(sorted(count, key=lambda c: (-count[c], c)))))
        elif found.kind == "numeric":
            digits = max(_max_decimals(cell, found.notation) for cell in cells)
            columns.append(RowColumn(name, decimals=digits, notation=found.notation))
        else:
            columns.append(RowColumn(name, notation=found.notation))
    dates = [column.name for column in columns if column.is_date]
    if dates:
        notes.append(f"Dates, as days: {', '.join(dates)}.")
    return RowTable(tuple(columns), tuple(ids), tuple(notes))


def _max_decimals(cell: str, notation: str) -> int:
    digits = formats.count_decimals(cell, notation)
    return _MOST_DECIMALS if digits is None else min(digits, _MOST_DECIMALS)


def save(path: Path, model: GenerativeModel, table: RowTable) -> None:
    """Write a fitted model with its table, once and atomically."""
    tensors, header = serialization.pack(model)
    storage.write(path, tensors, {**header, ENTRY: table.to_json()})


def load(path: Path) -> tuple[GenerativeModel, RowTable]:
    """Read a model of rows that ``tractable density`` wrote; no code from the file is run.

    Raises:
        UsageError: no such file, of another version, or not of rows.
    """
    path = path / MODEL if path.is_dir() else path
    try:
        _, header = storage.read(path)
        entry = header.get(ENTRY)
        if not isinstance(entry, dict) or entry.get("format") != FORMAT:
            raise InvalidModelFile(f"{path} holds no model that `tractable density` wrote")
        with storage.as_invalid_file(path):
            table = _unpack(entry)
            model = GenerativeModel.load(path)
            if len(model.fitted_scaler().steps) != len(table.columns):
                raise InvalidModelFile(f"{path} is a damaged model file: its columns do not fit")
    except (FileNotFoundError, InvalidModelFile) as error:
        raise UsageError(str(error)) from error
    return model, table


def _unpack(entry: dict[str, Any]) -> RowTable:
    columns = []
    for held in entry["columns"]:
        levels = tuple(require_type(level, str, "a level") for level in held["levels"])
        decimals = require_type(held["decimals"], int, "decimals")
        if not 0 <= decimals <= _MOST_DECIMALS:
            raise InvalidModelFile(f"a column cannot have {decimals} decimals")
        way = require_type(held.get("notation", PLAIN), str, "a notation")
        if way not in (*NUMBER_FORMATS, *DATE_FORMATS) or (levels and way != PLAIN):
            raise InvalidModelFile(f"a column cannot have the notation {way!r}")
        columns.append(RowColumn(require_type(held["name"], str, "a name"), levels, decimals, way))
    return RowTable(
        tuple(columns), tuple(require_type(name, str, "a name") for name in entry["ids"])
    )
