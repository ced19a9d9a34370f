"""Rows as a file, of the kind that its name says: CSV, gzip, Excel, Parquet."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import importlib
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tractable.cli.errors import UsageError
from tractable.cli.folder import write_problem
from tractable.cli.tables import reader
from tractable.cli.tables.columns import numeric_column
from tractable.cli.tables.formats import DATE_FORMATS, infer_date_format, parse_date, parse_number
from tractable.persistence.atomic import atomic_file

_NEEDS = {".parquet": "pyarrow", ".xlsx": "openpyxl"}
_TEXT = ("", ".csv", ".txt", ".gz")
_ZONES = ("Z", "%z")  # at the end of a format
_FORMULA = ("=", "+", "-", "@")
_ZERO = re.compile(r"[+-]?0\d")


def check_format(path: Path) -> None:
    """Refuse a name whose kind cannot be written, before anything is computed."""
    ending = path.suffix.lower()
    if ending in _NEEDS:
        try:
            importlib.import_module(_NEEDS[ending])
        except ImportError:
            raise UsageError(
                f"to write {path.name}, pip install 'tractable[tables]', or name a .csv file"
            ) from None
    elif ending not in _TEXT:
        raise UsageError(
            f"{path.name}: wanted a name that ends in .csv, .csv.gz, .xlsx or .parquet; for JSON "
            f"give --json"
        )


def check_output_path(out: Path) -> None:
    """Refuse a file that cannot be written: its name, its folder, its kind."""
    problem = f"{out} is a folder, wanted a file" if out.is_dir() else write_problem(out.parent)
    if problem is None and not out.parent.is_dir():
        problem = f"no folder {out.parent} for {out.name}"
    if problem:
        raise UsageError(problem)
    check_format(out)


def typed_rows(
    header: Sequence[str], rows: Sequence[Sequence[object]], ways: Mapping[str, str], path: Path
) -> list[list[object]]:
    """Rows with numbers and times in some columns, in files that know them from text.

    Args:
        header: names of the columns.
        rows: cells, as texts in these columns.
        ways: how numbers or dates are written (``tractable.cli.tables.formats``), by column.
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
                row[k] = None if reader.is_missing(cell) else _value(cell, way)
    return found


def unique_names(names: Sequence[str]) -> list[str]:
    """Names of columns, told apart by a number where one is there already.

    >>> unique_names(["mean", "x", "mean"])
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
    if way not in DATE_FORMATS:
        value = parse_number(cell, way)
        return cell if value is None else value
    when = parse_date(cell, way)
    if when is None:
        return cell
    return when.replace(tzinfo=dt.UTC) if way.endswith(_ZONES) else when


def column_formats(table: reader.TextTable, names: Iterable[str]) -> dict[str, str]:
    """How numbers and dates are written in the columns of a table that hold nothing else.

    Texts stay as they are, and numbers with leading zeros, which are names.
    """
    found: dict[str, str] = {}
    for name in names:
        cells = [cell for cell in table.column(name) if not reader.is_missing(cell)]
        try:
            column = numeric_column(table, name)
            form = None if column is not None or not cells else infer_date_format(cells)
        except ValueError:  # can be read in two ways: stays text
            continue
        if form is not None:
            found[name] = form
        elif column is not None and all(_is_number(cell, column.notation) for cell in cells):
            found[name] = column.notation
    return found


def _is_number(cell: str, way: str) -> bool:
    return parse_number(cell, way) is not None and not _ZERO.match(cell)


def write_table(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write a file, replacing an older one only when the new one is complete."""
    ending = path.suffix.lower()
    if ending in ("", ".csv", ".txt"):
        write_csv(path, header, rows)
        return
    with atomic_file(path) as scratch:
        scratch.write_bytes(_content(ending, header, rows))


def _content(ending: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> bytes:
    stream = io.BytesIO()
    if ending == ".gz":
        text = io.StringIO()
        write_csv_rows(text, header, rows)
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
        sheet.append([escape_formula(cell) for cell in row])
    book.save(stream)
    return stream.getvalue()


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file, replacing an older one only when the new one is complete."""
    with (
        atomic_file(path) as scratch,
        scratch.open("w", newline="", encoding="utf-8") as stream,
    ):
        write_csv_rows(stream, header, rows)


def write_csv_rows(
    stream: IO[str], header: Sequence[str], rows: Iterable[Sequence[object]]
) -> None:
    """Write a header and rows to an open file, texts made safe by ``escape_formula``."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([escape_formula(name) for name in header])
    writer.writerows([escape_formula(cell) for cell in row] for row in rows)


def escape_formula(cell: object) -> object:
    """A cell that no spreadsheet takes for a formula.

    A text that begins with ``=``, ``+``, ``-`` or ``@`` (or a tab or line break before one) and is
    no number gets an apostrophe in front, as spreadsheets mark texts themselves; all other cells
    stay as they are.

    >>> [escape_formula(cell) for cell in ("=1+1", "@home", "-4.5", "+49 171", "a-b", -2.0)]
    ["'=1+1", "'@home", '-4.5', "'+49 171", 'a-b', -2.0]
    """
    if not isinstance(cell, str) or not cell.lstrip().startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
