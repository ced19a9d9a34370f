"""Effect of gross outliers in the training targets of UCI tables on the default regressor.

A share of the training targets is moved by 20 standard deviations of the target, up or down; the
test rows stay as they are.  ``TAGIRegressor()`` with its defaults, published splits.

    python -m tractable_studies.outliers.run
    python -m tractable_studies.outliers.run --sets boston --splits 2
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tractable import metrics
from tractable.cli.output import print_line, print_table
from tractable.data import uci
from tractable.report.results import Comparison
from tractable.sklearn import TAGIRegressor
from tractable_studies.framework.options import StudyOptions, option, parse, seed_option, settings
from tractable_studies.framework.progress import PartsProgress
from tractable_studies.framework.record import RunRecord
from tractable_studies.outliers import STUDY

SETS = ("boston", "concrete", "energy", "wine", "kin8nm")
SHARES = (0.0, 0.01, 0.05)
FAR = 20.0
"""Size of an outlier, in standard deviations of the target."""
LEVEL = 0.9
DEAREST = 1.1
"""Highest accepted ratio to the clean RMSE with one percent of outliers."""

Scores = dict[str, float]


def with_outliers(y: Any, share: float, seed: int) -> Any:
    """Return targets with a share of them (rounded up) moved far up or down."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(y))[: math.ceil(share * len(y))]
    dirty = y.copy()
    dirty[chosen] += FAR * y.std() * rng.choice([-1.0, 1.0], len(chosen))
    return dirty


def run_split(name: str, split: int, share: float, seed: int) -> Scores:
    """Fit rows with outliers, and score on rows without, in the units of the data."""
    x, y, x_test, y_test = (part.double().numpy() for part in uci(name).split(split))
    y, seen = with_outliers(y.ravel(), share, seed), torch.from_numpy(y_test.ravel())
    started = time.perf_counter()
    model = TAGIRegressor(random_state=seed).fit(x, y)
    seconds = time.perf_counter() - started
    predictive = model.predictive(x_test)
    return {
        "rmse": metrics.rmse(predictive, seen),
        "log_likelihood": metrics.lppd(predictive, seen),
        "coverage": metrics.coverage(predictive, seen, LEVEL),
        "seconds": seconds,
    }


def summary(splits: list[Scores]) -> Scores:
    """Return means over splits."""
    return {key: float(f"{np.mean([s[key] for s in splits]):.4g}") for key in splits[0]}


def title(share: float) -> str:
    """Return the title of a share in tables."""
    return f"{share:.0%}" if share else "clean"


def compare(name: str, found: dict[str, Scores]) -> list[Comparison]:
    """Compare the results with and without outliers."""
    rows = []
    for share in [key for key in found if key != title(0)]:
        for key, label, better in (
            ("rmse", "RMSE", "smaller"),
            ("log_likelihood", "log-likelihood", "larger"),
        ):
            rows.append(
                Comparison(
                    f"{name}, {share} outliers, {label}",
                    found[title(0)][key],
                    found[share][key],
                    better=better,  # type: ignore[arg-type]
                    learner="TAGI",
                    note=f"90 % cover {found[share]['coverage']:.1%}",
                )
            )
    return rows


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: data sets and number of splits."""

    seed: int = seed_option(0)
    sets: list[str] = option(list(SETS), choices=SETS, quick=["boston", "energy"])
    splits: int = option(5, "published splits, the first ones", quick=1, min_value=1)


def main(argv: Sequence[str] | None = None) -> Path:
    """Run the selected sets and print one table."""
    options = parse(Options, STUDY, argv, __doc__)
    record = RunRecord(STUDY, seeds=[options.seed], settings=settings(options), argv=argv)
    record.notes += _NOTES
    lines, dear = [], []
    with PartsProgress(len(options.sets) * len(SHARES) * options.splits, "fits") as parts:
        for name in options.sets:
            found = {}
            for share in SHARES:
                splits = []
                for split in range(options.splits):
                    splits.append(run_split(name, split, share, options.seed + split))
                    parts.step(f"{name}, {title(share)}: RMSE {splits[-1]['rmse']:.4g}")
                found[title(share)] = summary(splits)
            record.metrics[name] = {"splits": options.splits, **found}
            record.comparison += compare(name, found)
            path = record.write(options.out)
            lines.append([name, *(cell(found[title(share)]) for share in SHARES)])
            if found[title(0.01)]["rmse"] > DEAREST * found[title(0)]["rmse"]:
                dear.append(name)
    print_table(["RMSE / LL / 90 % covers", *(title(share) for share in SHARES)], lines)
    print_line(
        f"1 % of outliers cost more than a tenth of the RMSE on: {', '.join(dear) or 'none'}"
    )
    print_line(f"written to {path}")
    return path


def cell(found: Scores) -> str:
    """Return one cell of the table."""
    return f"{found['rmse']:.4g} / {found['log_likelihood']:.3g} / {found['coverage']:.1%}"


_NOTES = [
    "The seed of a split is --seed plus its number; it chooses the outliers, too.",
    f"An outlier is a training target moved by {FAR:.0f} standard deviations, up or down.",
    "In the table of comparisons, 'paper' is the fit to clean rows.",
]


if __name__ == "__main__":
    main()
