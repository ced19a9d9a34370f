"""What is to be predicted: a number or a class, and which rows are held out to test it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tractable.cli.errors import UsageError, unknown_name
from tractable.cli.tables.columns import Column, numeric_column
from tractable.cli.tables.formats import parse_number
from tractable.cli.tables.reader import TextTable

TASKS = ("regression", "classification")
MAX_INFERRED_CLASSES = 10
MIN_ROWS = 10


@dataclass(frozen=True)
class Target:
    """The target of every row, and why it is taken as it is.

    Attributes:
        task: regression or classification.
        values: float64 numbers, or labels as text.
        reason: for the summary.
    """

    task: Literal["regression", "classification"]
    values: npt.NDArray[Any]
    reason: str


def infer_target(
    table: TextTable, name: str, task: str | None, decimal: str | None = None
) -> Target:
    """Read the target and decide what it is, unless the user said so.

    Text is a class; so are numbers with two values, and whole numbers with at most ten.

    Raises:
        UsageError: one class only, no variation, or text where numbers are wanted.
    """
    if task is not None and task not in TASKS:
        raise unknown_name("task", task, TASKS)
    cells = table.column(name)
    levels = Counter(cells)
    column, text = _as_numbers(table, name, decimal, wanted=task == "regression")
    numbers = [None if text else parse_number(level, column.notation) for level in levels]
    whole = all(n is not None and math.isfinite(n) and n == int(n) for n in numbers)
    if task is None:
        if len(levels) > 1 and sum(n is not None for n in numbers) > len(numbers) / 2:
            few = len(levels) == 2 or (whole and len(levels) <= MAX_INFERRED_CLASSES)
            kind = "whole numbers" if whole else "numbers"
            task = "classification" if few else "regression"
            reason = f"{kind} with {len(levels)} different values"
        else:
            task, reason = "classification", f"text with {len(levels)} different values"
        reason += "; --task overrides"
    else:
        reason = "as you say"
    if len(levels) < 2:
        only = next(iter(levels))
        what = "one class" if task == "classification" else "one value"
        raise UsageError(
            f"the target {name!r} has only {what}, {only!r}: there is nothing to learn"
        )
    if task == "regression":
        return Target("regression", column.encode(table)[:, 0], reason)
    if len(levels) > len(cells) / 2:
        raise UsageError(
            f"the target {name!r} has {len(levels)} classes in {len(cells)} rows, such as "
            f"{cells[0]!r}: too many to learn"
        )
    return Target("classification", np.array(cells), reason)


def _as_numbers(
    table: TextTable, name: str, decimal: str | None, *, wanted: bool
) -> tuple[Column, bool]:
    """The target as a column of numbers, in the way that they are written; and if it is text."""
    try:
        found = numeric_column(table, name, decimal, wanted=wanted)
        return found or Column(name, "numeric"), found is None and name in table.texts
    except ValueError as error:
        raise UsageError(f"{table.path.name}, column {name!r}: {error}") from None


def split_rows(target: Target, share: float, seed: int) -> tuple[list[int], list[int]]:
    """Places of training and test rows, by chance; of each class the same share.

    A class with a single row is in the training rows; of a share of 0 no row is held out.
    """
    rows = len(target.values)
    if rows < MIN_ROWS:
        raise UsageError(f"{rows} rows are too few: wanted at least {MIN_ROWS}")
    generator = np.random.default_rng(seed)
    order = generator.permutation(rows)
    if share == 0:
        return list(range(rows)), []
    if target.task == "regression":
        count = max(round(share * rows), 1)
        return sorted(order[count:].tolist()), sorted(order[:count].tolist())
    test: list[int] = []
    for label in np.unique(target.values):
        own = order[target.values[order] == label]
        count = min(max(round(share * len(own)), 1), len(own) - 1)
        test += own[:count].tolist()
    return sorted(set(range(rows)) - set(test)), sorted(test)
