"""Missing values in UCI tables: inferred, replaced by means, or imputed by regression.

Two questions, on published splits (at most 400 rows to learn from, at most 300 to test on):

* A fifth of all cells is missing at random, in training and test rows.  ``TAGIRegressor()`` takes
  them as they are; its rivals are the same regressor behind scikit-learn's ``SimpleImputer``
  (means) and ``IterativeImputer`` (Bayesian ridge regressions of each column on the others).
  Log-likelihood of the test rows, with their gaps and without.
* A model of complete rows is asked to predict without the column that matters most (the one whose
  shuffling costs its training rows most).  How many targets do 90 % intervals hold?

    python -m tractable_studies.missing.run
    python -m tractable_studies.missing.run --sets concrete --splits 1
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer

from tractable import metrics
from tractable.cli.output import print_line, print_table
from tractable.data import uci
from tractable.report.results import Comparison
from tractable.sklearn import TAGIRegressor
from tractable_studies.framework.options import StudyOptions, option, parse, seed_option, settings
from tractable_studies.framework.progress import PartsProgress
from tractable_studies.framework.record import RunRecord
from tractable_studies.missing import STUDY

SETS = ("concrete", "energy", "kin8nm", "wine", "boston")
SHARE = 0.2
"""Share of the cells that are missing."""
LEVEL = 0.9
WAYS = ("inferred", "means", "regressions")
_MOST_TRAIN, _MOST_TEST = 400, 300

Scores = dict[str, float]


def with_gaps(x: Any, share: float, seed: int) -> Any:
    """Return rows with a share of the cells missing, and at least one cell left in each."""
    gone = np.random.default_rng(seed).random(x.shape) < share
    gone &= ~gone.all(1, keepdims=True)
    return np.where(gone, np.nan, x)


def filled(way: str, x: Any, *others: Any) -> list[Any]:
    """Return rows as they are passed to the regressor, imputed if the method requires it."""
    if way == "inferred":
        return [x, *others]
    imputer: Any = SimpleImputer() if way == "means" else IterativeImputer(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        imputer.fit(x)
        return [imputer.transform(rows) for rows in (x, *others)]


def scored(model: Any, x: Any, y: Any) -> Scores:
    """Return the scores of test rows."""
    predictive, seen = model.predictive(x), torch.from_numpy(y)
    return {
        "rmse": metrics.rmse(predictive, seen),
        "log_likelihood": metrics.lppd(predictive, seen),
        "median_log_likelihood": float(predictive.log_prob(seen).median()),
        "coverage": metrics.coverage(predictive, seen, LEVEL),
        "width": metrics.mean_interval_width(predictive, LEVEL),
    }


def rows_of(name: str, split: int, seed: int) -> list[Any]:
    """Return training and test rows of a split, up to a maximum number."""
    x, y, x_test, y_test = (part.double().numpy() for part in uci(name).split(split))
    kept = np.random.default_rng(seed).permutation(len(x))[:_MOST_TRAIN]
    return [x[kept], y.ravel()[kept], x_test[:_MOST_TEST], y_test.ravel()[:_MOST_TEST]]


def gaps_everywhere(name: str, split: int, seed: int) -> dict[str, dict[str, Scores]]:
    """Fit rows with missing values by every method, and score them."""
    x, y, x_test, y_test = rows_of(name, split, seed)
    holes, holes_test = with_gaps(x, SHARE, seed + 1), with_gaps(x_test, SHARE, seed + 2)
    found = {}
    for way in WAYS:
        train, test = filled(way, holes, holes_test)
        model = TAGIRegressor(random_state=seed).fit(train, y)
        found[way] = {
            "gaps": scored(model, test, y_test),
            "complete": scored(model, x_test, y_test),
        }
    return found


def one_column_blank(name: str, split: int, seed: int) -> dict[str, Scores]:
    """Fit complete rows, and predict without the most important column."""
    x, y, x_test, y_test = rows_of(name, split, seed)
    model = TAGIRegressor(random_state=seed).fit(x, y)
    column = most_important(model, x, y, seed)
    blank, means = x_test.copy(), x_test.copy()
    blank[:, column], means[:, column] = np.nan, x[:, column].mean()
    return {
        "known": scored(model, x_test, y_test),
        "inferred": scored(model, blank, y_test),
        "means": scored(model, means, y_test),
    }


def most_important(model: Any, x: Any, y: Any, seed: int) -> int:
    """Return the column with the largest permutation importance on training rows."""
    order, costs = np.random.default_rng(seed).permutation(len(x)), []
    for column in range(x.shape[1]):
        mixed = x.copy()
        mixed[:, column] = x[order, column]
        costs.append(float(np.mean((model.predict(mixed) - y) ** 2)))
    return int(np.argmax(costs))


def mean_of(parts: Sequence[Any]) -> Any:
    """Return means over splits of nested results."""
    if isinstance(parts[0], dict):
        return {key: mean_of([part[key] for part in parts]) for key in parts[0]}
    return float(f"{np.mean(parts):.4g}")


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: data sets and number of splits."""

    seed: int = seed_option(0)
    sets: list[str] = option(list(SETS), choices=SETS, quick=["boston", "energy"])
    splits: int = option(3, "published splits, the first ones", quick=1, min_value=1)


