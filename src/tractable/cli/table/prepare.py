"""From a CSV file to what a learner takes: columns, target, training and test rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tractable.cli.errors import BadUse, unknown
from tractable.cli.table.columns import Column, encode, infer
from tractable.cli.table.csv_file import CsvTable, read
from tractable.cli.table.likelihood import AUTO, Meaning, meaning, task_of
from tractable.cli.table.model_file import LEARNERS
from tractable.cli.table.target import Target, held_out, target_of

MISSING = ("drop", "mean")


@dataclass(frozen=True)
class Choices:
    """What the user chose; see ``tractable fit --help``."""

    data: Path
    target: str
    out: Path
    learner: str = "tagi"
    task: str | None = None
    likelihood: str | None = None
    order: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    missing: str | None = None
    test: float = 0.2
    hidden: tuple[int, ...] | None = None
    epochs: int | None = None
    seed: int = 0
    threads: int = 1
    force: bool = False
    progress: bool = False

    def check(self) -> None:
        """Refuse what can be seen to be wrong without the data."""
        if self.learner not in LEARNERS:
            raise unknown("learner", self.learner, LEARNERS)
        implied = task_of(self.likelihood)
        if implied is not None and self.task not in (None, implied):
            raise BadUse(f"--likelihood {self.likelihood} is of a {implied}, not {self.task}")
        if self.learner == "laplace" and self.likelihood not in (None, "normal", "categorical"):
            raise BadUse(f"--learner laplace takes no --likelihood {self.likelihood}")
        if self.missing is not None and self.missing not in MISSING:
            raise unknown("way with missing values", self.missing, MISSING)
        if not 0 < self.test < 1:
            raise BadUse(f"--test must lie between 0 and 1, got {self.test}")
        if any(width < 1 for width in self.hidden or ()):
            raise BadUse(f"--hidden must be widths of at least 1, got {self.hidden}")
        if self.epochs is not None and self.epochs < 1:
            raise BadUse(f"--epochs must be at least 1, got {self.epochs}")
        if self.threads < 1:
            raise BadUse(f"--threads must be at least 1, got {self.threads}")
        if self.seed < 0:
            raise BadUse(f"--seed must be 0 or more, got {self.seed}")


@dataclass(frozen=True)
class Prepared:
    """A table as a learner takes it."""

    table: CsvTable
    target: Target
    meaning: Meaning
    columns: tuple[Column, ...]
    train: list[int]
    test: list[int]
    notes: list[str]

    def rows(self, places: list[int]) -> tuple[Any, Any]:
        """Inputs and targets of some rows."""
        return encode(self.columns, self.table.take(places)), self.target.values[places]


def prepare(choices: Choices) -> Prepared:
    """Read the file, decide what each column is, and set test rows apart."""
    table = read(choices.data)
    aside = {*choices.ids, *choices.drop}
    table.require([choices.target, *choices.ids, *choices.drop, *choices.categorical])
    if choices.target in aside:
        raise BadUse(f"the target {choices.target!r} cannot be an --id or --drop column as well")
    names = [name for name in table.header if name != choices.target and name not in aside]
    if not names:
        raise BadUse(f"{table.path.name} has no columns to predict {choices.target!r} from")
    notes: list[str] = []
    table = _without_missing(table, names, choices, notes)
    columns = [infer(table, name, categorical=name in choices.categorical) for name in names]
    for column in columns:
        column.encode(table)  # every value is looked at before anything is learnt
    implied = task_of(choices.likelihood)
    if choices.order and implied is None:
        implied = "classification"
    target = target_of(table, choices.target, choices.task or implied)
    train, test = held_out(target, choices.test, choices.seed)
    columns, constant = _fill(columns, table.take(train))
    if constant:
        notes.append(f"Left out, because they do not vary: {', '.join(constant)}.")
    if not columns:
        raise BadUse(f"no column of {table.path.name} varies: there is nothing to learn from")
    coded = [f"{c.name} ({c.width})" for c in columns if c.kind == "categorical"]
    if coded:
        notes.append(f"One-hot encoded text columns, with their levels: {', '.join(coded)}.")
    if table.delimiter != ",":
        notes.append(f"Values are separated by {table.delimiter!r}.")
    notes.insert(0, f"{target.task.capitalize()} of {choices.target} ({target.reason}).")
    x, y = encode(columns, table.take(train)), target.values[train]
    found = meaning(target, choices.likelihood, choices.order, x, y)
    if choices.likelihood == AUTO:
        notes.insert(1, f"Likelihood {found.name}: {found.reason or 'as --order says'}.")
    return Prepared(table, target, found, tuple(columns), train, test, notes)


def _without_missing(
    table: CsvTable, names: list[str], choices: Choices, notes: list[str]
) -> CsvTable:
    """Rows with all they need; what is missing is refused unless the user chose what to do."""
    missing = table.missing([choices.target, *names])
    if not missing:
        return table
    if choices.missing is None:
        name, rows = next(iter(missing.items()))
        others = f", and {len(missing) - 1} more columns" if len(missing) > 1 else ""
        raise BadUse(
            f"{table.path.name}, column {name!r}: {len(rows)} missing values, the first in row "
            f"{rows[0]}{others}; --missing drop leaves such rows out, --missing mean fills them in"
        )
    held = [choices.target] if choices.missing == "mean" else list(missing)
    bad = {row for name in held for row in missing.get(name, [])}
    if len(bad) == len(table):
        raise BadUse(f"every row of {table.path.name} has a missing value")
    if bad:
        notes.append(f"Left out {len(bad)} of {len(table)} rows with missing values.")
    if choices.missing == "mean" and missing.keys() - {choices.target}:
        filled = ", ".join(sorted(missing.keys() - {choices.target}))
        notes.append(f"Missing values of {filled}: filled with the mean of the training rows.")
    return table.without(bad)


def _fill(columns: list[Column], table: CsvTable) -> tuple[list[Column], list[str]]:
    """Columns with their training means, and the names of those that do not vary."""
    kept, constant = [], []
    for column in columns:
        values = column.encode(table)
        column = column.filled(values)
        if (np.nanmax(values, 0) == np.nanmin(values, 0)).all():
            constant.append(column.name)
        else:
            kept.append(column)
    return kept, constant
