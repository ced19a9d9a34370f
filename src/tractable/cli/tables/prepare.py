"""From a CSV file to what a learner takes: columns, target, training and test rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tractable.cli.errors import UsageError, one_line, unknown_name
from tractable.cli.tables.columns import Column, encode, infer_column
from tractable.cli.tables.formats import COMMA, POINT, check_decimal
from tractable.cli.tables.likelihood_choice import (
    AUTO,
    LikelihoodChoice,
    choose_likelihood,
    implied_task,
)
from tractable.cli.tables.model_file import LEARNERS
from tractable.cli.tables.reader import TextTable, read_table
from tractable.cli.tables.target import MIN_ROWS, Target, infer_target, split_rows
from tractable.errors import InvalidTarget
from tractable.sklearn.targets import target_kind

MISSING = ("infer", "drop", "mean", "refuse")


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
    missing: str = "infer"
    encoding: str | None = None
    decimal: str | None = None
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
            raise unknown_name("learner", self.learner, LEARNERS)
        implied = implied_task(self.likelihood)
        if implied is not None and self.task not in (None, implied):
            raise UsageError(f"--likelihood {self.likelihood} is of a {implied}, not {self.task}")
        if self.learner == "laplace" and self.likelihood not in (None, "normal", "categorical"):
            raise UsageError(
                f"--learner laplace takes --likelihood normal or categorical, got "
                f"{self.likelihood}: take --learner tagi, bbb or net for it"
            )
        if self.missing not in MISSING:
            raise unknown_name("way with missing values", self.missing, MISSING)
        check_decimal(self.decimal)
        if not 0 <= self.test < 1:
            raise UsageError(f"--test must lie between 0 and 1, got {self.test}")
        if any(width < 1 for width in self.hidden or ()):
            raise UsageError(f"--hidden must be widths of at least 1, got {self.hidden}")
        if self.epochs is not None and self.epochs < 1:
            raise UsageError(f"--epochs must be at least 1, got {self.epochs}")
        if self.threads < 1:
            raise UsageError(f"--threads must be at least 1, got {self.threads}")
        if self.seed < 0:
            raise UsageError(f"--seed must be 0 or more, got {self.seed}")


@dataclass(frozen=True)
class PreparedTable:
    """A table as a learner takes it."""

    table: TextTable
    target: Target
    meaning: LikelihoodChoice
    columns: tuple[Column, ...]
    train: list[int]
    test: list[int]
    notes: list[str]
    fill: bool = False

    def rows(self, places: list[int]) -> tuple[Any, Any]:
        """Inputs and targets of some rows."""
        x = encode(self.columns, self.table.take(places), fill=self.fill)
        return x, self.target.values[places]


def prepare(choices: Choices) -> PreparedTable:
    """Read the file, decide what each column is, and set test rows apart."""
    table = read_table(choices.data, encoding=choices.encoding)
    aside = {*choices.ids, *choices.drop}
    named = {choices.target, *choices.ids, *choices.categorical}
    table.require([choices.target, *choices.ids, *choices.drop, *choices.categorical])
    if choices.target in aside:
        raise UsageError(
            f"the target {choices.target!r} cannot be an --id or --drop column as well"
        )
    names = [name for name in table.header if name != choices.target and name not in aside]
    if not names:
        raise UsageError(f"{table.path.name} has no columns to predict {choices.target!r} from")
    notes = list(table.notes)
    if table.counter in names and table.counter not in named:
        names.remove(table.counter)
        notes.append("The first column has no name and only counts the rows: left out.")
    if not names:
        raise UsageError(f"{table.path.name} has no columns to predict {choices.target!r} from")
    table = _handle_missing(table, names, choices, notes)
    if len(table) < MIN_ROWS:
        raise UsageError(f"{len(table)} rows are too few: wanted at least {MIN_ROWS}")
    columns = [
        infer_column(table, name, categorical=name in choices.categorical, decimal=choices.decimal)
        for name in names
    ]
    for column in columns:
        column.encode(table)  # every value is looked at before anything is learnt
    implied = implied_task(choices.likelihood)
    if choices.order and implied is None:
        implied = "classification"
    target = infer_target(table, choices.target, choices.task or implied, choices.decimal)
    train, test = split_rows(target, choices.test, choices.seed)
    columns, constant = _with_fill_values(columns, table.take(train))
    if constant:
        notes.append(f"Left out, because they do not vary: {', '.join(constant)}.")
    if not columns:
        raise UsageError(f"no column of {table.path.name} varies: there is nothing to learn from")
    notes += _format_notes(columns, table)
    notes.insert(0, f"{target.task.capitalize()} of {choices.target} ({target.reason}).")
    fill = choices.missing == "mean"
    x, y = encode(columns, table.take(train), fill=fill), target.values[train]
    found = choose_likelihood(target, choices.likelihood, choices.order, x, y)
    _check_target_support(table, target, found, choices)
    if choices.likelihood == AUTO:
        notes.insert(1, f"Likelihood {found.name}: {found.reason or 'as --order says'}.")
    return PreparedTable(table, target, found, tuple(columns), train, test, notes, fill)


def _check_target_support(
    table: TextTable, target: Target, found: LikelihoodChoice, choices: Choices
) -> None:
    """Refuse a target that the likelihood excludes, of a training or a test row."""
    if target.task != "regression":
        return
    try:
        target_kind(found.name).likelihood(torch.as_tensor(target.values).unsqueeze(1))
    except InvalidTarget as error:
        raise UsageError(
            f"{table.path.name}, column {choices.target!r}: {table.in_file(one_line(error))}; "
            f"likelihood {found.name} excludes it: name another --likelihood, or correct the row"
        ) from error


def _format_notes(columns: Sequence[Column], table: TextTable) -> list[str]:
    """How the columns were read, where that is not plain."""
    notes = []
    coded = [f"{c.name} ({c.width})" for c in columns if c.kind == "categorical"]
    if coded:
        notes.append(f"One-hot encoded text columns, with their levels: {', '.join(coded)}.")
    dates = [c.name for c in columns if c.kind == "date"]
    if dates:
        notes.append(f"Dates, as days and as days of the year and of the week: {', '.join(dates)}.")
    for way, words in ((COMMA, "a decimal comma"), (POINT, "commas between thousands or signs")):
        written = [c.name for c in columns if c.notation == way]
        if written:
            notes.append(f"Numbers with {words}: {', '.join(written)}.")
    if table.delimiter not in (",", ""):
        notes.append(f"Values are separated by {table.delimiter!r}.")
    return notes


def _handle_missing(
    table: TextTable, names: list[str], choices: Choices, notes: list[str]
) -> TextTable:
    """Rows with all they need; what is missing is refused unless the user chose what to do."""
    missing = table.missing([choices.target, *names])
    if not missing:
        return table
    if choices.missing == "refuse":
        name, rows = next(iter(missing.items()))
        others = f", and {len(missing) - 1} more columns" if len(missing) > 1 else ""
        raise UsageError(
            f"{table.path.name}, column {name!r}: {len(rows)} missing values, the first in row "
            f"{rows[0]}{others}; --missing infer takes them as unknown, --missing drop leaves such "
            f"rows out, --missing mean fills them in"
        )
    held = list(missing) if choices.missing == "drop" else [choices.target]
    bad = {row for name in held for row in missing.get(name, [])}
    if len(bad) == len(table):
        raise UsageError(f"every row of {table.path.name} has a missing value")
    if bad:
        why = "with missing values" if choices.missing == "drop" else f"without {choices.target!r}"
        notes.append(f"Left out {len(bad)} of {len(table)} rows {why}.")
    gaps = {name: rows for name, rows in missing.items() if name not in held}
    if gaps:
        listed = ", ".join(f"{name} ({len(rows)})" for name, rows in gaps.items())
        how = (
            "filled with the mean of the training rows"
            if choices.missing == "mean"
            else "inferred from the other columns, with the doubt that leaves"
        )
        notes.append(f"Missing values of {listed}: {how}.")
    return table.without(bad)


def _with_fill_values(columns: list[Column], table: TextTable) -> tuple[list[Column], list[str]]:
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
