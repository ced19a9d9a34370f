"""Prediction intervals in gaps of the data and outside their range, with and without widening.

Every model is fitted once and scored twice: as it is, and without the stored positions of its
training rows (``fit(distance_aware=False)`` gives the same weights).

* ``sine``: 200 rows of a sine on [-1, 1], without the middle third and whole; and beyond the data.
* ``gaps``: for each of the first columns of a UCI set, its middle third is cut out and tested on.
* ``inside``: published splits, where nothing should change.

    python -m tractable_studies.off_data.run
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from tractable import metrics
from tractable.cli.output import print_line, print_table
from tractable.data import UCI_NAMES, uci
from tractable.predictive import Predictive, mixture
from tractable.report.results import Comparison
from tractable.sklearn import BBBRegressor, TAGIRegressor
from tractable_studies.framework.options import StudyOptions, option, parse, seed_option, settings
from tractable_studies.framework.progress import PartsProgress
from tractable_studies.framework.record import RunRecord
from tractable_studies.off_data import STUDY
from tractable_studies.off_data.rows import Array, Pair, Task, published, shuffled, sine
from tractable_studies.off_data.rows import without_middle as cut

LEVEL = 0.9
GP_ROWS = 400
"""Number of training rows of the Gaussian process, whose variance is compared with ours."""
LARGE = {"naval", "protein"}
"""Large sets, for which only the gap tasks are run, including their in-distribution rows."""
SLOW_TOYS = 4
"""Number of seeds of the sine for models slower than the default."""

Models = list[Any]
Scores = dict[str, dict[str, float]]


def tagi(task: Task, seed: int) -> Models:
    """Fit the default model."""
    return [TAGIRegressor(random_state=seed).fit(*task.train)]


def single(task: Task, seed: int) -> Models:
    """Fit the default model with one network in place of five."""
    return [TAGIRegressor(n_estimators=1, random_state=seed).fit(*task.train)]


def bbb(task: Task, seed: int) -> Models:
    """Fit Bayes by Backprop with its defaults."""
    return [BBBRegressor(random_state=seed).fit(*task.train)]


KINDS: dict[str, Callable[[Task, int], Models]] = {"TAGI": tagi, "one network": single, "BBB": bbb}


def predicted(models: Models, x: Array) -> Predictive:
    """Return the prediction of all models together."""
    parts = [model.predictive(x) for model in models]
    return parts[0] if len(parts) == 1 else mixture(parts)


def plain(models: Models, x: Array) -> Predictive:
    """Return the same prediction without widening."""
    held = [model.learner_.off_data.support for model in models]
    try:
        for model in models:
            model.learner_.off_data.support = None
        return predicted(models, x)
    finally:
        for model, support in zip(models, held, strict=True):
            model.learner_.off_data.support = support


def score(predictive: Predictive, y: Array) -> dict[str, float]:
    """Return log-likelihood, coverage and error, in the units of the data."""
    seen = torch.from_numpy(y)
    return {
        "nll": metrics.nll(predictive, seen),
        "coverage": metrics.coverage(predictive, seen, LEVEL),
        "rmse": metrics.rmse(predictive, seen),
    }


def scores(models: Models, tests: dict[str, Pair]) -> Scores:
    """Score with and without widening on all kinds of test rows: ``"gap, before"`` and so on."""
    found: Scores = {}
    for name, (x, y) in tests.items():
        found[f"{name}, before"] = score(plain(models, x), y)
        found[f"{name}, after"] = score(predicted(models, x), y)
    return found


def foreign(models: Models, train: Pair, x: Array, seed: int) -> Scores:
    """Return how well the epistemic variance detects rows with shuffled columns.

    For comparison, the variance of a Gaussian process with one length scale for all columns.
    """
    both, label = np.concatenate([x, shuffled(x, seed)]), np.repeat([0, 1], len(x))
    found = {}
    for name, predict in (("before", plain), ("after", predicted)):
        unsure = predict(models, both).epistemic.numpy().ravel()
        found[f"shuffled columns, {name}"] = {"auroc": float(roc_auc_score(label, unsure))}
    variance = _gp_variance(train, both, seed)
    found["shuffled columns, GP"] = {"auroc": float(roc_auc_score(label, variance))}
    return found


def _gp_variance(train: Pair, at: Array, seed: int) -> Array:
    rows = np.random.default_rng(seed).permutation(len(train[0]))[:GP_ROWS]
    x, y = train[0][rows], train[1][rows]
    scaler = StandardScaler().fit(x)
    kernel = ConstantKernel() * RBF() + WhiteKernel()
    gp = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gp.fit(scaler.transform(x), y)
    std: Array = gp.predict(scaler.transform(at), return_std=True)[1]
    return std


def mean(runs: list[Scores]) -> Scores:
    """Return means over runs, and the lowest log-likelihood of any."""
    means: Scores = {}
    for part in runs[0]:
        keys = runs[0][part]
        means[part] = {k: _short(float(np.mean([run[part][k] for run in runs]))) for k in keys}
        if "nll" in keys:
            means[part]["worst_nll"] = _short(max(run[part]["nll"] for run in runs))
    return means | {"runs": {"count": float(len(runs))}}


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: data sets and numbers of tasks."""

    seed: int = seed_option(0)
    sets: list[str] = option(list(UCI_NAMES), choices=UCI_NAMES, quick=["boston"])
    gaps: int = option(3, "columns of a set, the first ones", quick=2, min_value=1)
    toys: int = option(10, "seeds of the sine", quick=2, min_value=1)
    splits: int = option(3, "published splits, but for large sets", quick=1, min_value=1)