def main(argv: Sequence[str] | None = None) -> Path:
    """Run the selected sets and print two tables."""
    options = parse(Options, STUDY, argv, __doc__)
    record = RunRecord(STUDY, seeds=[options.seed], settings=settings(options), argv=argv)
    record.notes += _NOTES
    gaps_lines, blank_lines = [], []
    with PartsProgress(2 * len(options.sets) * options.splits, "parts") as parts:
        for name in options.sets:
            everywhere, blank = [], []
            for split in range(options.splits):
                seed = options.seed + split
                everywhere.append(gaps_everywhere(name, split, seed))
                parts.step(f"{name}, {split}: gaps")
                blank.append(one_column_blank(name, split, seed))
                parts.step(f"{name}, {split}: a column blank")
            found, one = mean_of(everywhere), mean_of(blank)
            record.metrics[name] = {
                "splits": options.splits, "gaps": found, "blank": one,
                "log_likelihood_by_split": {
                    way: [round(s[way]["gaps"]["log_likelihood"], 4) for s in everywhere]
                    for way in WAYS
                },
            }  # fmt: skip
            record.comparison += compare(name, found, one)
            path = record.write(options.out)
            gaps_lines.append([name, *(cell(found[way]["gaps"]) for way in WAYS)])
            blank_lines.append([name, *(cell(one[way]) for way in ("known", "inferred", "means"))])
    print_table([f"{SHARE:.0%} missing: LL / RMSE / 90 % cover", *WAYS], gaps_lines)
    print_table(["a column blank", "known", "inferred", "means"], blank_lines)
    print_line(f"written to {path}")
    return path


def cell(found: Scores) -> str:
    """Return one cell of a table."""
    return f"{found['log_likelihood']:.3f} / {found['rmse']:.4g} / {found['coverage']:.1%}"


def compare(name: str, found: dict[str, Any], blank: dict[str, Scores]) -> list[Comparison]:
    """Compare our results with each alternative."""
    rows = [
        Comparison(
            f"{name}, {SHARE:.0%} missing, log-likelihood, beside {way}",
            found[way]["gaps"]["log_likelihood"],
            found["inferred"]["gaps"]["log_likelihood"],
            better="larger",
            learner="TAGI",
        )
        for way in WAYS[1:]
    ]
    cover = Comparison(
        f"{name}, a column blank, 90 % intervals cover", 100 * blank["means"]["coverage"],
        100 * blank["inferred"]["coverage"], "%", better="nearer", goal=90.0, learner="TAGI",
    )  # fmt: skip
    return [*rows, cover]


_NOTES = [
    "The seed of a split is --seed plus its number; it chooses the rows and the gaps, too.",
    "In the table of comparisons, 'paper' is the rival that the row names (means, for intervals).",
]


if __name__ == "__main__":
    main()
