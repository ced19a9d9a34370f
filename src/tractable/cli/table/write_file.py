"""Rows as a file, of the kind that its name says: CSV, gzip, Excel, Parquet."""

from __future__ import annotations

import datetime as dt
import gzip
import importlib
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tractable.cli.errors import BadUse
from tractable.cli.folder import unwritable
from tractable.cli.table import csv_file
from tractable.cli.table.columns import numeric
from tractable.cli.table.notation import FORMATS, date_in, number, of_dates
from tractable.persistence.files import whole_file

_NEEDS = {".parquet": "pyarrow", ".xlsx": "openpyxl"}
_TEXT = ("", ".csv", ".txt", ".gz")
_ZONES = ("Z", "%z")  # at the end of a format
_ZERO = re.compile(r"[+-]?0\d")


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
    header: Sequence[str], rows: Sequence[Sequence[object]], ways: Mapping[str, str], path: Path
) -> list[list[object]]:
    """Rows with numbers and times in some columns, in files that know them from text.

    Args:
        header: names of the columns.
        rows: cells, as texts in these columns.
        ways: how numbers or dates are written (``tractable.cli.table.notation``), by column.
        path: the file to write, whose kind decides.
    """
    ending = path.suffix.lower()
    if ending not in _NEEDS:
        return [list(row) for row in rows]
    found = [list(row) for row in rows]
    for k, name in enumerate(header):
        way = ways.get(name)
        if way is None or (ending == ".xlsx" and way.endswith(_ZONES)):  # Excel has no time zones
            continue
        for row in found:
            cell = row[k]
            if isinstance(cell, str):
                row[k] = None if csv_file.is_missing(cell) else _value(cell, way)
    return found


def unique(names: Sequence[str]) -> list[str]:
    """Names of columns, told apart by a number where one is there already.

    >>> unique(["mean", "x", "mean"])
    ['mean', 'x', 'mean_2']
    """
    made: list[str] = []
    for name in names:
        new, number = name, 1
        while new in made:
            number += 1
            new = f"{name}_{number}"
        made.append(new)
    return made


def _value(cell: str, way: str) -> object:
    """The number or the time that a cell holds; the cell itself if it holds none."""
    if way not in FORMATS:
        value = number(cell, way)
        return cell if value is None else value
    when = date_in(cell, way)
    if when is None:
        return cell
    return when.replace(tzinfo=dt.UTC) if way.endswith(_ZONES) else when


def ways_of(table: csv_file.CsvTable, names: Iterable[str]) -> dict[str, str]:
    """How numbers and dates are written in the columns of a table that hold nothing else.

    Texts stay as they are, and numbers with leading zeros, which are names.
    """
    found: dict[str, str] = {}
    for name in names:
        cells = [cell for cell in table.column(name) if not csv_file.is_missing(cell)]
        try:
            column = numeric(table, name)
            form = None if column is not None or not cells else of_dates(cells)
        except ValueError:  # can be read in two ways: stays text
            continue
        if form is not None:
            found[name] = form
        elif column is not None and all(_is_plain(cell, column.notation) for cell in cells):
            found[name] = column.notation
    return found


def _is_plain(cell: str, way: str) -> bool:
    return number(cell, way) is not None and not _ZERO.match(cell)


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
