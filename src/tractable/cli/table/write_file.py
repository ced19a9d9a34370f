"""Predictions as a file, of the kind that its name says: CSV, gzip, Excel, Parquet."""

from __future__ import annotations

import gzip
import importlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tractable.cli.errors import BadUse
from tractable.cli.table import csv_file
from tractable.persistence.files import whole_file

_NEEDS = {".parquet": "pyarrow", ".xlsx": "openpyxl"}
_TEXT = ("", ".csv", ".txt", ".gz")


def check(path: Path) -> None:
    """Refuse a name whose kind cannot be written, before anything is computed."""
    ending = path.suffix.lower()
    if ending in _NEEDS:
        try:
            importlib.import_module(_NEEDS[ending])
        except ImportError:
            raise BadUse(
                f"to write {path.name}, pip install 'tractable[tables]', or name a .csv file"
            ) from None
    elif ending not in _TEXT:
        raise BadUse(
            f"{path.name}: wanted a name that ends in .csv, .csv.gz, .xlsx or .parquet; for JSON "
            f"give --json"
        )


def write(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write a file, replacing an older one only when the new one is complete."""
    ending = path.suffix.lower()
    if ending in ("", ".csv", ".txt"):
        csv_file.write(path, header, rows)
        return
    with whole_file(path) as scratch:
        scratch.write_bytes(_content(ending, header, rows))


def _content(ending: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> bytes:
    stream = io.BytesIO()
    if ending == ".gz":
        text = io.StringIO()
        csv_file.write_rows(text, header, rows)
        return gzip.compress(text.getvalue().encode(), mtime=0)
    if ending == ".parquet":
        arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
        columns = list(map(list, zip(*rows, strict=True)))
        parquet.write_table(arrow.table(dict(zip(header, columns, strict=True))), stream)
        return stream.getvalue()
    openpyxl: Any = importlib.import_module("openpyxl")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("predictions")
    sheet.append(list(header))
    for row in rows:
        sheet.append([csv_file.plain(cell) for cell in row])
    book.save(stream)
    return stream.getvalue()
