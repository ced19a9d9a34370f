"""Printed output of commands: lines, tables and JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


def console() -> Console:
    """Return a console on the current standard output, which tests and pipes replace.

    Lines are wrapped only on a terminal.
    """
    terminal = sys.stdout.isatty()
    return Console(file=sys.stdout, highlight=False, width=None if terminal else 200)


def print_line(text: str) -> None:
    """Print a line of plain text."""
    console().print(Text(text), soft_wrap=True)


def print_json(value: Any) -> None:
    """Print a JSON document to standard output."""
    sys.stdout.write(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: int = 0) -> None:
    """Print a table; the last ``right`` columns are right-aligned."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(header))
    for i, name in enumerate(header):
        justify: Any = "right" if i >= len(header) - right else "left"
        table.add_column(Text(name), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)
