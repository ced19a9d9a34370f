"""``tractable diagnose``: sources of the error of a model of a table, and recommendations."""

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
from torch import Tensor

from tractable import learners
from tractable.cli import output
from tractable.cli.errors import CommandError, UsageError, one_line, unknown_name
from tractable.cli.folder import atomic_folder
from tractable.cli.tables.cell_formats import check_decimal
from tractable.cli.tables.prepare import FitOptions, prepare
from tractable.diagnostics import (
    DiagnosticResult,
    bias_variance,
    capacity,
    compare_regularizers,
    learning_curve,
    summary,
)
from tractable.likelihoods import Categorical, Likelihood, Normal, Softmax
from tractable.nn import mlp
from tractable.persistence.atomic import write_text
from tractable.report.diagnostics_page import DiagnosticsPage, write_diagnostics
from tractable.report.formatting import format_duration
from tractable.report.provenance import command_line, versions
from tractable.training.standardizer import Standardizer

RESULTS = "diagnostics.json"
LEARNERS = {
    "tagi": learners.TAGI,
    "bbb": learners.BayesByBackprop,
    "net": learners.Backprop,
    "laplace": learners.Laplace,
}
LR = 5e-3
BATCH_SIZE = 32
MIN_ROWS = 40
QUICK_METHODS = ("L2 prior", "early stopping", "TAGI", "ensemble of 5")


@dataclass(frozen=True)
class DiagnoseOptions:
    """Options of ``tractable diagnose``."""

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
    max_rows: int = 5000
    quick: bool = False
    seed: int = 0
    workers: int | None = None
    force: bool = False
    progress: bool = False

    def check(self) -> None:
        """Raise an error for invalid options."""
        check_decimal(self.decimal)
        if self.learner not in LEARNERS:
            raise unknown_name("learner", self.learner, LEARNERS)
        for name, value, minimum in (
            ("hidden", self.hidden, 1), ("rows", self.max_rows, MIN_ROWS), ("seed", self.seed, 0),
            ("workers", 1 if self.workers is None else self.workers, 1),
        ):  # fmt: skip
            if value < minimum:
                raise UsageError(f"--{name} must be at least {minimum}, got {value}")


@dataclass(frozen=True)
class FitBudget:
    """Numbers of rows and fits."""

    rows: int
    datasets: int
    folds: int
    shares: tuple[float, ...]
    widths: tuple[int, ...]
    splits: int
    epochs: int
    only: tuple[str, ...] | None

    @classmethod
    def from_options(cls, options: DiagnoseOptions) -> FitBudget:
        """Return the numbers of rows, fits and epochs; ``--quick`` needs at most two minutes."""
        width = options.hidden
        if options.quick:
            fractions, widths = (0.25, 0.5, 1.0), tuple(sorted({2, 8, width}))
            return cls(min(300, options.max_rows), 5, 3, fractions, widths, 2, 30, QUICK_METHODS)
        widths = tuple(sorted({1, 2, 4, 8, 16, 32, width, 2 * width, 4 * width}))
        return cls(options.max_rows, 20, 5, (0.1, 0.2, 0.4, 0.7, 1.0), widths, 3, 100, None)


def run(json: bool, **values: Any) -> None:
    """Run the command and print its recommendation."""
    options = DiagnoseOptions(**values, progress=sys.stderr.isatty() and not json)
    recommendation, found = diagnose(options)
    page = options.out / "report.html"
    if json:
        diagnostics = {name: result.to_dict() for name, result in found.items()}
        output.print_json(
            {"recommendation": recommendation, "report": str(page), "diagnostics": diagnostics}
        )
        return
    output.print_line(recommendation)
    for heading, result in found.items():
        output.print_line(f"\n{heading}")
        output.print_line(result.table())
        if result.recommendation() and result.recommendation() != recommendation:
            output.print_line(result.recommendation())
    output.print_line(f"\nreport: {page}")


@dataclass(frozen=True)
class StandardizedTable:
    """Standardized rows of a table; ``classes`` is 0 for a regression."""

    x: Tensor
    y: Tensor
    classes: int
    notes: tuple[str, ...]

    def make(self, options: DiagnoseOptions, width: int, seed: int) -> Any:
        """Return an untrained learner with a hidden layer of this width."""
        is_closed_form = options.learner == "tagi"
        outputs = self.classes - 1 if is_closed_form and self.classes else max(self.classes, 1)
        likelihood: Likelihood = Normal()
        if self.classes:
            likelihood = Categorical(self.classes) if is_closed_form else Softmax(self.classes)
        learner_kwargs: dict[str, Any] = {} if is_closed_form else {"lr": LR}
        net = mlp(self.x.shape[1], [width], outputs)
        return LEARNERS[options.learner](net, likelihood, seed=seed, **learner_kwargs)


