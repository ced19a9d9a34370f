"""The target column: regression or classification, and the split into training and test rows."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tractable.cli.errors import UsageError, unknown_name
from tractable.cli.tables.cell_formats import parse_number
from tractable.cli.tables.columns import Column, numeric_column
from tractable.cli.tables.reader import TextTable

TASKS = ("regression", "classification")
MAX_INFERRED_CLASSES = 10
MIN_ROWS = 10


@dataclass(frozen=True)
class TargetColumn:
    """Values of the target, and the inferred task.

    Attributes:
        task: regression or classification.
        values: float64 numbers, or labels as text.
        reason: why this task was chosen.
    """

    task: Literal["regression", "classification"]
    values: npt.NDArray[Any]
    reason: str


def infer_target(
    table: TextTable, name: str, task: str | None, decimal: str | None = None
) -> TargetColumn:
    """Return the target, with the task inferred unless it is given.

    Text is a class label; so are numbers with two distinct values, and integers with at most ten.

    Raises:
        UsageError: the target is constant, or text in a regression.
    """
    if task is not None and task not in TASKS:
        raise unknown_name("task", task, TASKS)
    cells = table.column(name)
    levels = Counter(cells)
    column, text = _as_numbers(table, name, decimal, force=task == "regression")
    numbers = [None if text else parse_number(level, column.notation) for level in levels]
    whole = all(n is not None and math.isfinite(n) and n == int(n) for n in numbers)
    if task is None:
        if len(levels) > 1 and sum(n is not None for n in numbers) > len(numbers) / 2:
            few = len(levels) == 2 or (whole and len(levels) <= MAX_INFERRED_CLASSES)
            kind = "integers" if whole else "numbers"
            task = "classification" if few else "regression"
            reason = f"{kind} with {len(levels)} distinct values"
        else:
            task, reason = "classification", f"text with {len(levels)} distinct values"
        reason += "; change it with --task"
    else:
        reason = "given by --task"
    if len(levels) < 2:
        only = next(iter(levels))
        what = "one class" if task == "classification" else "one value"
        raise UsageError(f"the target {name!r} has only {what}, {only!r}")
    if task == "regression":
        return TargetColumn("regression", column.encode(table)[:, 0], reason)
    if len(levels) > len(cells) / 2:
        raise UsageError(
            f"the target {name!r} has {len(levels)} classes in {len(cells)} rows, such as "
            f"{cells[0]!r}: too many for a classifier"
        )
    return TargetColumn("classification", np.array(cells), reason)


def _as_numbers(
    table: TextTable, name: str, decimal: str | None, *, force: bool
) -> tuple[Column, bool]:
    """Return the target as a numeric column, and whether it is text."""
    try:
        found = numeric_column(table, name, decimal, force=force)
        return found or Column(name, "numeric"), found is None and name in table.texts
    except ValueError as error:
        raise UsageError(f"{table.path.name}, column {name!r}: {error}") from None


def split_rows(target: TargetColumn, fraction: float, seed: int) -> tuple[list[int], list[int]]:
    """Return random indices of training and test rows, stratified by class.

    A class with a single row is in the training rows.  A fraction of 0 holds out no row.
    """
    rows = len(target.values)
    if rows < MIN_ROWS:
        raise UsageError(f"{rows} rows are too few: expected at least {MIN_ROWS}")
    generator = np.random.default_rng(seed)
    order = generator.permutation(rows)
    if fraction == 0:
        return list(range(rows)), []
    if target.task == "regression":
        count = max(round(fraction * rows), 1)
        return sorted(order[count:].tolist()), sorted(order[:count].tolist())
    test: list[int] = []
    for label in np.unique(target.values):
        own = order[target.values[order] == label]
        count = min(max(round(fraction * len(own)), 1), len(own) - 1)
        test += own[:count].tolist()
    return sorted(set(range(rows)) - set(test)), sorted(test)
