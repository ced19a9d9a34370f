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

from tractable.cli.errors import UsageError, unknown_name
from tractable.cli.tables.formats import parse_number

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "nat", "#n/a", "?", "-"})
"""What counts as a missing value, whatever its case."""
_ROW = re.compile(r"\brow (\d+)")


def is_missing(text: str) -> bool:
    """Whether a cell holds no value."""
    return text.strip().lower() in MISSING


@dataclass(frozen=True)
class TextTable:
    """Cells as text.

    Attributes:
        path: where it was read.
        header: names of the columns.
        rows: one list of cells per row, stripped of blanks around them.
        numbers: of the rows, from 1, without the header and blank lines.
        delimiter: between cells; empty where the file has none.
        notes: what a reader should know of how it was read.
        counter: the first column, if it has no name and only counts the rows.
        texts: the columns that the file itself holds as text (Excel, Parquet).
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
        """The cells of one column."""
        at = self.header.index(name)
        return [row[at] for row in self.rows]

    def require(self, names: Iterable[str]) -> None:
        """Refuse names that are not columns."""
        for name in names:
            if name not in self.header:
                error = unknown_name(f"column in {self.path.name}", name, self.header)
                odd = any(parse_number(cell) is not None for cell in self.header)
                hint = "; is its first line a header?" if odd else ""
                raise UsageError(f"{error}{hint}")

    def missing(self, names: Sequence[str]) -> dict[str, list[int]]:
        """The row numbers with missing values, of the columns that have any."""
        found = {}
        for name in names:
            cells = self.column(name)
            numbers = [n for n, cell in zip(self.numbers, cells, strict=True) if is_missing(cell)]
            if numbers:
                found[name] = numbers
        return found

    def in_file(self, message: str) -> str:
        """A message about places of rows from 0, with the numbers that the rows have in the file.

        >>> table = TextTable(Path("t.csv"), ("x",), [["5"], ["-1"]], [3, 7], ",")
        >>> table.in_file("counts must be from 0, got -1 in row 1")
        'counts must be from 0, got -1 in row 7'
        """
        return _ROW.sub(lambda found: f"row {self.numbers[int(found[1])]}", message)

    def without(self, numbers: set[int]) -> TextTable:
        """The table without the rows of these numbers."""
        kept = [i for i, number in enumerate(self.numbers) if number not in numbers]
        return self.take(kept)

    def take(self, places: Iterable[int]) -> TextTable:
        """Some rows, by their places from 0."""
        chosen = list(places)
        rows = [self.rows[i] for i in chosen]
        return replace(self, rows=rows, numbers=[self.numbers[i] for i in chosen])


def read_table(path: Path, *, encoding: str | None = None) -> TextTable:
    """A table with a header line: CSV (any encoding, gzip), Excel or Parquet.

    Columns without a name get one; a first one that only counts the rows, as pandas writes it, is
    said to be one (``counter``).

    Raises:
        UsageError: no such file, or not a table.
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
    """Name every column, and find one that counts the rows.

    A column without a name and without values is a trailing delimiter, and left out.

    Returns:
        The column that counts the rows or None, the names, the rows, and the positions in the file
        of the columns that are kept.
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
    """Whether cells are whole numbers, all different: the index of a data frame, in any order."""
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
"""What text that is not UTF-8 is taken for: that of Windows in Western Europe and America."""


@dataclass(frozen=True)
class Lines:
    """Cells as text.

    Attributes:
        cells: one list for each line that is not blank, the header first; a line of empty cells
            is a row of missing values, unless only such lines come after it.
        delimiter: between cells; empty where the file has none.
        notes: what a reader should know of how they were read.
        texts: positions of the columns that the file itself holds as text (Excel, Parquet).
    """

    cells: list[list[str]]
    delimiter: str = ""
    notes: list[str] = field(default_factory=list)
    texts: frozenset[int] = frozenset()


def read_cells(path: Path, encoding: str | None = None) -> Lines:
    """The cells of a file.

    Args:
        path: the file.
        encoding: encoding of text files; default: UTF-8, UTF-16 with a byte order mark, otherwise
            ``FALLBACK_ENCODING`` with a note.

    Raises:
        UsageError: no such file, or not a table.
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
            raise UsageError(f"{path} is compressed by gzip, and damaged: {error}") from error
    for start, kind in _OTHERS.items():
        if content.startswith(start):
            raise UsageError(f"{path} is {kind}: save it as CSV, Excel (.xlsx) or Parquet")
    if content.startswith(_PARQUET):
        return _read_parquet(path, content)
    if content.startswith(_ZIP):
        return _read_excel(path, content)
    return _read_text(path, content, encoding)