Job = tuple[str, str, list[tuple[Callable[[], Task], int]]]


def jobs(options: Options) -> list[Job]:
    """Return the jobs: a group, a kind of model, and its tasks with their seeds."""
    first = options.seed
    made: list[Job] = []
    for gap, group in ((True, "sine, gap"), (False, "sine")):
        for kind in KINDS:
            count = options.toys if kind == "TAGI" else min(options.toys, SLOW_TOYS)
            made.append((group, kind, [_sine(first + k, gap=gap) for k in range(count)]))
    for name in options.sets:
        data = uci(name)
        columns = min(options.gaps, data.features.shape[1])
        tasks = [_cut(data, k, first + k) for k in range(columns)]
        made += [(f"{name}, gaps", kind, tasks) for kind in KINDS]
        if name not in LARGE:
            splits = range(min(options.splits, data.n_splits))
            tasks = [_published(data, k, first + k) for k in splits]
            made.append((f"{name}, published", "TAGI", tasks))
    return made


def run_task(group: str, kind: str, task: Task, seed: int) -> Scores:
    """Fit one model and score it with and without widening."""
    models = KINDS[kind](task, seed)
    found = scores(models, task.tests)
    if group.endswith("published"):
        found |= foreign(models, task.train, task.tests["inside"][0], seed)
    return found


def compare(group: str, kind: str, found: Scores) -> list[Comparison]:
    """Compare the scores with and without widening."""
    rows = []
    for part in [name.removesuffix(", before") for name in found if name.endswith(", before")]:
        before, after = found[f"{part}, before"], found[f"{part}, after"]
        for key, better in (("nll", "smaller"), ("auroc", "larger")):
            if key in before:
                rows.append(
                    Comparison(
                        f"{group}: {part}, {key.upper()}",
                        before[key],
                        after[key],
                        better=better,  # type: ignore[arg-type]
                        learner=kind,
                        measure=f"{group}: {part}",
                    )
                )
    return rows


def table(found: dict[str, dict[str, Scores]]) -> list[list[str]]:
    """Return one row for each group, kind of model and kind of test rows."""
    lines = []
    for group, kinds in found.items():
        for kind, parts in kinds.items():
            for part, after in parts.items():
                if part.endswith(", after") and "nll" in after:
                    name = part.removesuffix(", after")
                    both = [parts[f"{name}, before"], after]
                    nll = " -> ".join(f"{one['nll']:.3g}" for one in both)
                    cover = " -> ".join(f"{one['coverage']:.0%}" for one in both)
                    lines.append([group, kind, name, nll, cover, f"{after['rmse']:.3g}"])
    return lines


def main(argv: Sequence[str] | None = None) -> Path:
    """Run all jobs and print one table."""
    options = parse(Options, STUDY, argv, __doc__)
    record = RunRecord(STUDY, seeds=[options.seed], settings=settings(options), argv=argv)
    record.notes += _NOTES
    todo = jobs(options)
    with PartsProgress(len(todo), "parts") as parts:
        for group, kind, tasks in todo:
            found = mean([run_task(group, kind, make(), seed) for make, seed in tasks])
            record.metrics.setdefault(group, {})[kind] = found
            record.comparison += compare(group, kind, found)
            parts.step(f"{group}, {kind}")
            path = record.write(options.out)
    header = ["data", "model", "rows", "NLL before -> after", f"{LEVEL:.0%} covers", "RMSE"]
    print_table(header, table(record.metrics))
    print_line(f"written to {path}")
    return path


def _sine(seed: int, *, gap: bool) -> tuple[Callable[[], Task], int]:
    return lambda: sine(seed, gap=gap), seed


def _cut(data: Any, column: int, seed: int) -> tuple[Callable[[], Task], int]:
    return lambda: cut(data, column, seed), seed


def _published(data: Any, split: int, seed: int) -> tuple[Callable[[], Task], int]:
    return lambda: published(data, split), seed


def _short(value: float) -> float:
    return float(f"{value:.4g}")


_NOTES = [
    "The seed of a task is --seed plus the number of its gap, split or repetition.",
    "In the table of comparisons, 'paper' is the same fit without widening.",
    "NLL in nats per row, in the units of the data; worst_nll is that of the worst gap or split.",
]


if __name__ == "__main__":
    main()
