"""Log density of rows of seven UCI tables, on the first published split.

Gaussian and mixture by EM, chains of conditionals by TAGI and by Backprop, and neural spline flows
by Backprop, as an ensemble, and by a plain loop over zuko's in the same run.

    python -m tractable_studies.densities.run
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

import tractable as tr
from tractable.cli.output import print_line, print_table
from tractable.data import UCI_NAMES
from tractable.report.results import Comparison
from tractable_studies.densities import STUDY, models
from tractable_studies.densities.models import Scores
from tractable_studies.densities.tables import rows_of
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

PLAIN = "NSF, plain loop over zuko"


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: amount of data, epochs and settings."""

    seed: list[int] = seed_option([0], quick=[0])
    sets: list[str] = option(list(UCI_NAMES), "tables", choices=UCI_NAMES, quick=["boston"])
    rows: int = option(500, "maximum numbers of training and test rows", quick=200, min_value=50)
    members: int = option(3, "number of networks of the ensemble", quick=2, min_value=2)
    flow_passes: list[int] = option([15, 40], "numbers of epochs tried for the flows", quick=[2])
    chain_passes: list[int] = option([8, 25], "numbers of epochs tried for the chains", quick=[1])
    resume: bool = resume_option()
    floors: list[float] = option([0.02], "candidate noise floors of the chains", quick=[0.05])


def run_table(name: str, options: Options, seed: int) -> dict[str, Scores]:
    """Fit and score all models on one table with one seed."""
    rows = rows_of(name, options.rows, seed)
    passes, floors = tuple(options.chain_passes), tuple(options.floors)
    found = {
        "Gaussian": models.gaussian(rows, seed),
        "mixture": models.mixture(rows, seed),
        "TAGI, chain": models.autoregressive(tr.TAGI, passes, floors)(rows, seed),
        "Backprop, chain": models.autoregressive(tr.Backprop, passes, floors)(rows, seed),
        **models.splines(options.members, tuple(options.flow_passes))(rows, seed),
    }
    for scores in found.values():
        scores["rows"], scores["columns"] = float(len(rows.learnt)), float(rows.test.shape[1])
    return found


def main(argv: Sequence[str] | None = None) -> Path:
    """Run all models and print one table."""
    options = parse(Options, STUDY, argv, __doc__)
    record = RunRecord(STUDY, seeds=options.seed, settings=settings(options), argv=argv)
    record.notes += _NOTES
    lines: list[list[str]] = []
    kept = CachedParts(options.out, _decisive(options), options.resume)
    with PartsProgress(len(options.sets) * len(options.seed), "tables") as parts:
        for name in options.sets:
            began, every = time.process_time(), []
            for seed in options.seed:
                run = partial(run_table, name, options, seed)
                every.append(kept.get(f"{name}-{seed}", run))
                parts.step(f"{name}, seed {seed}, {time.process_time() - began:.0f} s")
            means = {model: _mean([one[model] for one in every]) for model in every[0]}
            record.metrics[name] = means
            for model, scores in means.items():
                lines.append(
                    [name, model, *(f"{scores[k]:.3f}" for k in ("log_density", "seconds"))]
                )
            record.comparison += _compared(name, means, options.members)
            path = record.write(options.out)
    print_table(["table", "model", "log density", "seconds"], lines)
    print_line(f"written to {path}")
    return path


def _decisive(options: Options) -> dict[str, Any]:
    """Return the options on which the scores of a table depend."""
    free = ("sets", "seed", "resume", "out", "threads")
    return {key: value for key, value in settings(options).items() if key not in free}


def _mean(every: list[Scores]) -> Scores:
    found = {key: sum(one[key] for one in every) / len(every) for key in every[0]}
    if len(every) > 1:
        values = [one["log_density"] for one in every]
        spread = math.sqrt(sum((v - found["log_density"]) ** 2 for v in values) / (len(values) - 1))
        found["std_over_seeds"] = spread
    return {key: float(f"{value:.5g}") for key, value in found.items()}


def _compared(name: str, found: dict[str, Scores], members: int) -> list[Comparison]:
    pairs = (
        ("NSF, Backprop", PLAIN), (f"NSF, ensemble of {members}", PLAIN),
        ("TAGI, chain", "Gaussian"), ("TAGI, chain", "Backprop, chain"),
    )  # fmt: skip
    return [
        Comparison(
            f"{name}: {ours}, beside {other}", found[other]["log_density"],
            found[ours]["log_density"], unit="nats per row", better="larger", learner=ours,
            measure=f"{name}, log density",
        )
        for ours, other in pairs
    ]  # fmt: skip


_NOTES = [
    "In the table of comparisons, 'paper' is the model that is named, on the same rows.",
    "Log density in nats per test row, of standardised columns, means over the seeds (of rows, "
    "first weights and batches). Columns of fewer than 1,000 different values are spread over "
    "their smallest step; constant columns and copies are left out.",
    "Passes and noise floors are chosen on a share of 15 % of the training rows, with the same "
    "grid for TAGI and Backprop; the chosen model learns from all of them.",
    "The plain loop starts at the weights that Backprop draws and takes batches in the same order.",
]


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
