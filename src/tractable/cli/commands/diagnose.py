"""``tractable diagnose``: why a model of a table errs as it does, and what would help; a page."""

from __future__ import annotations

import json as json_text
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tractable import learners
from tractable.cli import output
from tractable.cli.errors import CommandError, UsageError, one_line, unknown_name
from tractable.cli.folder import atomic_folder
from tractable.cli.tables.formats import check_decimal
from tractable.cli.tables.prepare import Choices as TableChoices
from tractable.cli.tables.prepare import prepare
from tractable.data import Standardizer
from tractable.diagnostics import (
    DiagnosticResult,
    bias_variance,
    capacity,
    compare_regularizers,
    learning_curve,
    summary,
)
from tractable.likelihoods import Categorical, Likelihood, Normal, Softmax
from tractable.persistence.atomic import write_text
from tractable.report.diagnostics_page import DiagnosticsPage, write_diagnostics
from tractable.report.formatting import format_duration
from tractable.report.provenance import command_line, versions

RESULTS = "diagnostics.json"
KINDS = {
    "tagi": learners.TAGI,
    "bbb": learners.BayesByBackprop,
    "net": learners.Backprop,
    "laplace": learners.Laplace,
}
RATE = 5e-3
BATCH = 32
LEAST = 40
QUICK_REMEDIES = ("L2 prior", "early stopping", "TAGI", "ensemble of 5")


@dataclass(frozen=True)
class Choices:
    """What the user chose; see ``tractable study --help``."""

    data: Path
    target: str
    out: Path
    learner: str = "tagi"
    task: str | None = None
    ids: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    decimal: str | None = None
    encoding: str | None = None
    hidden: int = 50
    most: int = 5000
    quick: bool = False
    seed: int = 0
    workers: int | None = None
    force: bool = False
    progress: bool = False

    def check(self) -> None:
        """Refuse what can be seen to be wrong without the data."""
        check_decimal(self.decimal)
        if self.learner not in KINDS:
            raise unknown_name("learner", self.learner, KINDS)
        for name, value, least in (
            ("hidden", self.hidden, 1), ("rows", self.most, LEAST), ("seed", self.seed, 0),
            ("workers", 1 if self.workers is None else self.workers, 1),
        ):  # fmt: skip
            if value < least:
                raise UsageError(f"--{name} must be at least {least}, got {value}")


@dataclass(frozen=True)
class Budget:
    """How much is fitted."""

    rows: int
    datasets: int
    folds: int
    shares: tuple[float, ...]
    widths: tuple[int, ...]
    splits: int
    epochs: int
    only: tuple[str, ...] | None

    @classmethod
    def of(cls, choices: Choices) -> Budget:
        """Within two minutes if asked for."""
        wide = choices.hidden
        if choices.quick:
            few, small = (0.25, 0.5, 1.0), tuple(sorted({2, 8, wide}))
            return cls(min(300, choices.most), 5, 3, few, small, 2, 30, QUICK_REMEDIES)
        widths = tuple(sorted({1, 2, 4, 8, 16, 32, wide, 2 * wide, 4 * wide}))
        return cls(choices.most, 20, 5, (0.1, 0.2, 0.4, 0.7, 1.0), widths, 3, 100, None)


def run(json: bool, **chosen: Any) -> None:
    """Study a table, and print recommendation."""
    choices = Choices(**chosen, progress=sys.stderr.isatty() and not json)
    recommendation, found = diagnose(choices)
    page = choices.out / "report.html"
    if json:
        diagnostics = {name: result.to_dict() for name, result in found.items()}
        output.print_json(
            {"recommendation": recommendation, "report": str(page), "diagnostics": diagnostics}
        )
        return
    output.print_line(recommendation)
    for question, result in found.items():
        output.print_line(f"\n{question}")
        output.print_line(result.table())
        if result.recommendation() and result.recommendation() != recommendation:
            output.print_line(result.recommendation())
    output.print_line(f"\nreport: {page}")


@dataclass(frozen=True)
class Table:
    """Standardised rows, and how a learner of them is made."""

    x: Tensor
    y: Tensor
    classes: int
    notes: tuple[str, ...]

    def make(self, choices: Choices, width: int, seed: int) -> Any:
        """A learner with a hidden layer of this width."""
        closed = choices.learner == "tagi"
        outputs = self.classes - 1 if closed and self.classes else max(self.classes, 1)
        likelihood: Likelihood = Normal()
        if self.classes:
            likelihood = Categorical(self.classes) if closed else Softmax(self.classes)
        rate: dict[str, Any] = {} if closed else {"lr": RATE}
        net = network(self.x.shape[1], width, outputs)
        return KINDS[choices.learner](net, likelihood, seed=seed, **rate)


def network(inputs: int, width: int, outputs: int) -> nn.Sequential:
    """One hidden layer."""
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))


