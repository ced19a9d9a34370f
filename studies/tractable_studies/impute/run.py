"""Imputation of UCI tables by a mixture of Gaussians and by ``IterativeImputer``.

A fifth of all values is taken away at random, from training and test rows.  Every method learns
from the training rows with their holes and fills those of the test rows.  Errors are in standard
deviations of the training column; intervals are those of ``infer.impute`` with 100 draws (for
``IterativeImputer`` of 20 chains with ``sample_posterior=True``, between the same places of the
sorted draws).

    python -m tractable_studies.impute.run
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 (it adds the next one)
from sklearn.impute import IterativeImputer

import tractable as tr
from tractable.cli.output import print_table
from tractable.data import uci
from tractable.generative import DiscreteColumnsWarning
from tractable.report.results import Comparison
from tractable_studies.framework.options import StudyOptions, option, parse, seed_option, settings
from tractable_studies.framework.record import RunRecord
from tractable_studies.impute import STUDY

Array = np.ndarray[Any, np.dtype[np.float64]]
Filled = tuple[Array, Array]
SETS = ("boston", "concrete", "energy", "kin8nm", "wine")
SHARE, LEVEL, CHAINS, DRAWS, FEW = 0.2, 0.9, 20, 100, 20


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: data sets and number of seeds."""

    seed: list[int] = seed_option([0, 1, 2], quick=[0])
    sets: list[str] = option(list(SETS), choices=SETS, quick=["boston"])
    rows: int = option(1_500, "number of training rows, at most", quick=300, min_value=50)


def mean(train: Array, test: Array, seed: int) -> Filled:
    """Impute column means; intervals are quantiles of the observed values."""
    centre = np.nanmean(train, 0)
    ends = np.nanquantile(train, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    wide = np.broadcast_to(ends[:, None], (2, *test.shape))
    return np.where(np.isnan(test), centre, test), np.array(wide)


def iterative(train: Array, test: Array, seed: int) -> Filled:
    """Impute with scikit-learn's default: one Bayesian ridge regression per column."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = IterativeImputer(random_state=seed).fit(train).transform(test)
        drawn = [
            IterativeImputer(sample_posterior=True, random_state=seed + k)
            .fit(train)
            .transform(test)
            for k in range(CHAINS)
        ]
    ends = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    return best, np.quantile(np.stack(drawn), ends, axis=0, method="weibull")


def mixture(train: Array, test: Array, seed: int, members: int = 1) -> Filled:
    """Impute with the defaults; the number of components is selected on validation rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiscreteColumnsWarning)
        model = tr.generative.GaussianMixture(
            seed=seed, dtype=torch.float64, validation_fraction=0.0, n_estimators=members
        ).fit(train)
    found = tr.infer.impute(model, test, n_samples=DRAWS)
    return found.mean.numpy(), np.stack([end.numpy() for end in found.interval(LEVEL)])


def mixtures(train: Array, test: Array, seed: int) -> Filled:
    """Impute with eight mixtures from different starts, the default of ``tractable impute``."""
    return mixture(train, test, seed, members=8)


METHODS: dict[str, Callable[[Array, Array, int], Filled]] = {
    "column mean": mean,
    "IterativeImputer": iterative,
    "mixture": mixture,
    "eight mixtures": mixtures,
}


def table(name: str, seed: int, rows: int) -> tuple[Array, Array, Array]:
    """Return training and test rows with missing values, and the complete test rows.

    Inputs and target together, without columns that are constant or copies of others.
    """
    data = uci(name)
    whole = np.column_stack([np.asarray(data.features), np.asarray(data.targets)]).astype(float)
    kept: list[int] = []
    for k in range(whole.shape[1]):
        column = whole[:, k]
        if column.std() == 0:
            continue
        if any(abs(np.corrcoef(column, whole[:, j])[0, 1]) > 1 - 1e-9 for j in kept):
            continue
        kept.append(k)
    rng = np.random.default_rng(seed)
    whole = whole[rng.permutation(len(whole))][:, kept]
    test, train = whole[: min(500, len(whole) // 5)], whole[min(500, len(whole) // 5) :][:rows]
    gone = [rng.random(part.shape) < SHARE for part in (train, test)]
    holed = [np.where(g, np.nan, part) for g, part in zip(gone, (train, test), strict=True)]
    return holed[0][~np.isnan(holed[0]).all(1)], holed[1], test


def score(filled: Filled, holed: Array, truth: Array, unit: Array) -> dict[str, float]:
    """Return the error and the coverage of the intervals."""
    gone = np.isnan(holed)
    error = ((filled[0] - truth) / unit)[gone]
    inside = (filled[1][0] <= truth) & (truth <= filled[1][1])
    # No interval covers exactly 90 % of a column of few distinct values: count others too.
    many = gone & np.array([len(np.unique(column)) > FEW for column in truth.T])
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "mae": float(np.mean(np.abs(error))),
        "coverage": float(inside[gone].mean()),
        "coverage_of_many_values": float(inside[many].mean()),
        "width": float(((filled[1][1] - filled[1][0]) / unit)[gone].mean()),
    }


def main(argv: Sequence[str] | None = None) -> Path:
    """Run all methods and print the comparison."""
    options = parse(Options, STUDY, argv)
    record = RunRecord(STUDY, seeds=options.seed, settings=settings(options), argv=argv)
    record.notes.append("The column 'paper' is scikit-learn's IterativeImputer in the same run.")
    lines, path = [], options.out
    for name in options.sets:
        found: dict[str, list[dict[str, float]]] = {method: [] for method in METHODS}
        for seed in options.seed:
            train, holed, truth = table(name, seed, options.rows)
            unit = np.nanstd(train, 0)
            for method, fill in METHODS.items():
                started = time.process_time()
                filled = fill(train, holed, seed)
                found[method].append(score(filled, holed, truth, unit))
                found[method][-1]["seconds"] = time.process_time() - started
        means = {
            method: {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
            for method, runs in found.items()
        }
        record.metrics[name] = means
        ours, other = means["eight mixtures"], means["IterativeImputer"]
        record.comparison.append(
            Comparison(f"{name}: error of filled values, standard deviations", other["rmse"],
                       ours["rmse"], better="smaller",
                       note=f"covers {ours['coverage']:.1%} (IterativeImputer "
                            f"{other['coverage']:.1%}) of 90 %")
        )  # fmt: skip
        lines += [
            [name, method, f"{m['rmse']:.3f}", f"{m['coverage']:.1%}", f"{m['width']:.2f}",
             f"{m['coverage_of_many_values']:.1%}", f"{m['seconds']:.1f}"]
            for method, m in means.items()
        ]  # fmt: skip
        path = record.write(options.out)
    print_table(
        ["table", "method", "rmse", "90 % cover", "width", "of many", "seconds"], lines, right=5
    )
    return path


if __name__ == "__main__":
    main()
