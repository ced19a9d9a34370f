"""Tables in files as cells of text: CSV in any encoding, gzip, Excel and Parquet.

The kind of a file is recognized by its first bytes, not by its name.
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import importlib
import io
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tractable.cli.errors import UsageError, suggestion
from tractable.cli.tables.cell_formats import parse_number

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "nat", "#n/a", "?", "-"})
"""Cells that count as missing values, in lower case."""
_ROW = re.compile(r"\brow (\d+)")


def is_missing(text: str) -> bool:
    """Whether a cell is a missing value."""
    return text.strip().lower() in MISSING


@dataclass(frozen=True)
class TextTable:
    """A table of text cells.

    Attributes:
        path: path of the file.
        header: names of the columns.
        rows: cells of each row, without surrounding blanks.
        numbers: numbers of the rows, from 1, without the header and blank lines.
        delimiter: delimiter of the cells; empty if the file has none.
        notes: remarks on how the file was read.
        counter: name of the first column, if it is an unnamed row index.
        texts: columns that the file stores as text (Excel, Parquet).
    """

    path: Path
    header: tuple[str, ...]
    rows: list[list[str]]
    numbers: list[int]
    delimiter: str
    notes: tuple[str, ...] = ()
    counter: str | None = None
    texts: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> list[str]:
        """Return the cells of a column."""
        at = self.header.index(name)
        return [row[at] for row in self.rows]

    def require(self, names: Iterable[str]) -> None:
        """Raise an error for names that are not columns."""
        for name in names:
            if name not in self.header:
                has_numbers = any(parse_number(cell) is not None for cell in self.header)
                hint = "; is its first line a header?" if has_numbers else ""
                raise UsageError(
                    f"{self.path.name} has no column {name!r}: "
                    f"{suggestion(name, self.header)}{hint}"
                )

    def missing(self, names: Sequence[str]) -> dict[str, list[int]]:
        """Return the numbers of the rows with missing values, by column."""
        found = {}
        for name in names:
            cells = self.column(name)
            numbers = [n for n, cell in zip(self.numbers, cells, strict=True) if is_missing(cell)]
            if numbers:
                found[name] = numbers
        return found

    def in_file(self, message: str) -> str:
        """Return a message with row indices replaced by the row numbers of the file.

        >>> table = TextTable(Path("t.csv"), ("x",), [["5"], ["-1"]], [3, 7], ",")
        >>> table.in_file("counts must be from 0, got -1 in row 1")
        'counts must be from 0, got -1 in row 7'
        """
        return _ROW.sub(lambda found: f"row {self.numbers[int(found[1])]}", message)

    def without(self, numbers: set[int]) -> TextTable:
        """Return the table without the rows of these numbers."""
        kept = [i for i, number in enumerate(self.numbers) if number not in numbers]
        return self.take(kept)

    def take(self, places: Iterable[int]) -> TextTable:
        """Return the rows at these indices."""
        chosen = list(places)
        rows = [self.rows[i] for i in chosen]
        return replace(self, rows=rows, numbers=[self.numbers[i] for i in chosen])


def read_table(path: Path, *, encoding: str | None = None) -> TextTable:
    """Return the table in a file: CSV (any encoding, gzip), Excel or Parquet, with a header line.

    Columns without a name get one.  An unnamed first column of row numbers, as written by pandas,
    is named in ``counter``.

    Raises:
        UsageError: the file does not exist or is not a table.
    """
    lines = read_cells(path, encoding)
    header, *rows = lines.cells
    for place, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise UsageError(
                f"{path}, row {place}: {len(row)} values, but the header has {len(header)} columns"
            )
    if not rows:
        raise UsageError(f"{path} has a header and no rows")
    notes = list(lines.notes)
    counter, header, rows, kept = _name_columns(header, rows, notes)
    twice = [name for name, count in Counter(header).items() if count > 1]
    if twice:
        raise UsageError(f"{path} has more than one column named {', '.join(map(repr, twice))}")
    numbers = list(range(1, len(rows) + 1))
    texts = frozenset(name for name, k in zip(header, kept, strict=True) if k in lines.texts)
    return TextTable(
        path, tuple(header), rows, numbers, lines.delimiter, tuple(notes), counter, texts
    )


def _name_columns(
    header: list[str], rows: list[list[str]], notes: list[str]
) -> tuple[str | None, list[str], list[list[str]], list[int]]:
    """Name every column, and find an unnamed row index.

    A column without a name and values is due to a trailing delimiter, and removed.

    Returns:
        The name of the row index or None, the names, the rows, and the positions in the file of the
        remaining columns.
    """
    if all(header):
        return None, header, rows, list(range(len(header)))
    empty = [k for k, name in enumerate(header) if not name and not any(row[k] for row in rows)]
    kept = [k for k in range(len(header)) if k not in empty]
    rows = [[row[k] for k in kept] for row in rows] if empty else rows
    given = [header[k] for k in kept]
    names = [name or f"column_{k + 1}" for k, name in enumerate(given)]
    counter = names[0] if not given[0] and _is_row_counter(row[0] for row in rows) else None
    new = [name for name, old in zip(names, given, strict=True) if not old and name != counter]
    if new:
        notes.append(f"Columns without a name are called {', '.join(new)}.")
    return counter, names, rows, kept


def _is_row_counter(cells: Iterable[str]) -> bool:
    """Whether cells are distinct integers, as in the index of a data frame."""
    found = list(cells)
    return all(cell.isdecimal() for cell in found) and len(set(map(int, found))) == len(found)


# --- reading files -----------------------------------------------------------------------------

T = TypeVar("T")

_DELIMITERS = ",;\t|"
_GZIP, _ZIP, _PARQUET = b"\x1f\x8b", b"PK\x03\x04", b"PAR1"
_OTHERS = {
    b"\xd0\xcf\x11\xe0": "an old Excel file (.xls)",
    b"BZh": "compressed by bzip2",
    b"\xfd7zXZ": "compressed by xz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"%PDF": "a PDF",
    b"\x89PNG": "a picture",
    b"SQLite format 3": "an SQLite database",
    b"ARROW1": "an Arrow file (Feather)",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "a NumPy file",
}
_WIDE = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
FALLBACK_ENCODING = "cp1252"
"""Encoding of text that is not UTF-8: Windows in Western Europe and America."""


@dataclass(frozen=True)
class RawTable:
    """Cells of a file as text.

    Attributes:
        cells: one list for each line that is not blank, header first; a line of empty cells is a
            row of missing values, unless only such lines follow it.
        delimiter: delimiter of the cells; empty if the file has none.
        notes: remarks on how the file was read.
        texts: positions of the columns that the file stores as text (Excel, Parquet).
    """

    cells: list[list[str]]
    delimiter: str = ""
    notes: list[str] = field(default_factory=list)
    texts: frozenset[int] = frozenset()


def read_cells(path: Path, encoding: str | None = None) -> RawTable:
    """Return the cells of a file.

    Args:
        path: path of the file.
        encoding: encoding of text files; default: UTF-8, UTF-16 with a byte order mark, otherwise
            ``FALLBACK_ENCODING`` with a note.

    Raises:
        UsageError: the file does not exist or is not a table.
    """
    if not path.is_file():
        raise UsageError(
            f"{path} is a folder, not a CSV file" if path.is_dir() else f"no file {path}"
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    if content.startswith(_GZIP):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise UsageError(f"{path} is a damaged gzip file: {error}") from error
    for start, kind in _OTHERS.items():
        if content.startswith(start):
            raise UsageError(f"{path} is {kind}: save it as CSV, Excel (.xlsx) or Parquet")
    if content.startswith(_PARQUET):
        return _read_parquet(path, content)
    if content.startswith(_ZIP):
        return _read_excel(path, content)
    return _read_text(path, content, encoding)


def _read_text(path: Path, content: bytes, encoding: str | None) -> RawTable:
    notes = list[str]()
    wide = next((name for start, name in _WIDE.items() if content.startswith(start)), None)
    chosen = encoding or wide or "utf-8-sig"
    try:
        text = content.decode(chosen)
    except LookupError:
        raise UsageError(
            f"unknown encoding {encoding!r}: use utf-8, utf-16, latin-1, cp1252, ..."
        ) from None
    except UnicodeDecodeError as error:
        if encoding is not None or wide is not None or _is_binary(content):
            reason = f"{error.reason} at byte {error.start}"
            raise UsageError(f"{path} is not text in {chosen.upper()}: {reason}") from error
        text = content.decode(FALLBACK_ENCODING, errors="replace")
        notes.append(
            "Not UTF-8: read as Windows-1252 (Western Europe); --encoding selects another encoding."
        )
    if "\0" in text:
        raise UsageError(f"{path} is not text: it has zero bytes; try --encoding utf-16")
    if not text.strip():
        raise UsageError(f"{path} is empty: expected a header line and rows")
    first = text.splitlines()[0]
    if not first.strip():
        raise UsageError(f"{path} begins with a blank line: expected a header line and rows")
    delimiter = max(_DELIMITERS, key=first.count)
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise UsageError(f"{path} is not a CSV file: {error}") from error
    return RawTable(_strip(lines), delimiter, notes)


def _is_binary(content: bytes) -> bool:
    """Whether bytes are not text in any single-byte encoding."""
    sample = content[:4096]
    control = sum(byte < 9 or 13 < byte < 32 for byte in sample)
    return control > len(sample) // 100


def _strip(lines: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the stripped cells of the lines that are not blank."""
    cells = ([cell.strip() for cell in line] for line in lines)
    return _trim([line for line in cells if any(line) or len(line) > 1], any)