def _read_text(path: Path, content: bytes, encoding: str | None) -> Lines:
    notes = list[str]()
    wide = next((name for start, name in _WIDE.items() if content.startswith(start)), None)
    chosen = encoding or wide or "utf-8-sig"
    try:
        text = content.decode(chosen)
    except LookupError:
        raise UsageError(
            f"no encoding {encoding!r}: wanted utf-8, utf-16, latin-1, cp1252, ..."
        ) from None
    except UnicodeDecodeError as error:
        if encoding is not None or wide is not None or _is_binary(content):
            reason = f"{error.reason} at byte {error.start}"
            raise UsageError(f"{path} is not text in {chosen.upper()}: {reason}") from error
        text = content.decode(FALLBACK_ENCODING, errors="replace")
        notes.append(
            "Not UTF-8: read as Windows-1252 (Western Europe); --encoding names another encoding."
        )
    if "\0" in text:
        raise UsageError(
            f"{path} is not text: it has zero bytes; --encoding utf-16 may be what it is"
        )
    if not text.strip():
        raise UsageError(f"{path} is empty: wanted a header line and rows")
    first = text.splitlines()[0]
    if not first.strip():
        raise UsageError(f"{path} begins with a blank line: wanted a header line and rows")
    delimiter = max(_DELIMITERS, key=first.count)
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise UsageError(f"{path} is not a CSV file: {error}") from error
    return Lines(_strip(lines), delimiter, notes)


def _is_binary(content: bytes) -> bool:
    """Whether bytes are no text in any encoding of one byte a letter."""
    sample = content[:4096]
    control = sum(byte < 9 or 13 < byte < 32 for byte in sample)
    return control > len(sample) // 100


def _strip(lines: Sequence[Sequence[str]]) -> list[list[str]]:
    """Stripped cells of the lines that are not blank."""
    cells = ([cell.strip() for cell in line] for line in lines)
    return _trim([line for line in cells if any(line) or len(line) > 1], any)


def _trim(lines: list[T], filled: Callable[[T], object]) -> list[T]:
    """The lines from the first to the last that is filled: spreadsheets have empty ones beyond."""
    some = [k for k, line in enumerate(lines) if filled(line)]
    return lines[some[0] : some[-1] + 1] if some else []


def _read_excel(path: Path, content: bytes) -> Lines:
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
        notes.append(f"The first of {len(names)} sheets, {names[0]!r}.")
    lines = _trim(sheet, lambda row: any(map(_to_cell, row)))
    if not lines:
        raise UsageError(f"{path} is empty: wanted a header line and rows")
    width = max(k + 1 for line in lines for k, value in enumerate(line) if _to_cell(value))
    header, *rows = [[*line, *[None] * width][:width] for line in lines]
    columns = [[row[k] for row in rows] for k in range(width)]
    return _from_columns([_to_cell(name) for name in header], columns, notes)


def _read_parquet(path: Path, content: bytes) -> Lines:
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
    """The values of a Parquet column; stamps in microseconds, as ``datetime`` has them."""
    if arrow.types.is_timestamp(column.type):
        # Not safe: what lies below a microsecond is cut, which is far below any step of a table.
        column = column.cast(arrow.timestamp("us", column.type.tz), safe=False)
    values = list(column.to_pylist())
    if arrow.types.is_float32(column.type) or arrow.types.is_float16(column.type):
        # As short as the precision allows: 0.1 and not 0.10000000149011612.
        narrow = np.dtype(column.type.to_pandas_dtype()).type
        return [None if value is None else float(str(narrow(value))) for value in values]
    return values


def _from_columns(names: list[str], columns: Sequence[Sequence[Any]], notes: list[str]) -> Lines:
    """Typed columns as a CSV file would have them."""
    found = [_to_cells(values) for values in columns]
    texts = frozenset(k for k, values in enumerate(columns) if _is_text(values))
    return Lines([names, *map(list, zip(*found, strict=True))], notes=notes, texts=texts)


def _is_text(values: Sequence[Any]) -> bool:
    """Whether all values of a column are texts."""
    some = [value for value in values if value is not None]
    return bool(some) and all(isinstance(value, str) for value in some)


def _to_cells(values: Sequence[Any]) -> list[str]:
    """The values of a column as a CSV file would have them, stamps all in one way."""
    stamps = [value for value in values if isinstance(value, dt.datetime)]
    if not stamps:
        return [_to_cell(value) for value in values]
    way = _timestamp_format(stamps)
    return [way(value) if isinstance(value, dt.datetime) else _to_cell(value) for value in values]


def _timestamp_format(stamps: Sequence[dt.datetime]) -> Callable[[dt.datetime], str]:
    """How to write stamps: as dates if all of them are, else to seconds, or to microseconds."""
    if all(when.tzinfo is None and when.time() == dt.time.min for when in stamps):
        return lambda when: when.date().isoformat()
    precision = "microseconds" if any(when.microsecond for when in stamps) else "seconds"
    return lambda when: when.isoformat(" ", precision)


def _to_cell(value: Any) -> str:
    """A value as a CSV file would have it."""
    return "" if value is None else str(value).strip()


def _import_reader(module: str, what: str) -> Any:
    """A package that reads a kind of file."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UsageError(
            f"{what}: to read it, pip install 'tractable[tables]', or save it as CSV"
        ) from None
