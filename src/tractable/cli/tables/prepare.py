"""Preparation of a table for supervised learning: columns, target, training and test rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tractable.cli.errors import UsageError, one_line, unknown_name
from tractable.cli.tables.cell_formats import COMMA, POINT, check_decimal
from tractable.cli.tables.columns import Column, encode, infer_column
from tractable.cli.tables.likelihood_choice import (
    AUTO,
    LikelihoodChoice,
    choose_likelihood,
    implied_task,
)
from tractable.cli.tables.model_file import LEARNERS
from tractable.cli.tables.reader import TextTable, read_table
from tractable.cli.tables.target import MIN_ROWS, TargetColumn, infer_target, split_rows
from tractable.errors import InvalidTarget
from tractable.sklearn.targets import target_kind

MISSING = ("infer", "drop", "mean", "refuse")


@dataclass(frozen=True)
class FitOptions:
    """Options of ``tractable fit``."""

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
        """Raise an error for invalid options."""
        if self.learner not in LEARNERS:
            raise unknown_name("learner", self.learner, LEARNERS)
        implied = implied_task(self.likelihood)
        if implied is not None and self.task not in (None, implied):
            raise UsageError(
                f"--likelihood {self.likelihood} is for {implied}, not for {self.task}"
            )
        if self.learner == "laplace" and self.likelihood not in (None, "normal", "categorical"):
            raise UsageError(
                f"--learner laplace supports only --likelihood normal and categorical, got "
                f"{self.likelihood}: use --learner tagi, bbb or net"
            )
        if self.missing not in MISSING:
            raise unknown_name("--missing mode", self.missing, MISSING)
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
    """A table prepared for supervised learning.

    Attributes:
        table: rows with a target.
        target: values of the target.
        likelihood: likelihood of the target.
        columns: input columns.
        train: indices of the training rows.
        test: indices of the test rows.
        notes: remarks for the user.
        fill: whether missing inputs are replaced by means.
    """

    table: TextTable
    target: TargetColumn
    likelihood: LikelihoodChoice
    columns: tuple[Column, ...]
    train: list[int]
    test: list[int]
    notes: list[str]
    fill: bool = False

    def arrays(self, places: list[int]) -> tuple[Any, Any]:
        """Return inputs and targets of the rows at these indices."""
        x = encode(self.columns, self.table.take(places), fill=self.fill)
        return x, self.target.values[places]


def prepare(options: FitOptions) -> PreparedTable:
    """Read the file, infer the columns, and split training and test rows."""
    table = read_table(options.data, encoding=options.encoding)
    excluded = {*options.ids, *options.drop}
    selected = {options.target, *options.ids, *options.categorical}
    table.require([options.target, *options.ids, *options.drop, *options.categorical])
    if options.target in excluded:
        raise UsageError(
            f"the target {options.target!r} cannot be an --id or --drop column as well"
        )
    names = [name for name in table.header if name != options.target and name not in excluded]
    if not names:
        raise UsageError(f"{table.path.name} has no columns to predict {options.target!r} from")
    notes = list(table.notes)
    if table.counter in names and table.counter not in selected:
        names.remove(table.counter)
        notes.append("Left out the first column, an unnamed row index.")
    if not names:
        raise UsageError(f"{table.path.name} has no columns to predict {options.target!r} from")
    table = _handle_missing(table, names, options, notes)
    if len(table) < MIN_ROWS:
        raise UsageError(f"{len(table)} rows are too few: expected at least {MIN_ROWS}")
    columns = [
        infer_column(table, name, categorical=name in options.categorical, decimal=options.decimal)
        for name in names
    ]
    for column in columns:
        column.encode(table)  # every value is checked before training
    implied = implied_task(options.likelihood)
    if options.order and implied is None:
        implied = "classification"
    target = infer_target(table, options.target, options.task or implied, options.decimal)
    train, test = split_rows(target, options.test, options.seed)
    columns, constant = _with_fill_values(columns, table.take(train))
    if constant:
        notes.append(f"Left out constant columns: {', '.join(constant)}.")
    if not columns:
        raise UsageError(f"all input columns of {table.path.name} are constant")
    notes += _format_notes(columns, table)
    notes.insert(0, f"{target.task.capitalize()} of {options.target} ({target.reason}).")
    fill = options.missing == "mean"
    x, y = encode(columns, table.take(train), fill=fill), target.values[train]
    found = choose_likelihood(target, options.likelihood, options.order, x, y)
    _check_target_support(table, target, found, options)
    if options.likelihood == AUTO:
        notes.insert(1, f"Likelihood {found.name}: {found.reason or 'given by --order'}.")
    return PreparedTable(table, target, found, tuple(columns), train, test, notes, fill)


def _check_target_support(
    table: TextTable, target: TargetColumn, found: LikelihoodChoice, options: FitOptions
) -> None:
    """Raise an error for targets outside the support of the likelihood."""
    if target.task != "regression":
        return
    try:
        target_kind(found.name).likelihood(torch.as_tensor(target.values).unsqueeze(1))
    except InvalidTarget as error:
        raise UsageError(
            f"{table.path.name}, column {options.target!r}: {table.in_file(one_line(error))}; "
            f"choose another --likelihood than {found.name}, or correct the row"
        ) from error


def _format_notes(columns: Sequence[Column], table: TextTable) -> list[str]:
    """Return notes on the formats of the columns."""
    notes = []
    coded = [f"{c.name} ({c.width})" for c in columns if c.kind == "categorical"]
    if coded:
        notes.append(f"One-hot encoded columns (number of levels): {', '.join(coded)}.")
    dates = [c.name for c in columns if c.kind == "date"]
    if dates:
        notes.append(
            f"Dates, encoded as days, day of the year and day of the week: {', '.join(dates)}."
        )
    for form, words in (
        (COMMA, "a decimal comma"),
        (POINT, "thousands separators or currency signs"),
    ):
        names = [c.name for c in columns if c.notation == form]
        if names:
            notes.append(f"Numbers with {words}: {', '.join(names)}.")
    if table.delimiter not in (",", ""):
        notes.append(f"Values are separated by {table.delimiter!r}.")
    return notes


def _handle_missing(
    table: TextTable, names: list[str], options: FitOptions, notes: list[str]
) -> TextTable:
    """Return the rows to use; apply the --missing mode and drop rows without a target."""
    missing = table.missing([options.target, *names])
    if not missing:
        return table
    if options.missing == "refuse":
        name, rows = next(iter(missing.items()))
        others = f", and {len(missing) - 1} more columns" if len(missing) > 1 else ""
        raise UsageError(
            f"{table.path.name}, column {name!r}: {len(rows)} missing values, the first in row "
            f"{rows[0]}{others}; --missing infer imputes them, --missing drop drops the rows, "
            f"--missing mean replaces them by means"
        )
    required = list(missing) if options.missing == "drop" else [options.target]
    dropped = {row for name in required for row in missing.get(name, [])}
    if len(dropped) == len(table):
        raise UsageError(f"every row of {table.path.name} has a missing value")
    if dropped:
        why = "with missing values" if options.missing == "drop" else f"without {options.target!r}"
        notes.append(f"Left out {len(dropped)} of {len(table)} rows {why}.")
    gaps = {name: rows for name, rows in missing.items() if name not in required}
    if gaps:
        listed = ", ".join(f"{name} ({len(rows)})" for name, rows in gaps.items())
        how = (
            "replaced by the mean of the training rows"
            if options.missing == "mean"
            else "imputed from the other columns; intervals are wider accordingly"
        )
        notes.append(f"Missing values of {listed}: {how}.")
    return table.without(dropped)


def _with_fill_values(columns: list[Column], table: TextTable) -> tuple[list[Column], list[str]]:
    """Return the columns with fill values, and the names of the constant columns."""
    kept, constant = [], []
    for column in columns:
        values = column.encode(table)
        column = column.with_fill_values(values)
        if (np.nanmax(values, 0) == np.nanmin(values, 0)).all():
            constant.append(column.name)
        else:
            kept.append(column)
    return kept, constant