def standardized_table(options: DiagnoseOptions, max_rows: int) -> StandardizedTable:
    """Return the rows of a file as tensors with mean 0 and variance 1, subsampled if necessary."""
    prepared = prepare(
        FitOptions(
            data=options.data, target=options.target, out=options.out, task=options.task,
            ids=options.ids, drop=options.drop, categorical=options.categorical, missing="mean",
            decimal=options.decimal, encoding=options.encoding, seed=options.seed,
        )
    )  # fmt: skip
    places = np.array(sorted([*prepared.train, *prepared.test]))
    notes = list(prepared.notes)
    if len(places) < MIN_ROWS:
        raise UsageError(f"{len(places)} rows are too few: expected at least {MIN_ROWS}")
    if len(places) > max_rows:
        drawn = np.random.default_rng(options.seed).choice(places, max_rows, replace=False)
        notes.append(f"Random subsample of {max_rows} of {len(places)} rows.")
        places = np.sort(drawn)
    inputs, targets = prepared.arrays(places.tolist())
    x = torch.as_tensor(np.asarray(inputs, dtype=np.float32))
    x = Standardizer.fit(x).transform(x)
    if prepared.target.task == "classification":
        labels, y = np.unique(targets, return_inverse=True)
        notes.append("Losses are Brier scores of the class probabilities.")
        return StandardizedTable(x, torch.as_tensor(y).long(), len(labels), tuple(notes))
    values = torch.as_tensor(np.asarray(targets, dtype=np.float32))
    scaled = Standardizer.fit(values)
    notes.append(f"Losses are squared errors, in units of {float(scaled.scale):.4g} squared.")
    return StandardizedTable(x, scaled.transform(values), 0, tuple(notes))


def diagnose(options: DiagnoseOptions) -> tuple[str, dict[str, DiagnosticResult]]:
    """Run all diagnostics; write page and results to ``options.out``."""
    options.check()
    with atomic_folder(options.out, force=options.force) as folder:
        budget = FitBudget.from_options(options)
        table = standardized_table(options, budget.rows)
        torch.set_num_threads(1)
        started = time.monotonic()
        try:
            found = run_diagnostics(table, options, budget)
        except (ArithmeticError, RuntimeError) as error:
            raise CommandError(f"a fit failed: {one_line(error)}") from error
        terms = found["Noise, bias and variance"]
        recommendation = terms.recommendation()
        seconds = time.monotonic() - started
        details = {
            "command": command_line("tractable.cli"),
            "learner": options.learner,
            "network": f"one hidden layer of {options.hidden} units",
            "rows": str(len(table.x)),
            "seed": str(options.seed),
            "time": format_duration(seconds),
            "quick": "yes (fewer rows and fits)" if options.quick else "no",
            **versions(),
        }
        title = f"{options.target} of {options.data.name}"
        write_diagnostics(
            DiagnosticsPage(title, recommendation, found, table.notes, details), folder
        )
        held = {"recommendation": recommendation, "details": details, "notes": list(table.notes)}
        diagnostics = {name: result.to_dict() for name, result in found.items()}
        text = json_text.dumps({**held, "diagnostics": diagnostics}, indent=1, allow_nan=False)
        write_text(folder / RESULTS, text + "\n")
    return recommendation, found


def run_diagnostics(
    table: StandardizedTable, options: DiagnoseOptions, budget: FitBudget
) -> dict[str, DiagnosticResult]:
    """Return the results of all diagnostics, by heading."""
    x, y = table.x, table.y
    gradient_kwargs: dict[str, Any] = {"epochs": budget.epochs, "batch_size": BATCH_SIZE}
    fit_kwargs = {} if options.learner == "tagi" else gradient_kwargs
    common: dict[str, Any] = {"seed": options.seed, "n_jobs": options.workers}
    common["progress"] = options.progress

    def factory(seed: int) -> Any:
        return table.make(options, options.hidden, seed)

    def sized_factory(width: int, seed: int) -> Any:
        return table.make(options, width, seed)

    fitted = factory(options.seed).fit(x, y, progress=False, **fit_kwargs)
    steps: dict[str, Callable[[], DiagnosticResult]] = {
        "Noise, bias and variance": lambda: bias_variance(
            factory, x, y, n_datasets=budget.datasets, **common, **fit_kwargs
        ),
        "Learning curve": lambda: learning_curve(
            factory, x, y, n_folds=budget.folds, train_fractions=budget.shares, **common,
            **fit_kwargs,
        ),
        "Network size": lambda: capacity(
            sized_factory, budget.widths, x, y, n_seeds=budget.splits, **common, **fit_kwargs
        ),
        "Regularization": lambda: compare_regularizers(
            mlp(x.shape[1], [options.hidden], max(table.classes, 1)), x, y, lr=LR,
            only=budget.only, n_splits=budget.splits, **common, **gradient_kwargs,
        ),
        "Signal propagation": lambda: summary(fitted, x, y),
    }  # fmt: skip
    return {heading: step() for heading, step in steps.items()}