def _trim(lines: list[T], filled: Callable[[T], object]) -> list[T]:
    """Return the lines from the first to the last that is not empty, as in spreadsheets."""
    some = [k for k, line in enumerate(lines) if filled(line)]
    return lines[some[0] : some[-1] + 1] if some else []


def _read_excel(path: Path, content: bytes) -> RawTable:
    openpyxl = _import_reader("openpyxl", f"{path} is an Excel file (or another ZIP archive)")
    try:
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    except Exception as error:
        raise UsageError(f"{path} is a ZIP archive and not an Excel file: {error}") from error
    names = list(book.sheetnames)
    sheet = [list(row) for row in book[names[0]].iter_rows(values_only=True)]
    book.close()
    notes = []
    if len(names) > 1:
        notes.append(f"Read the first of {len(names)} sheets, {names[0]!r}.")
    lines = _trim(sheet, lambda row: any(map(_to_cell, row)))
    if not lines:
        raise UsageError(f"{path} is empty: expected a header line and rows")
    width = max(k + 1 for line in lines for k, value in enumerate(line) if _to_cell(value))
    header, *rows = [[*line, *[None] * width][:width] for line in lines]
    columns = [[row[k] for row in rows] for k in range(width)]
    return _from_columns([_to_cell(name) for name in header], columns, notes)


