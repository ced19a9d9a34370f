"""scikit-learn estimators of the library and of scikit-learn on seven UCI tables.

``TAGIRegressor()`` against ``MLPRegressor()`` and ``RandomForestRegressor()``, on published
train/test splits.  The network of scikit-learn gets standardised inputs *and* targets, as ours
does inside; the forest needs neither.  Neither of the two predicts a variance, so both get one
normal noise: the mean squared error on a tenth of the training rows that a first fit has not
seen (the residuals of a forest on its own training rows would be absurdly small); the model
that is tested is then fitted to all training rows.

    python -m tractable_studies.estimators.run
    python -m tractable_studies.estimators.run --sets boston energy --splits 20
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tractable.cli.output import print_line, print_table
from tractable.data import UCI_NAMES, uci
from tractable.report.results import Comparison
from tractable.sklearn import TAGIRegressor
from tractable_studies.estimators import STUDY
from tractable_studies.framework.options import StudyOptions, option, parse, seed_option, settings
from tractable_studies.framework.progress import PartsProgress
from tractable_studies.framework.record import RunRecord

OURS, NETWORK, FOREST = "TAGIRegressor", "MLPRegressor", "RandomForestRegressor"
LEVEL = 0.9
SPLITS = {"kin8nm": 3, "naval": 2, "protein": 1}
"""Number of splits of the large sets, on which a forest is slow; five for the others."""

HEADER = [
    "set", "splits", f"{OURS} RMSE / LL", f"{NETWORK} RMSE / LL", f"{FOREST} RMSE / LL",
    "90 % covers", "best LL", "seconds",
]  # fmt: skip


def rivals(seed: int) -> dict[str, Any]:
    """Return the two estimators of scikit-learn, with default settings except for the seed."""
    network = make_pipeline(StandardScaler(), MLPRegressor(random_state=seed))
    return {
        NETWORK: TransformedTargetRegressor(network, transformer=StandardScaler()),
        FOREST: RandomForestRegressor(random_state=seed),
    }


def ours(x: Any, y: Any, x_test: Any, y_test: Any, seed: int) -> dict[str, float]:
    """Return error, log-likelihood and coverage of ``TAGIRegressor()``."""
    started = time.perf_counter()
    model = TAGIRegressor(random_state=seed).fit(x, y)
    seconds = time.perf_counter() - started
    low, high = model.predict_interval(x_test, LEVEL).T
    return {
        "rmse": _rmse(model.predict(x_test), y_test),
        "log_likelihood": model.score_log_likelihood(x_test, y_test),
        "coverage": float(((low < y_test) & (y_test < high)).mean()),
        "seconds": seconds,
    }


def theirs(model: Any, x: Any, y: Any, x_test: Any, y_test: Any, seed: int) -> dict[str, float]:
    """Return the error of a point estimator, and its log-likelihood with held-out noise."""
    order = np.random.default_rng(seed).permutation(len(x))
    out, kept = np.split(order, [len(x) // 10])
    variance = _rmse(_fitted(clone(model), x[kept], y[kept]).predict(x[out]), y[out]) ** 2
    started = time.perf_counter()
    model = _fitted(model, x, y)
    seconds = time.perf_counter() - started
    rmse = _rmse(model.predict(x_test), y_test)
    log_likelihood = -0.5 * (rmse**2 / variance + math.log(2 * math.pi * variance))
    return {"rmse": rmse, "log_likelihood": log_likelihood, "seconds": seconds}


def _fitted(model: Any, x: Any, y: Any) -> Any:
    with warnings.catch_warnings():
        # Its default of 200 epochs is part of what is compared.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(x, y)


def _rmse(predicted: Any, seen: Any) -> float:
    return float(np.sqrt(np.mean((predicted - seen) ** 2)))


def run_split(name: str, split: int, seed: int) -> dict[str, dict[str, float]]:
    """Fit and score all three estimators on one split, in the units of the data."""
    x, y, x_test, y_test = (part.double().numpy() for part in uci(name).split(split))
    rows = x, y.ravel(), x_test, y_test.ravel()
    found = {OURS: ours(*rows, seed)}
    return found | {kind: theirs(model, *rows, seed) for kind, model in rivals(seed).items()}


def summary(splits: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Return means over splits."""
    return {
        kind: {key: float(f"{np.mean([s[kind][key] for s in splits]):.4g}") for key in own}
        for kind, own in splits[0].items()
    }


def best(found: dict[str, dict[str, float]]) -> str:
    """Return the estimator with the highest log-likelihood."""
    return max(found, key=lambda kind: found[kind]["log_likelihood"])


def compare(name: str, found: dict[str, dict[str, float]]) -> list[Comparison]:
    """Compare ours with the better of the two others; there are no published results."""
    rows = []
    for key, better in (("rmse", "smaller"), ("log_likelihood", "larger")):
        pick = min if better == "smaller" else max
        rival = pick((NETWORK, FOREST), key=lambda kind: found[kind][key])
        label = "RMSE" if key == "rmse" else "log-likelihood"
        rows.append(
            Comparison(
                f"{name}, {label}",
                found[rival][key],
                found[OURS][key],
                better=better,  # type: ignore[arg-type]
                learner=OURS,
                note=f"against {rival}",
            )
        )
    return rows


def row(name: str, splits: int, found: dict[str, dict[str, float]]) -> list[str]:
    """Return a row of the table."""
    kinds = [found[kind] for kind in (OURS, NETWORK, FOREST)]
    return [
        name,
        str(splits),
        *(f"{k['rmse']:.4g} / {k['log_likelihood']:.3g}" for k in kinds),
        f"{found[OURS]['coverage']:.1%}",
        best(found),
        " / ".join(f"{k['seconds']:.2g}" for k in kinds),
    ]


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: data sets and number of splits."""

    seed: int = seed_option(0)
    sets: list[str] = option(list(UCI_NAMES), choices=UCI_NAMES, quick=["boston", "energy"])
    splits: int | None = option(
        None, "the first ones of every set; by default 5, fewer of large sets", quick=1, min_value=1
    )


def main(argv: Sequence[str] | None = None) -> Path:
    """Run the selected sets and print one table."""
    options = parse(Options, STUDY, argv, __doc__)
    record = RunRecord(STUDY, seeds=[options.seed], settings=settings(options), argv=argv)
    record.notes += _NOTES
    counts = {
        name: min(options.splits or SPLITS.get(name, 5), uci(name).n_splits)
        for name in options.sets
    }
    rows = []
    with PartsProgress(sum(counts.values()), "splits") as parts:
        for name, count in counts.items():
            splits = []
            for split in range(count):
                splits.append(run_split(name, split, options.seed + split))
                parts.step(f"{name}, split {split}")
            found = summary(splits)
            record.metrics[name] = {"splits": count, "best_log_likelihood": best(found), **found}
            record.comparison += compare(name, found)
            rows.append(row(name, count, found))
            path = record.write(options.out)
    won = sum(found["best_log_likelihood"] == OURS for found in record.metrics.values())
    print_table(HEADER, rows)
    print_line(f"{OURS} has the highest log-likelihood on {won} of {len(rows)} sets")
    print_line(f"written to {path}")
    return path


_NOTES = [
    "The seed of a split is --seed plus its number; all settings are defaults.",
    f"{NETWORK}: inputs and targets standardised. Log-likelihood of {NETWORK} and {FOREST}: "
    "normal, with the mean squared error on a held-out tenth of the training rows.",
    "In the table of comparisons, 'paper' is the better of those two.",
]


if __name__ == "__main__":
    main()
