"""Seven UCI regression tables with their published splits and one setting for all.

``TAGIRegressor()`` with its defaults: five networks of two hidden layers of 64 ReLU units, with
model selection on held-out training rows.  Published figures: Goulet, Nguyen & Amiri (2021), one
hidden layer of 50 (100 for Protein), noise chosen per set by cross-validation.

    python -m tractable_studies.uci.run
    python -m tractable_studies.uci.run --sets boston energy --splits 5

Finished splits are kept in ``uci-splits.json`` in the folder, and not computed again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tractable.cli.output import print_line, print_table
from tractable.data import uci
from tractable.persistence.atomic import write_text
from tractable.report.calibration import LEVELS, from_coverage, interval_coverage
from tractable.report.results import Comparison
from tractable.sklearn import TAGIRegressor
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
from tractable_studies.uci import STUDY

PUBLISHED = {
    "boston": (3.15, -2.58),
    "concrete": (5.87, -3.20),
    "energy": (1.32, -1.81),
    "kin8nm": (0.095, 0.89),
    "naval": (0.007, 3.54),
    "protein": (4.62, -2.95),
    "wine": (0.64, -0.98),
}

HEADER = ["set", "published RMSE / LL", "ours", "90 % covers", "per split"]


def run_split(name: str, split: int, epochs: int | None = None, seed: int = 0) -> dict[str, float]:
    """Train on one split and score its test rows, in the units of the data."""
    x, y, x_test, y_test = uci(name).split(split)
    model = TAGIRegressor(epochs=epochs, random_state=seed + split)
    started = time.perf_counter()
    model.fit(x.numpy(), y.numpy())
    seconds = time.perf_counter() - started
    predictive = model.predictive(x_test.numpy())
    shares = interval_coverage(predictive, y_test)
    return {
        "rmse": (predictive.mean - y_test).square().mean().sqrt().item(),
        "log_likelihood": predictive.log_prob(y_test).mean().item(),
        "coverage": shares[LEVELS.index(0.9)],
        "seconds": seconds,
        **{f"coverage_{level}": share for level, share in zip(LEVELS, shares, strict=True)},
    }


def summary(splits: list[dict[str, float]]) -> dict[str, float]:
    """Return means over splits, and the standard errors of error and log-likelihood."""
    columns = {key: torch.tensor([s[key] for s in splits]).double() for key in splits[0]}
    means = {key: column.mean().item() for key, column in columns.items()}
    if len(splits) > 1:
        for key in ("rmse", "log_likelihood"):
            error = columns[key].std() / len(splits) ** 0.5
            means[f"{key}_standard_error"] = error.item()
    return {key: float(f"{value:.4g}") for key, value in means.items()}


def compare(metrics: dict[str, Any]) -> list[Comparison]:
    """Compare RMSE and log-likelihood of every set with the published ones."""
    rows = []
    for name, found in metrics.items():
        for key, paper, better in zip(
            ("rmse", "log_likelihood"), found["published"], ("smaller", "larger"), strict=True
        ):
            rows.append(
                Comparison(
                    f"{name}, {'RMSE' if key == 'rmse' else 'log-likelihood'}",
                    paper,
                    found[key],
                    better=better,  # type: ignore[arg-type]
                    std_error=found.get(f"{key}_standard_error"),
                    learner="TAGI",
                )
            )
    return rows


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: data sets, splits and epochs."""

    seed: int = seed_option(0)
    resume: bool = resume_option()
    sets: list[str] = option(
        list(PUBLISHED), choices=PUBLISHED, quick=["boston", "concrete", "energy", "wine"]
    )
    splits: int | None = option(None, "the first splits only", quick=2, min_value=1)
    epochs: int | None = option(
        None, "number of epochs. Default: chosen by TAGI", quick=20, min_value=1
    )


class Splits:
    """Finished splits, stored in a file so that they are not computed again."""

    def __init__(self, options: Options) -> None:
        self.path = options.out / "uci-splits.json"
        self.epochs, self.seed = options.epochs, options.seed
        self.done: dict[str, list[dict[str, float]]] = {}
        if options.resume and self.path.is_file():
            earlier = json.loads(self.path.read_text())
            if earlier["epochs"] == self.epochs and earlier["seed"] == self.seed:
                self.done = earlier["splits"]

    @property
    def seconds(self) -> float:
        """Return the duration of all splits."""
        return sum(s["seconds"] for splits in self.done.values() for s in splits)

    def of(self, name: str) -> list[dict[str, float]]:
        """Return the splits of one set."""
        return self.done.setdefault(name, [])

    def run(self, name: str) -> dict[str, float]:
        """Compute the next split of a set and store it."""
        splits = self.of(name)
        splits.append(run_split(name, len(splits), self.epochs, self.seed))
        state = {"epochs": self.epochs, "seed": self.seed, "splits": self.done}
        write_text(self.path, json.dumps(state))
        return splits[-1]


def main(argv: Sequence[str] | None = None) -> Path:
    """Run the selected sets, one split after the other; finished splits are stored."""
    options = parse(Options, STUDY, argv, __doc__)
    record = RunRecord(STUDY, seeds=[options.seed], settings=settings(options), argv=argv)
    record.notes.append(
        "The seed of a split is --seed plus its number. Spread: standard error over splits."
    )
    options.out.mkdir(parents=True, exist_ok=True)
    splits = Splits(options)
    record.earlier = splits.seconds
    counts = {name: min(options.splits or 100, uci(name).n_splits) for name in options.sets}
    ready = sum(min(len(splits.of(name)), count) for name, count in counts.items())
    rows, shares = [], {}
    with PartsProgress(sum(counts.values()), "splits", ready) as parts:
        for name, count in counts.items():
            while len(splits.of(name)) < count:
                found = splits.run(name)
                parts.step(f"{name}, split {len(splits.of(name))}: RMSE {found['rmse']:.4g}")
            means = summary(splits.of(name)[:count])
            record.metrics[name] = {"splits": count, **means, "published": list(PUBLISHED[name])}
            shares[name] = [means[f"coverage_{level}"] for level in LEVELS]
            record.comparison = compare(record.metrics)
            record.calibration = from_coverage(shares)
            rows.append(row(name, means))
            path = record.write(options.out)
    print_table(HEADER, rows)
    print_line(f"written to {path}")
    return path


def row(name: str, means: dict[str, float]) -> list[str]:
    """Return a row of the table."""
    published = PUBLISHED[name]
    return [
        name,
        f"{published[0]} / {published[1]}",
        f"{means['rmse']:.4g} / {means['log_likelihood']:.3g}",
        f"{means['coverage']:.1%}",
        f"{means['seconds']:.1f} s",
    ]


if __name__ == "__main__":
    main()