def _read_parquet(path: Path, content: bytes) -> RawTable:
    arrow = _import_reader("pyarrow", f"{path} is a Parquet file")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    try:
        table = parquet.ParquetFile(io.BytesIO(content)).read()
    except Exception as error:
        raise UsageError(f"{path} is a damaged Parquet file: {error}") from error
    kept = [k for k, name in enumerate(table.column_names) if not name.startswith("__index_level_")]
    names = [table.column_names[k].strip() for k in kept]
    return _from_columns(names, [_parquet_values(table.column(k), arrow) for k in kept], [])


def _parquet_values(column: Any, arrow: Any) -> list[Any]:
    """Return the values of a Parquet column; timestamps in microseconds, like ``datetime``."""
    if arrow.types.is_timestamp(column.type):
        # safe=False truncates nanoseconds.
        column = column.cast(arrow.timestamp("us", column.type.tz), safe=False)
    values = list(column.to_pylist())
    if arrow.types.is_float32(column.type) or arrow.types.is_float16(column.type):
        # The shortest text with this precision: 0.1 instead of 0.10000000149011612.
        narrow = np.dtype(column.type.to_pandas_dtype()).type
        return [None if value is None else float(str(narrow(value))) for value in values]
    return values


def _from_columns(names: list[str], columns: Sequence[Sequence[Any]], notes: list[str]) -> RawTable:
    """Return typed columns as the cells of a CSV file."""
    found = [_to_cells(values) for values in columns]
    texts = frozenset(k for k, values in enumerate(columns) if _is_text(values))
    return RawTable([names, *map(list, zip(*found, strict=True))], notes=notes, texts=texts)


def _is_text(values: Sequence[Any]) -> bool:
    """Whether all values of a column are strings."""
    some = [value for value in values if value is not None]
    return bool(some) and all(isinstance(value, str) for value in some)


def _to_cells(values: Sequence[Any]) -> list[str]:
    """Return the values of a column as cells of a CSV file, all timestamps in one format."""
    stamps = [value for value in values if isinstance(value, dt.datetime)]
    if not stamps:
        return [_to_cell(value) for value in values]
    format_timestamp = _timestamp_format(stamps)
    return [
        format_timestamp(value) if isinstance(value, dt.datetime) else _to_cell(value)
        for value in values
    ]


def _timestamp_format(stamps: Sequence[dt.datetime]) -> Callable[[dt.datetime], str]:
    """Return a formatter of timestamps: as dates if possible, else with seconds or microseconds."""
    if all(when.tzinfo is None and when.time() == dt.time.min for when in stamps):
        return lambda when: when.date().isoformat()
    precision = "microseconds" if any(when.microsecond for when in stamps) else "seconds"
    return lambda when: when.isoformat(" ", precision)


def _to_cell(value: Any) -> str:
    """Return a value as a cell of a CSV file."""
    return "" if value is None else str(value).strip()


def _import_reader(module: str, what: str) -> Any:
    """Import a package that reads a file format."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UsageError(
            f"{what}: to read it, run pip install 'tractable[tables]', or save it as CSV"
        ) from None
