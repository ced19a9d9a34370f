"""Tables in CSV files: read as text, with the place of every value for error messages."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from tractable.cli.errors import BadUse, unknown
from tractable.persistence.files import whole_file

MISSING = frozenset({"", "na", "n/a", "nan", "null", "?"})
"""What counts as a missing value, whatever its case."""
_DELIMITERS = ",;\t|"
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
        delimiter: between cells.
    """

    path: Path
    header: tuple[str, ...]
    rows: list[list[str]]
    numbers: list[int]
    delimiter: str

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
                raise unknown(f"column in {self.path.name}", name, self.header)

    def missing(self, names: Sequence[str]) -> dict[str, list[int]]:
        """The row numbers with missing values, of the columns that have any."""
        found = {}
        for name in names:
            cells = self.column(name)
            numbers = [n for n, cell in zip(self.numbers, cells, strict=True) if is_missing(cell)]
            if numbers:
                found[name] = numbers
        return found

    def without(self, numbers: set[int]) -> CsvTable:
        """The table without the rows of these numbers."""
        kept = [i for i, number in enumerate(self.numbers) if number not in numbers]
        return self.take(kept)

    def take(self, places: Iterable[int]) -> CsvTable:
        """Some rows, by their places from 0."""
        chosen = list(places)
        rows = [self.rows[i] for i in chosen]
        return replace(self, rows=rows, numbers=[self.numbers[i] for i in chosen])


def read(path: Path) -> CsvTable:
    """A CSV file with a header line, in UTF-8; the delimiter is found in the header.

    Raises:
        BadUse: no such file, or not a table.
    """
    if not path.is_file():
        raise BadUse(f"{path} is a folder, not a CSV file" if path.is_dir() else f"no file {path}")
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            first = stream.readline()
            if not first.strip():
                more = stream.read(1)
                reason = "begins with a blank line" if more or first else "is empty"
                raise BadUse(f"{path} {reason}: wanted a header line and rows")
            delimiter = max(_DELIMITERS, key=first.count)
            stream.seek(0)
            lines = list(csv.reader(stream, delimiter=delimiter, strict=True))
    except UnicodeDecodeError as error:
        raise BadUse(
            f"{path} is not text in UTF-8: {error.reason} at byte {error.start}"
        ) from error
    except csv.Error as error:
        raise BadUse(f"{path} is not a CSV file: {error}") from error
    except OSError as error:
        raise BadUse(f"cannot read {path}: {error.strerror or error}") from error
    header = tuple(name.strip() for name in lines[0])
    _check_header(path, header)
    rows = [[cell.strip() for cell in line] for line in lines[1:] if any(map(str.strip, line))]
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise BadUse(
                f"{path}, row {number}: {len(row)} values, but the header has {len(header)} columns"
            )
    if not rows:
        raise BadUse(f"{path} has a header and no rows")
    return CsvTable(path, header, rows, list(range(1, len(rows) + 1)), delimiter)


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


def _check_header(path: Path, header: tuple[str, ...]) -> None:
    twice = [name for name, count in Counter(header).items() if count > 1 and name]
    if twice:
        raise BadUse(f"{path} has more than one column named {', '.join(map(repr, twice))}")
    if "" in header:
        raise BadUse(f"{path}: column {header.index('') + 1} has no name")
