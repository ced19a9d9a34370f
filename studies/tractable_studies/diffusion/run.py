"""Diffusion models of three UCI tables and the 8x8 digits.

``TAGI`` in closed form, the same network by ``Backprop``, and on the tables ForestDiffusion, where
it is installed.  Measures: energy distance to test rows, accuracy of a two-sample classifier, score
on test rows of a model trained on the samples, and processor seconds.

    python -m tractable_studies.diffusion.run
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from tractable import metrics
from tractable.cli.output import print_line, print_table
from tractable.report.results import Comparison
from tractable_studies.diffusion import STUDY, models, tasks
from tractable_studies.diffusion.tasks import Task
from tractable_studies.framework.options import (
    StudyOptions,
    option,
    parse,
    resume_option,
    seed_option,
    settings,
)
from tractable_studies.framework.progress import PartsProgress
from tractable_studies.framework.record import RunRecord
from tractable_studies.framework.resume import CachedParts

COLUMNS = ("energy_distance", "told_apart", "worth", "fitting", "sampling")
NAMES = (*tasks.TABLES, "digits")


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: amount of data, epochs and settings."""

    seed: int = seed_option(0)
    sets: list[str] = option(list(NAMES), "rows", choices=NAMES, quick=["wine"])
    rows: int = option(500, "maximum number of rows of a table", quick=200, min_value=50)
    digits: int = option(1_300, "maximum number of digit images", quick=400, min_value=300)
    passes: int = option(4, "over the noised rows", quick=1, min_value=1)
    width: int = option(128, "width of two hidden layers", quick=16, min_value=1)
    resume: bool = resume_option()
    forest_times: int = option(20, "times of ForestDiffusion", quick=3, min_value=3)
    forest_copies: int = option(10, "copies of each row there", quick=2, min_value=1)
    forest_trees: int = option(50, "trees for every column and time there", quick=5, min_value=1)


def run_set(name: str, options: Options) -> dict[str, dict[str, float]]:
    """Fit and evaluate all models on one data set."""
    seed = options.seed
    task = tasks.digits(options.digits, seed) if name == "digits" else _table(name, options)
    makers = models.ours(options.passes, (options.width, options.width))
    if name != "digits" and models.has_forest():
        makers["ForestDiffusion"] = models.forest(
            options.forest_times, options.forest_copies, options.forest_trees
        )
    found = {"training rows": _reference(task, seed)}
    for model, make in makers.items():
        made = make(task, seed)
        found[model] = {
            **tasks.judged(task, made.rows, made.labels, seed),
            "fitting": made.fitting,
            "sampling": made.sampling,
            **made.setting,
        }
    return {model: _short(scores) for model, scores in found.items()}


def _table(name: str, options: Options) -> Task:
    return tasks.table(name, options.rows, options.seed)


def _reference(task: Task, seed: int) -> dict[str, float]:
    """Return the measures for real rows in place of generated ones."""
    rng = np.random.default_rng(seed)
    some = rng.permutation(len(task.train))[: len(task.test)]
    labels = None if task.labels is None else task.labels[0]
    return {
        "energy_distance": metrics.energy_distance(task.test, task.train[some], unbiased=True),
        "told_apart": metrics.two_sample(
            task.test, task.train[some], epochs=20, seed=seed, progress=False
        ).accuracy,
        "worth": tasks.worth(task, task.train, labels, seed),
    }


def _decisive(options: Options) -> dict[str, Any]:
    """Return the options on which the scores of a data set depend."""
    free = ("sets", "resume", "out", "threads")
    return {key: value for key, value in settings(options).items() if key not in free}


def _short(scores: dict[str, Any]) -> dict[str, float]:
    return {key: float(f"{value:.4g}") for key, value in scores.items()}


def main(argv: Sequence[str] | None = None) -> Path:
    """Run all models and print one table."""
    options = parse(Options, STUDY, argv, __doc__)
    record = RunRecord(STUDY, seeds=[options.seed], settings=settings(options), argv=argv)
    record.notes += _NOTES
    if not models.has_forest():
        record.notes.append("ForestDiffusion is not installed here, and was left out.")
    lines: list[list[str]] = []
    kept = CachedParts(options.out, _decisive(options), options.resume)
    with PartsProgress(len(options.sets), "sets") as parts:
        for name in options.sets:
            found = record.metrics[name] = kept.get(name, partial(run_set, name, options))
            for model, scores in found.items():
                shown = [f"{scores[key]:.3g}" if key in scores else "" for key in COLUMNS]
                lines.append([name, model, *shown])
            record.comparison += _compared(name, found)
            parts.step(name)
            path = record.write(options.out)
    print_table(["rows", "model", *COLUMNS], lines)
    print_line(f"written to {path}")
    return path


def _compared(name: str, found: dict[str, dict[str, float]]) -> list[Comparison]:
    def row(key: str, other: str, better: Literal["smaller", "larger"], unit: str) -> Comparison:
        return Comparison(
            f"{name}: {key.replace('_', ' ')}, beside {other}", found[other][key],
            found["TAGI"][key], unit=unit, better=better, learner="TAGI",
            measure=f"{name}, {key}",
        )  # fmt: skip

    lines = []
    for other in ("Backprop", "ForestDiffusion"):
        if other in found:
            lines.append(row("energy_distance", other, "smaller", ""))
            lines.append(row("worth", other, "larger", ""))
            lines.append(row("fitting", other, "smaller", "s"))
    return lines


_NOTES = [
    "In the table of comparisons, 'paper' is the model that is named, on the same rows.",
    "Energy distance (unbiased) between test rows and equally many samples, columns standardized "
    "by the training rows; 'told apart' is the accuracy of a calibrated two-sample classifier on "
    "held-out rows (0.5 if samples are indistinguishable); 'worth' is R² (tables) or accuracy "
    "(digits) on test rows of a model trained on the samples. Times are processor seconds of one "
    "thread, for the selected setting.",
    "TAGI and Backprop have two settings each, chosen by the bound on validation rows; "
    "ForestDiffusion has one, with fewer times, copies and trees than its defaults (50, 100, 100).",
]


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
