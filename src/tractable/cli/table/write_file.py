"""Rows as a file, of the kind that its name says: CSV, gzip, Excel, Parquet."""

from __future__ import annotations

import gzip
import importlib
import io
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from tractable.cli.errors import BadUse
from tractable.cli.folder import unwritable
from tractable.cli.table import csv_file
from tractable.cli.table.notation import number
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


def place(out: Path) -> None:
    """Refuse a file that cannot be written: its name, its folder, its kind."""
    problem = f"{out} is a folder, wanted a file" if out.is_dir() else unwritable(out.parent)
    if problem is None and not out.parent.is_dir():
        problem = f"no folder {out.parent} for {out.name}"
    if problem:
        raise BadUse(problem)
    check(out)


def numbered(
    header: Sequence[str], rows: Sequence[Sequence[object]], names: Collection[str], path: Path
) -> list[list[object]]:
    """Rows whose cells of some columns are numbers, in files that know numbers from text."""
    if path.suffix.lower() not in _NEEDS:
        return [list(row) for row in rows]
    numeric = [name in names for name in header]
    return [
        [
            (number(str(cell)) if cell != "" else None) if is_number else cell
            for cell, is_number in zip(row, numeric, strict=True)
        ]
        for row in rows
    ]


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
    sheet = book.create_sheet("rows")
    sheet.append(list(header))
    for row in rows:
        sheet.append([csv_file.plain(cell) for cell in row])
    book.save(stream)
    return stream.getvalue()
