"""Scores of every method on every fold of every table, stored in one file."""

from __future__ import annotations

import json
from pathlib import Path

from tractable.persistence.atomic import write_text

FILE = "folds.json"

Fold = dict[str, float]
"""Scores and seconds of one method on one fold."""


class Kept:
    """Finished folds, by table and method.

    Args:
        folder: folder of the results, whose file is continued.
        resume: whether to use the existing file.
    """

    def __init__(self, folder: Path, *, resume: bool = True) -> None:
        self.path = folder / FILE
        self.folds: dict[str, dict[str, list[Fold]]] = {}
        if resume and self.path.is_file():
            self.folds = json.loads(self.path.read_text())

    def of(self, table: str, method: str) -> list[Fold]:
        """Return the finished folds of one method on one table."""
        return self.folds.get(table, {}).get(method, [])

    def add(self, table: str, method: str, fold: Fold) -> None:
        """Add a fold and write the file."""
        short = {key: float(f"{value:.5g}") for key, value in fold.items()}
        self.folds.setdefault(table, {}).setdefault(method, []).append(short)
        self.write()

    def drop(self, table: str, method: str) -> None:
        """Remove one method on one table, so that it is computed again."""
        self.folds.get(table, {}).pop(method, None)

    def write(self) -> None:
        """Write one line for each table and method, so that version control shows changes."""
        tables = [
            f"{json.dumps(table)}: {{\n"
            + ",\n".join(f"{json.dumps(m)}: {json.dumps(found)}" for m, found in methods.items())
            + "\n}"
            for table, methods in self.folds.items()
        ]
        write_text(self.path, "{\n" + ",\n".join(tables) + "\n}\n")
