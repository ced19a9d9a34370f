"""Writing of rows as CSV, gzip, Excel or Parquet, by the suffix of the file."""

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
from tractable.cli.tables.cell_formats import (
    DATE_FORMATS,
    infer_date_format,
    parse_date,
    parse_number,
)
from tractable.cli.tables.columns import numeric_column
from tractable.persistence.atomic import atomic_file

_NEEDS = {".parquet": "pyarrow", ".xlsx": "openpyxl"}
_TEXT = ("", ".csv", ".txt", ".gz")
_ZONES = ("Z", "%z")  # at the end of a format
_FORMULA = ("=", "+", "-", "@")
_ZERO = re.compile(r"[+-]?0\d")


def check_format(path: Path) -> None:
    """Refuse a file format that cannot be written, before anything is computed."""
    ending = path.suffix.lower()
    if ending in _NEEDS:
        try:
            importlib.import_module(_NEEDS[ending])
        except ImportError:
            raise UsageError(
                f"to write {path.name}, run pip install 'tractable[tables]', or write a .csv file"
            ) from None
    elif ending not in _TEXT:
        raise UsageError(
            f"{path.name} must end in .csv, .csv.gz, .xlsx or .parquet; for JSON pass --json"
        )


def check_output_path(out: Path) -> None:
    """Refuse a file that cannot be written because of its name, folder or format."""
    problem = f"{out} is a folder, expected a file" if out.is_dir() else write_problem(out.parent)
    if problem is None and not out.parent.is_dir():
        problem = f"no folder {out.parent} for {out.name}"
    if problem:
        raise UsageError(problem)
    check_format(out)


def typed_rows(
    header: Sequence[str], rows: Sequence[Sequence[object]], formats: Mapping[str, str], path: Path
) -> list[list[object]]:
    """Return rows with numbers and dates instead of text, for files with typed columns.

    Args:
        header: names of the columns.
        rows: cells, as text.
        formats: formats of numbers and dates by column, see ``tables.cell_formats``.
        path: file to write, whose suffix determines the format.
    """
    ending = path.suffix.lower()
    if ending not in _NEEDS:
        return [list(row) for row in rows]
    found = [list(row) for row in rows]
    for k, name in enumerate(header):
        form = formats.get(name)
        if form is None or (ending == ".xlsx" and form.endswith(_ZONES)):  # Excel has no time zones
            continue
        for row in found:
            cell = row[k]
            if isinstance(cell, str):
                row[k] = None if reader.is_missing(cell) else _value(cell, form)
    return found


def unique_names(names: Sequence[str]) -> list[str]:
    """Return column names made unique by appended numbers.

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


def _value(cell: str, form: str) -> object:
    """Return the number or time in a cell; the cell itself if it has none."""
    if form not in DATE_FORMATS:
        value = parse_number(cell, form)
        return cell if value is None else value
    when = parse_date(cell, form)
    if when is None:
        return cell
    return when.replace(tzinfo=dt.UTC) if form.endswith(_ZONES) else when


def column_formats(table: reader.TextTable, names: Iterable[str]) -> dict[str, str]:
    """Return the formats of the columns that consist of numbers or dates.

    Text, and numbers with leading zeros, which are names, have no format.
    """
    found: dict[str, str] = {}
    for name in names:
        cells = [cell for cell in table.column(name) if not reader.is_missing(cell)]
        try:
            column = numeric_column(table, name)
            form = None if column is not None or not cells else infer_date_format(cells)
        except ValueError:  # ambiguous: remains text
            continue
        if form is not None:
            found[name] = form
        elif column is not None and all(_is_number(cell, column.notation) for cell in cells):
            found[name] = column.notation
    return found


def _is_number(cell: str, form: str) -> bool:
    return parse_number(cell, form) is not None and not _ZERO.match(cell)


def write_table(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write a file atomically."""
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
    """Write a CSV file atomically."""
    with (
        atomic_file(path) as scratch,
        scratch.open("w", newline="", encoding="utf-8") as stream,
    ):
        write_csv_rows(stream, header, rows)


def write_csv_rows(
    stream: IO[str], header: Sequence[str], rows: Iterable[Sequence[object]]
) -> None:
    """Write a header and rows to an open file; text is escaped by ``escape_formula``."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([escape_formula(name) for name in header])
    writer.writerows([escape_formula(cell) for cell in row] for row in rows)


def escape_formula(cell: object) -> object:
    """Return a cell that spreadsheets do not evaluate as a formula.

    Text that begins with ``=``, ``+``, ``-`` or ``@`` (possibly after white space) and is not a
    number gets an apostrophe in front, which marks text in spreadsheets; other cells are unchanged.

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
