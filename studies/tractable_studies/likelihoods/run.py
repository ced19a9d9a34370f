"""Likelihoods on data of their kind, beside other libraries on the same rows.

* ``counts``: hourly counts of bikes.  scikit-learn's models give a mean; they are scored as Poisson
  counts, and with the dispersion that suits their own training rows.
* ``answers``: Bishop's inverse problem, with up to three answers.

    python -m tractable_studies.likelihoods.run
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import PoissonRegressor
from torch import Tensor, nn

import tractable as tr
from tractable import metrics
from tractable.cli.output import say, show_table
from tractable.likelihoods import (
    HeteroscedasticNormal,
    Likelihood,
    Mixture,
    NegativeBinomial,
    Normal,
    Poisson,
)
from tractable.predictive import Predictive
from tractable.report.results import Comparison
from tractable_studies.framework.options import StudyOptions, option, parse, seed_option, settings
from tractable_studies.framework.progress import Parts
from tractable_studies.framework.record import RunRecord
from tractable_studies.likelihoods import STUDY
from tractable_studies.likelihoods.rows import Task, bike_file, bikes, inverse

LEVEL = 0.9
DISPERSION_STEPS = 60
BESIDE = {
    "counts": ("TAGI, NegativeBinomial", "boosted trees + dispersion"),
    "answers": ("TAGI, Mixture(3)", "Backprop, Mixture(3)"),
}
"""In each group, ours and what it is compared with."""

Model = Callable[[Task, int], Predictive]


def network(task: Task, outputs: int, width: int) -> nn.Module:
    """One hidden layer."""
    return nn.Sequential(nn.Linear(task.x.shape[1], width), nn.ReLU(), nn.Linear(width, outputs))


def learnt(
    kind: type[tr.Learner],
    likelihood: Likelihood,
    width: int,
    *,
    epochs: int,
    batch: int,
    **options: Any,
) -> Model:
    """One of our learners with a likelihood, at its defaults but for the options given."""

    def fit(task: Task, seed: int) -> Predictive:
        net = network(task, likelihood.outputs_needed, width)
        model = kind(net, likelihood, seed=seed, **options)
        model.fit(task.x, task.y, epochs=epochs, batch_size=batch, progress=False, off_data=False)
        return model.predict(task.x_test)

    return fit


def by_scikit(make: Callable[[int], Any], *, dispersed: bool) -> Model:
    """A mean by scikit-learn, as Poisson counts or with a dispersion fitted on the same rows."""

    def fit(task: Task, seed: int) -> Predictive:
        model = make(seed).fit(task.x.numpy(), task.y.numpy().ravel())

        def log_mean(x: Tensor) -> Tensor:
            return torch.tensor(model.predict(x.numpy())).double().log().unsqueeze(1)

        z = log_mean(task.x_test)
        if not dispersed:
            return Poisson().predictive(z, torch.zeros_like(z))
        likelihood, known = NegativeBinomial(), log_mean(task.x)
        for _ in range(DISPERSION_STEPS):
            seen = likelihood.sufficient_statistics(task.y.double(), known)
            assert seen is not None
            likelihood.m_step(seen)
        return likelihood.predictive(z, torch.zeros_like(z))

    return fit


def linear(_: int) -> Any:
    """A generalised linear model."""
    return PoissonRegressor(alpha=1e-3, max_iter=500)


def boosted(seed: int) -> Any:
    """Boosted trees, with their defaults."""
    return HistGradientBoostingRegressor(loss="poisson", random_state=seed)


def models(epochs: int) -> dict[str, dict[str, Model]]:
    """For each group of rows, what is fitted."""
    counts = {"epochs": epochs, "batch": 32}
    answers = {"epochs": 3 * epochs, "batch": 10}
    several = Mixture(HeteroscedasticNormal(), 3)
    return {
        "counts": {
            "TAGI, NegativeBinomial": learnt(tr.TAGI, NegativeBinomial(), 64, **counts),
            "Backprop, NegativeBinomial": learnt(
                tr.Backprop, NegativeBinomial(), 64, epochs=3 * epochs, batch=32, lr=3e-3
            ),
            "TAGI, Poisson": learnt(tr.TAGI, Poisson(), 64, **counts),
            "boosted trees + dispersion": by_scikit(boosted, dispersed=True),
            "boosted trees": by_scikit(boosted, dispersed=False),
            "PoissonRegressor + dispersion": by_scikit(linear, dispersed=True),
            "PoissonRegressor": by_scikit(linear, dispersed=False),
        },
        "answers": {
            "TAGI, Mixture(3)": learnt(tr.TAGI, several, 50, **answers),
            "Backprop, Mixture(3)": learnt(tr.Backprop, several, 50, lr=0.01, **answers),
            "TAGI, Normal": learnt(tr.TAGI, Normal(), 50, **answers),
        },
    }


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """How long, how often."""

    seed: int = seed_option(0)
    epochs: int = option(10, "of TAGI on the counts; others have multiples", quick=2, least=1)
    repeats: int = option(1, "seeds", quick=1, least=1)
    rows: int = option(1000, "of the inverse problem", quick=200, least=50)


def task_of(group: str, options: Options, seed: int) -> Task:
    """The rows of a group."""
    if group == "counts":
        return bikes(bike_file(), seed)
    return inverse(options.rows, seed)


def score(predictive: Predictive, y: Tensor) -> dict[str, float]:
    """Log-likelihood, coverage and error."""
    return {
        "log_likelihood": -metrics.nll(predictive, y),
        "coverage": metrics.coverage(predictive, y, LEVEL),
        "rmse": metrics.rmse(predictive, y),
    }


def run_model(model: Model, tasks: list[Task], seed: int) -> dict[str, float]:
    """Means over seeds."""
    started, found = time.process_time(), []
    for k, task in enumerate(tasks):
        found.append(score(model(task, seed + k), task.y_test))
    means = {key: sum(one[key] for one in found) / len(found) for key in found[0]}
    means["seconds"] = (time.process_time() - started) / len(tasks)
    return {key: float(f"{value:.4g}") for key, value in means.items()}


def compare(group: str, found: dict[str, dict[str, float]]) -> Comparison:
    """Ours beside what to compare it with."""
    ours, other = BESIDE[group]
    return Comparison(
        f"{group}: log-likelihood, beside {other}",
        found[other]["log_likelihood"],
        found[ours]["log_likelihood"],
        unit="nats per row",
        better="larger",
        learner=ours,
        measure=group,
    )


def main(argv: Sequence[str] | None = None) -> Path:
    """Run everything and print one table."""
    options = parse(Options, STUDY, argv, __doc__)
    record = RunRecord(STUDY, seeds=[options.seed], settings=settings(options), argv=argv)
    record.notes += _NOTES
    todo = models(options.epochs)
    lines = []
    with Parts(sum(len(group) for group in todo.values()), "models") as parts:
        for group, kinds in todo.items():
            seeds = [options.seed + k for k in range(options.repeats)]
            tasks = [task_of(group, options, seed) for seed in seeds]
            for name, model in kinds.items():
                found = run_model(model, tasks, options.seed)
                record.metrics.setdefault(group, {})[name] = found
                lines.append([group, name, *(f"{value:.4g}" for value in found.values())])
                parts.step(f"{group}, {name}")
                path = record.write(options.out)
            record.comparison.append(compare(group, record.metrics[group]))
            path = record.write(options.out)
    show_table(["data", "model", "log-lik.", f"{LEVEL:.0%} covers", "RMSE", "CPU s"], lines)
    say(f"written to {path}")
    return path


_NOTES = [
    "In the table of comparisons, 'paper' is the model that is named, on the same rows.",
    "Log-likelihood in nats per test row; of the inverse problem for standardised targets.",
    "Settings are first guesses: nothing was chosen by looking at any rows.",
    "scikit-learn's dispersion is that of greatest likelihood on the rows it was fitted to.",
]


if __name__ == "__main__":
    main()
