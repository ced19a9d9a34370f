"""Encoding of all columns of a table as numbers for density models, and decoding.

Numbers are unchanged, dates are days; text with few distinct values is numbered, the most frequent
value first, and dequantized by uniform noise in training, so that it has a density.
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
from tractable.cli.tables import cell_formats
from tractable.cli.tables.cell_formats import DATE_FORMATS, NUMBER_FORMATS, PLAIN
from tractable.cli.tables.columns import infer_column
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
    """Encoding of a column of cells as numbers.

    Attributes:
        name: name in the header.
        levels: values of a text column, in the order of their codes; empty for numbers.
        decimals: number of decimals of its numbers.
        notation: format of numbers or dates; see ``tractable.cli.tables.cell_formats``.
    """

    name: str
    levels: tuple[str, ...] = ()
    decimals: int = 0
    notation: str = PLAIN

    @property
    def is_date(self) -> bool:
        """Whether the column has dates."""
        return self.notation in DATE_FORMATS

    def encode(self, table: TextTable) -> Array:
        """Return numbers, NaN where a value is missing.

        Raises:
            UsageError: a value is not a number or date, or a text is not one of the levels.
        """
        found = np.full(len(table), math.nan)
        places = {level: float(k) for k, level in enumerate(self.levels)}
        for i, cell in enumerate(table.column(self.name)):
            if is_missing(cell):
                continue
            value = places.get(cell) if self.levels else self._value(cell)
            if value is None or not abs(value) <= cell_formats.MAX_NUMBER:
                raise UsageError(
                    f"{table.path.name}, column {self.name!r}, row {table.numbers[i]}: {cell!r}, "
                    f"expected {self._expected()}"
                )
            found[i] = value
        return found

    def _value(self, cell: str) -> float | None:
        if not self.is_date:
            return cell_formats.parse_number(cell, self.notation)
        when = cell_formats.parse_date(cell, self.notation)
        return None if when is None else cell_formats.days_since_2000(when)

    def _expected(self) -> str:
        if self.levels:
            return f"one of {', '.join(map(repr, self.levels[:8]))}"
        return f"a date ({self.notation})" if self.is_date else "a number up to 1e60"

    def decode(self, values: Array) -> list[str]:
        """Return cells in the format of the file; empty where a value is missing."""
        if not self.levels:
            return ["" if math.isnan(v) else self._cell(v) for v in values]
        last = len(self.levels) - 1
        return ["" if math.isnan(v) else self.levels[min(max(round(v), 0), last)] for v in values]

    def _cell(self, value: float) -> str:
        if self.is_date:
            return cell_formats.format_date(value, self.notation)
        return cell_formats.format_number(value, self.decimals, self.notation)

    def to_json(self) -> dict[str, Any]:
        """Return the column as JSON values; a plain notation is omitted."""
        held = asdict(self)
        if self.notation == PLAIN:
            del held["notation"]
        return held


@dataclass(frozen=True)
class RowTable:
    """Modeled columns of a table, and the encoding of its rows as numbers."""

    columns: tuple[RowColumn, ...]
    ids: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    @property
    def has_texts(self) -> bool:
        """Whether some columns are text, which is dequantized."""
        return any(column.levels for column in self.columns)

    def encode(self, table: TextTable) -> Array:
        """Return the encoded rows, ``[rows, columns]``."""
        table.require(self.names)
        return np.stack([column.encode(table) for column in self.columns], 1)

    def decode(self, rows: Array) -> list[list[str]]:
        """Return rows of cells."""
        parts = [column.decode(rows[:, k]) for k, column in enumerate(self.columns)]
        return [list(cells) for cells in zip(*parts, strict=True)]

    def with_column_names(self, message: str) -> str:
        """Return a message with column numbers replaced by names."""

        def name(found: re.Match[str]) -> str:
            at = int(found[0])
            return repr(self.names[at]) if at < len(self.names) else found[0]

        return re.sub(
            r"(columns? )(\d+)( and (\d+))?", lambda m: re.sub(r"\d+", name, m[0]), message
        )

    def to_json(self) -> dict[str, Any]:
        """Return the table as JSON values."""
        return {
            "format": FORMAT,
            "columns": [column.to_json() for column in self.columns],
            "ids": list(self.ids),
        }


def infer_columns(
    table: TextTable, *, ids: Sequence[str] = (), drop: Sequence[str] = (),
    categorical: Sequence[str] = (), decimal: str | None = None,
) -> RowTable:  # fmt: skip
    """Return the inferred encoding of all columns.

    Args:
        table: all rows.
        ids: columns that are copied and not modeled.
        drop: columns to ignore.
        categorical: columns of numbers to treat as categories.
        decimal: decimal separator, if the user gave it.
    """
    table.require([*ids, *drop, *categorical])
    names = [name for name in table.header if name not in {*ids, *drop}]
    notes = list(table.notes)
    if table.counter in names and table.counter not in categorical:
        names.remove(table.counter)
        notes.append("Left out the first column, an unnamed row index.")
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
        notes.append(f"Dates, encoded as days: {', '.join(dates)}.")
    return RowTable(tuple(columns), tuple(ids), tuple(notes))


def _max_decimals(cell: str, notation: str) -> int:
    digits = cell_formats.count_decimals(cell, notation)
    return _MOST_DECIMALS if digits is None else min(digits, _MOST_DECIMALS)


def save(path: Path, model: GenerativeModel, table: RowTable) -> None:
    """Write a fitted model and the encoding of its table atomically."""
    tensors, header = serialization.pack(model)
    storage.write(path, tensors, {**header, ENTRY: table.to_json()})


def load(path: Path) -> tuple[GenerativeModel, RowTable]:
    """Return a model that ``tractable density`` wrote; no code of the file is executed.

    Raises:
        UsageError: the file does not exist, has another version, or holds another model.
    """
    path = path / MODEL if path.is_dir() else path
    try:
        _, header = storage.read(path)
        entry = header.get(ENTRY)
        if not isinstance(entry, dict) or entry.get("format") != FORMAT:
            raise InvalidModelFile(f"{path} holds no model of `tractable density`")
        with storage.as_invalid_file(path):
            table = _unpack(entry)
            model = GenerativeModel.load(path)
            if len(model.fitted_scaler().steps) != len(table.columns):
                raise InvalidModelFile(f"{path} is a damaged model file: its columns do not match")
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
        notation = require_type(held.get("notation", PLAIN), str, "a notation")
        if notation not in (*NUMBER_FORMATS, *DATE_FORMATS) or (levels and notation != PLAIN):
            raise InvalidModelFile(f"a column cannot have the notation {notation!r}")
        columns.append(
            RowColumn(require_type(held["name"], str, "a name"), levels, decimals, notation)
        )
    return RowTable(
        tuple(columns), tuple(require_type(name, str, "a name") for name in entry["ids"])
    )