def table_of(choices: Choices, most: int) -> Table:
    """The rows of a file as tensors of mean 0 and deviation 1, at most so many of them."""
    prepared = prepare(
        TableChoices(
            data=choices.data, target=choices.target, out=choices.out, task=choices.task,
            ids=choices.ids, drop=choices.drop, categorical=choices.categorical, missing="mean",
            decimal=choices.decimal, encoding=choices.encoding, seed=choices.seed,
        )
    )  # fmt: skip
    places = np.array(sorted([*prepared.train, *prepared.test]))
    notes = list(prepared.notes)
    if len(places) < LEAST:
        raise UsageError(f"{len(places)} rows are too few: expected at least {LEAST}")
    if len(places) > most:
        drawn = np.random.default_rng(choices.seed).choice(places, most, replace=False)
        notes.append(f"{most} of {len(places)} rows, by chance.")
        places = np.sort(drawn)
    inputs, targets = prepared.rows(places.tolist())
    x = torch.as_tensor(np.asarray(inputs, dtype=np.float32))
    x = Standardizer.fit(x).transform(x)
    if prepared.target.task == "classification":
        labels, y = np.unique(targets, return_inverse=True)
        notes.append("Losses are Brier scores of the class probabilities.")
        return Table(x, torch.as_tensor(y).long(), len(labels), tuple(notes))
    values = torch.as_tensor(np.asarray(targets, dtype=np.float32))
    scaled = Standardizer.fit(values)
    notes.append(f"Losses are squared errors, in units of {float(scaled.scale):.4g} squared.")
    return Table(x, scaled.transform(values), 0, tuple(notes))


def diagnose(choices: Choices) -> tuple[str, dict[str, DiagnosticResult]]:
    """Do all of it; ``choices.out`` then holds the page and the results."""
    choices.check()
    with atomic_folder(choices.out, force=choices.force) as folder:
        budget = Budget.of(choices)
        table = table_of(choices, budget.rows)
        torch.set_num_threads(1)
        started = time.monotonic()
        try:
            found = run_diagnostics(table, choices, budget)
        except (ArithmeticError, RuntimeError) as error:
            raise CommandError(f"a fit failed: {one_line(error)}") from error
        parts = found["Why is the error what it is?"]
        recommendation = parts.recommendation()
        seconds = time.monotonic() - started
        facts = {
            "command": command_line("tractable.cli"),
            "learner": choices.learner,
            "network": f"one hidden layer of {choices.hidden}",
            "rows": str(len(table.x)),
            "seed": str(choices.seed),
            "time": format_duration(seconds),
            "quick": "yes: fewer rows and fits than otherwise" if choices.quick else "no",
            **versions(),
        }
        title = f"{choices.target} of {choices.data.name}"
        write_diagnostics(DiagnosticsPage(title, recommendation, found, table.notes, facts), folder)
        held = {"recommendation": recommendation, "facts": facts, "notes": list(table.notes)}
        diagnostics = {name: result.to_dict() for name, result in found.items()}
        text = json_text.dumps({**held, "diagnostics": diagnostics}, indent=1, allow_nan=False)
        write_text(folder / RESULTS, text + "\n")
    return recommendation, found


def run_diagnostics(table: Table, choices: Choices, budget: Budget) -> dict[str, DiagnosticResult]:
    """All diagnostics of a table, by the question that each answers."""
    x, y = table.x, table.y
    more: dict[str, Any] = {"epochs": budget.epochs, "batch_size": BATCH}
    options: dict[str, Any] = {} if choices.learner == "tagi" else more
    common: dict[str, Any] = {"seed": choices.seed, "n_jobs": choices.workers}
    common["progress"] = choices.progress

    def make(seed: int) -> Any:
        return table.make(choices, choices.hidden, seed)

    def sized(width: int, seed: int) -> Any:
        return table.make(choices, width, seed)

    fitted = make(choices.seed).fit(x, y, progress=False, **options)
    steps: dict[str, Callable[[], DiagnosticResult]] = {
        "Why is the error what it is?": lambda: bias_variance(
            make, x, y, n_datasets=budget.datasets, **common, **options
        ),
        "Would more rows help?": lambda: learning_curve(
            make, x, y, n_folds=budget.folds, train_fractions=budget.shares, **common, **options
        ),
        "How large should the network be?": lambda: capacity(
            sized, budget.widths, x, y, n_seeds=budget.splits, **common, **options
        ),
        "What would help a plain network?": lambda: compare_regularizers(
            network(x.shape[1], choices.hidden, max(table.classes, 1)), x, y, lr=RATE,
            only=budget.only, n_splits=budget.splits, **common, **more,
        ),
        "Do signals pass through it?": lambda: summary(fitted, x, y),
    }  # fmt: skip
    return {question: step() for question, step in steps.items()}
