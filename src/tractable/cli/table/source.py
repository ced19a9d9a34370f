"""From a file of any kind to lines of cells: text in its encodings, compressed, Excel, Parquet.

What a file is, is seen by its first bytes and not by its name.
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import importlib
import io
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tractable.cli.errors import BadUse

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
FALLBACK = "cp1252"
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


def read_lines(path: Path, encoding: str | None = None) -> Lines:
    """The cells of a file.

    Args:
        path: the file.
        encoding: of text; by default UTF-8, UTF-16 if it says so, else ``FALLBACK`` with a note.

    Raises:
        BadUse: no such file, or not a table.
    """
    if not path.is_file():
        raise BadUse(f"{path} is a folder, not a CSV file" if path.is_dir() else f"no file {path}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadUse(f"cannot read {path}: {error.strerror or error}") from error
    if content.startswith(_GZIP):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise BadUse(f"{path} is compressed by gzip, and damaged: {error}") from error
    for start, kind in _OTHERS.items():
        if content.startswith(start):
            raise BadUse(f"{path} is {kind}: save it as CSV, Excel (.xlsx) or Parquet")
    if content.startswith(_PARQUET):
        return _parquet(path, content)
    if content.startswith(_ZIP):
        return _excel(path, content)
    return _text(path, content, encoding)


def _text(path: Path, content: bytes, encoding: str | None) -> Lines:
    notes = list[str]()
    wide = next((name for start, name in _WIDE.items() if content.startswith(start)), None)
    chosen = encoding or wide or "utf-8-sig"
    try:
        text = content.decode(chosen)
    except LookupError:
        raise BadUse(
            f"no encoding {encoding!r}: wanted utf-8, utf-16, latin-1, cp1252, ..."
        ) from None
    except UnicodeDecodeError as error:
        if encoding is not None or wide is not None or _binary(content):
            reason = f"{error.reason} at byte {error.start}"
            raise BadUse(f"{path} is not text in {chosen.upper()}: {reason}") from error
        text = content.decode(FALLBACK, errors="replace")
        notes.append(
            "Not UTF-8: read as Windows-1252 (Western Europe); --encoding names another encoding."
        )
    if "\0" in text:
        raise BadUse(f"{path} is not text: it has zero bytes; --encoding utf-16 may be what it is")
    if not text.strip():
        raise BadUse(f"{path} is empty: wanted a header line and rows")
    first = text.splitlines()[0]
    if not first.strip():
        raise BadUse(f"{path} begins with a blank line: wanted a header line and rows")
    delimiter = max(_DELIMITERS, key=first.count)
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise BadUse(f"{path} is not a CSV file: {error}") from error
    return Lines(_stripped(lines), delimiter, notes)


def _binary(content: bytes) -> bool:
    """Whether bytes are no text in any encoding of one byte a letter."""
    sample = content[:4096]
    control = sum(byte < 9 or 13 < byte < 32 for byte in sample)
    return control > len(sample) // 100


def _stripped(lines: Sequence[Sequence[str]]) -> list[list[str]]:
    """Stripped cells of the lines that are not blank."""
    cells = ([cell.strip() for cell in line] for line in lines)
    return _between([line for line in cells if any(line) or len(line) > 1], any)


def _between(lines: list[T], filled: Callable[[T], object]) -> list[T]:
    """The lines from the first to the last that is filled: spreadsheets have empty ones beyond."""
    some = [k for k, line in enumerate(lines) if filled(line)]
    return lines[some[0] : some[-1] + 1] if some else []


def _excel(path: Path, content: bytes) -> Lines:
    openpyxl = _needed("openpyxl", f"{path} is an Excel file (or another ZIP archive)")
    try:
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    except Exception as error:
        raise BadUse(f"{path} is a ZIP archive and not an Excel file: {error}") from error
    names = list(book.sheetnames)
    sheet = [list(row) for row in book[names[0]].iter_rows(values_only=True)]
    book.close()
    notes = []
    if len(names) > 1:
        notes.append(f"The first of {len(names)} sheets, {names[0]!r}.")
    lines = _between(sheet, lambda row: any(map(_text_of, row)))
    if not lines:
        raise BadUse(f"{path} is empty: wanted a header line and rows")
    width = max(k + 1 for line in lines for k, value in enumerate(line) if _text_of(value))
    header, *rows = [[*line, *[None] * width][:width] for line in lines]
    columns = [[row[k] for row in rows] for k in range(width)]
    return _of_columns([_text_of(name) for name in header], columns, notes)


def _parquet(path: Path, content: bytes) -> Lines:
    arrow = _needed("pyarrow", f"{path} is a Parquet file")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    try:
        table = parquet.ParquetFile(io.BytesIO(content)).read()
    except Exception as error:
        raise BadUse(f"{path} is a damaged Parquet file: {error}") from error
    kept = [k for k, name in enumerate(table.column_names) if not name.startswith("__index_level_")]
    names = [table.column_names[k].strip() for k in kept]
    return _of_columns(names, [_values(table.column(k), arrow) for k in kept], [])


def _values(column: Any, arrow: Any) -> list[Any]:
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


def _of_columns(names: list[str], columns: Sequence[Sequence[Any]], notes: list[str]) -> Lines:
    """Typed columns as a CSV file would have them."""
    found = [_cells(values) for values in columns]
    texts = frozenset(k for k, values in enumerate(columns) if _is_text(values))
    return Lines([names, *map(list, zip(*found, strict=True))], notes=notes, texts=texts)


def _is_text(values: Sequence[Any]) -> bool:
    """Whether all values of a column are texts."""
    some = [value for value in values if value is not None]
    return bool(some) and all(isinstance(value, str) for value in some)


def _cells(values: Sequence[Any]) -> list[str]:
    """The values of a column as a CSV file would have them, stamps all in one way."""
    stamps = [value for value in values if isinstance(value, dt.datetime)]
    if not stamps:
        return [_text_of(value) for value in values]
    way = _way_of(stamps)
    return [way(value) if isinstance(value, dt.datetime) else _text_of(value) for value in values]


def _way_of(stamps: Sequence[dt.datetime]) -> Callable[[dt.datetime], str]:
    """How to write stamps: as dates if all of them are, else to seconds, or to microseconds."""
    if all(when.tzinfo is None and when.time() == dt.time.min for when in stamps):
        return lambda when: when.date().isoformat()
    precision = "microseconds" if any(when.microsecond for when in stamps) else "seconds"
    return lambda when: when.isoformat(" ", precision)


def _text_of(value: Any) -> str:
    """A value as a CSV file would have it."""
    return "" if value is None else str(value).strip()


def _needed(module: str, what: str) -> Any:
    """A package that reads a kind of file."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise BadUse(
            f"{what}: to read it, pip install 'tractable[tables]', or save it as CSV"
        ) from None
