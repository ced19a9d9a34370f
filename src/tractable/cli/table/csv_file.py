"""Tables in files: read as text, with the place of every value for error messages."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from tractable.cli.errors import BadUse, unknown
from tractable.cli.table.notation import number
from tractable.cli.table.source import read_lines
from tractable.persistence.files import whole_file

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "nat", "#n/a", "?", "-"})
"""What counts as a missing value, whatever its case."""
_ROW = re.compile(r"\brow (\d+)")
_FORMULA = ("=", "+", "-", "@")


def is_missing(text: str) -> bool:
    """Whether a cell holds no value."""
    return text.strip().lower() in MISSING


@dataclass(frozen=True)
class CsvTable:
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
                error = unknown(f"column in {self.path.name}", name, self.header)
                odd = any(number(cell) is not None for cell in self.header)
                hint = "; is its first line a header?" if odd else ""
                raise BadUse(f"{error}{hint}")

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

        >>> table = CsvTable(Path("t.csv"), ("x",), [["5"], ["-1"]], [3, 7], ",")
        >>> table.in_file("counts must be from 0, got -1 in row 1")
        'counts must be from 0, got -1 in row 7'
        """
        return _ROW.sub(lambda found: f"row {self.numbers[int(found[1])]}", message)

    def without(self, numbers: set[int]) -> CsvTable:
        """The table without the rows of these numbers."""
        kept = [i for i, number in enumerate(self.numbers) if number not in numbers]
        return self.take(kept)

    def take(self, places: Iterable[int]) -> CsvTable:
        """Some rows, by their places from 0."""
        chosen = list(places)
        rows = [self.rows[i] for i in chosen]
        return replace(self, rows=rows, numbers=[self.numbers[i] for i in chosen])


def read(path: Path, *, encoding: str | None = None) -> CsvTable:
    """A table with a header line: CSV (any encoding, gzip), Excel or Parquet.

    Columns without a name get one; a first one that only counts the rows, as pandas writes it, is
    said to be one (``counter``).

    Raises:
        BadUse: no such file, or not a table.
    """
    lines = read_lines(path, encoding)
    header, *rows = lines.cells
    for place, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise BadUse(
                f"{path}, row {place}: {len(row)} values, but the header has {len(header)} columns"
            )
    if not rows:
        raise BadUse(f"{path} has a header and no rows")
    notes = list(lines.notes)
    counter, header, rows, kept = _named(header, rows, notes)
    twice = [name for name, count in Counter(header).items() if count > 1]
    if twice:
        raise BadUse(f"{path} has more than one column named {', '.join(map(repr, twice))}")
    numbers = list(range(1, len(rows) + 1))
    texts = frozenset(name for name, k in zip(header, kept, strict=True) if k in lines.texts)
    return CsvTable(
        path, tuple(header), rows, numbers, lines.delimiter, tuple(notes), counter, texts
    )


def _named(
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
    counter = names[0] if not given[0] and _counts(row[0] for row in rows) else None
    new = [name for name, old in zip(names, given, strict=True) if not old and name != counter]
    if new:
        notes.append(f"Columns without a name are called {', '.join(new)}.")
    return counter, names, rows, kept


def _counts(cells: Iterable[str]) -> bool:
    """Whether cells are whole numbers, all different: the index of a data frame, in any order."""
    found = list(cells)
    return all(cell.isdecimal() for cell in found) and len(set(map(int, found))) == len(found)


def write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file, replacing an older one only when the new one is complete."""
    with (
        whole_file(path) as scratch,
        scratch.open("w", newline="", encoding="utf-8") as stream,
    ):
        write_rows(stream, header, rows)


def write_rows(stream: IO[str], header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a header and rows to an open file, texts made safe by ``plain``."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([plain(name) for name in header])
    writer.writerows([plain(cell) for cell in row] for row in rows)


def plain(cell: object) -> object:
    """A cell that no spreadsheet takes for a formula.

    A text that begins with ``=``, ``+``, ``-`` or ``@`` (or a tab or line break before one) and is
    no number gets an apostrophe in front, as spreadsheets mark texts themselves; all other cells
    stay as they are.

    >>> plain("=1+1"), plain("@home"), plain("-4.5"), plain("+49 171"), plain("a-b"), plain(-2.0)
    ("'=1+1", "'@home", '-4.5', "'+49 171", 'a-b', -2.0)
    """
    if not isinstance(cell, str) or not cell.lstrip().startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
