"""Fit an estimator to a CSV file, test it on rows it has not seen, and keep both."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tractable.cli import scores
from tractable.cli.columns import Column, encode, infer
from tractable.cli.csv_file import CsvTable, read
from tractable.cli.errors import BadUse, FailedWork, one_line, unknown
from tractable.cli.folder import whole_folder
from tractable.cli.model_file import LEARNERS, MODEL, TableModel, estimator_class
from tractable.cli.task import Target, held_out, target_of
from tractable.experiments.record import command, commit, peak_memory_mib, versions
from tractable.report import RESULTS, Chart, Results, write_report

MISSING = ("drop", "mean")


@dataclass(frozen=True)
class Choices:
    """What the user chose; see ``tractable fit --help``."""

    data: Path
    target: str
    out: Path
    learner: str = "tagi"
    task: str | None = None
    ids: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    missing: str | None = None
    test: float = 0.2
    hidden: tuple[int, ...] = (64, 64)
    epochs: int | None = None
    seed: int = 0
    threads: int = 1
    force: bool = False
    progress: bool = False

    def check(self) -> None:
        """Refuse what can be seen to be wrong without the data."""
        if self.learner not in LEARNERS:
            raise unknown("learner", self.learner, LEARNERS)
        if self.missing is not None and self.missing not in MISSING:
            raise unknown("way with missing values", self.missing, MISSING)
        if not 0 < self.test < 1:
            raise BadUse(f"--test must lie between 0 and 1, got {self.test}")
        if any(width < 1 for width in self.hidden):
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
    columns: tuple[Column, ...]
    train: list[int]
    test: list[int]
    notes: list[str]

    def rows(self, places: list[int]) -> tuple[Any, Any]:
        """Inputs and targets of some rows."""
        return encode(self.columns, self.table.take(places)), self.target.values[places]


def fit(choices: Choices) -> Results:
    """Do all of it; ``choices.out`` then holds the model, the results and the report."""
    choices.check()
    with whole_folder(choices.out, force=choices.force) as folder:
        prepared = prepare(choices)
        started = time.monotonic()
        torch.set_num_threads(choices.threads)
        x, y = prepared.rows(prepared.train)
        estimator = _estimator(choices, prepared.target.task)
        try:
            estimator.fit(x, y)
        except (ArithmeticError, RuntimeError) as error:
            raise FailedWork(f"training failed: {one_line(error)}") from error
        model = TableModel(
            estimator, choices.learner, prepared.target.task, choices.target, prepared.columns,
            choices.ids, choices.missing or "refuse",
        )  # fmt: skip
        model.save(folder / MODEL)
        results = _results(choices, prepared, estimator, time.monotonic() - started)
        results.write(folder / RESULTS)
        write_report(results, folder)
    return results


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
    target = target_of(table, choices.target, choices.task)
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
    return Prepared(table, target, tuple(columns), train, test, notes)


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
        spread = np.nanmax(values, 0) - np.nanmin(values, 0)
        if (spread == 0).all():
            constant.append(column.name)
        else:
            kept.append(column)
    return kept, constant


def _estimator(choices: Choices, task: str) -> Any:
    options: dict[str, Any] = {"hidden": choices.hidden, "random_state": choices.seed}
    if choices.epochs is not None:
        options["epochs"] = choices.epochs
    return estimator_class(choices.learner, task)(**options, verbose=int(choices.progress))


def _results(choices: Choices, prepared: Prepared, estimator: Any, seconds: float) -> Results:
    x, y = prepared.rows(prepared.test)
    seen = prepared.target.values[prepared.train]
    score = scores.of_numbers if prepared.target.task == "regression" else scores.of_labels
    figures, rows, calibration = score(estimator, x, y, seen, choices.learner)
    sizes = f"{len(prepared.train)} rows to learn from, {len(prepared.test)} held out to test"
    inputs = f"{len(prepared.columns)} columns, {x.shape[1]} inputs of the network"
    return Results(
        experiment=f"fit {choices.data.name}",
        title=f"{choices.target} of {choices.data.name} by {type(estimator).__name__}",
        command=command("tractable.cli"),
        seeds=[choices.seed],
        settings={
            "learner": choices.learner, "task": prepared.target.task,
            "hidden": list(choices.hidden), "epochs": choices.epochs, "test": choices.test,
            "missing": choices.missing or "refuse", "id": list(choices.ids),
            "drop": list(choices.drop), "categorical": list(choices.categorical),
        },
        comparison=rows,
        charts=_charts(estimator, choices.learner),
        calibration=calibration,
        notes=[f"{sizes}; {inputs}.", *prepared.notes],
        figures=figures,
        seconds=round(seconds, 1),
        peak_memory_mib=peak_memory_mib(),
        threads=choices.threads,
        commit=commit(),
        versions=versions(),
    )  # fmt: skip


def _charts(estimator: Any, learner: str) -> list[Chart]:
    """Whatever the learner recorded by epoch."""
    history = estimator.learner_.history
    keys = {key: None for record in history for key in record if key not in ("epoch", "seconds")}
    charts = []
    for key in keys:
        held = [(n, record[key]) for n, record in enumerate(history, 1) if key in record]
        epochs, values = map(list, zip(*held, strict=True))
        words = key.replace("_", " ")
        charts.append(Chart(f"{words} by epoch", "epoch", words, {learner: (epochs, values)}))
    return charts
