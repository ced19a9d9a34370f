"""Black-box optimization: regret after 100 evaluations, compared with four other methods.

Branin, Hartmann-6 and Ackley-10 (its box shifted off the optimum) with a budget of 100
evaluations: ``BlackBoxOptimizer``, random search, differential evolution (scipy), and Optuna's
TPE and GP samplers, with their default settings; only evolution has its smallest population,
because the default one would spend the whole budget on its first generation.

    python -m tractable_studies.blackbox.run
    python -m tractable_studies.blackbox.run --functions Branin --methods tractable random
"""

from __future__ import annotations

import contextlib
import itertools
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tractable.cli.output import print_line, print_table
from tractable.infer import BlackBoxOptimizer
from tractable.report.results import Chart, Comparison
from tractable_studies.blackbox import STUDY
from tractable_studies.blackbox.functions import ACKLEY10, BRANIN, HARTMANN6, Array, Function
from tractable_studies.framework.options import StudyOptions, option, parse, seed_option, settings
from tractable_studies.framework.progress import PartsProgress
from tractable_studies.framework.record import RunRecord

FUNCTIONS = {function.name: function for function in (BRANIN, HARTMANN6, ACKLEY10)}


class OutOfBudget(Exception):
    """Raised when a method exceeds the budget of function evaluations."""


class Counted:
    """A function that records the best value of its calls and enforces a budget."""

    def __init__(self, function: Function, budget: int) -> None:
        self.function, self.budget = function, budget
        self.values: list[float] = []

    def __call__(self, x: Array) -> float:
        """Evaluate the function and count the call."""
        if len(self.values) >= self.budget:
            raise OutOfBudget
        self.values.append(self.function.call(x))
        return self.values[-1]

    @property
    def regret(self) -> float:
        """Return the best value so far minus the minimum."""
        return min(self.values) - self.function.minimum


def by_tractable(call: Counted, seed: int) -> None:
    """Run ``BlackBoxOptimizer``."""
    search = BlackBoxOptimizer(call.function.bounds, seed=seed)
    for _ in range(call.budget):
        x = search.ask()
        search.tell(x, call(x))


def by_chance(call: Counted, seed: int) -> None:
    """Evaluate uniform random points."""
    generator = np.random.default_rng(seed)
    low, high = np.array(call.function.bounds).T
    for _ in range(call.budget):
        call(generator.uniform(low, high))


def by_evolution(call: Counted, seed: int) -> None:
    """Run differential evolution with the smallest population that scipy allows."""
    from scipy.optimize import differential_evolution

    differential_evolution(
        call, call.function.bounds, rng=seed, popsize=1, maxiter=10_000, tol=0, polish=False
    )


def by_optuna(sampler: str) -> Callable[[Counted, int], None]:
    """Run one of Optuna's samplers."""

    def run(call: Counted, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            study = optuna.create_study(sampler=getattr(optuna.samplers, sampler)(seed=seed))
            study.optimize(
                lambda trial: call(
                    np.array(
                        [
                            trial.suggest_float(f"x{i}", low, high)
                            for i, (low, high) in enumerate(call.function.bounds)
                        ]
                    )
                ),
                n_trials=call.budget,
            )

    return run


METHODS: dict[str, Callable[[Counted, int], None]] = {
    "tractable": by_tractable,
    "random": by_chance,
    "evolution": by_evolution,
    "tpe": by_optuna("TPESampler"),
    "gp": by_optuna("GPSampler"),
}


def regrets(function: Function, method: str, seeds: list[int], budget: int) -> dict[str, Any]:
    """Return the final regret of each seed, the median regret by call, and the durations."""
    found, ways, started = [], [], time.perf_counter()
    for seed in seeds:
        call = Counted(function, budget)
        with contextlib.suppress(OutOfBudget):
            METHODS[method](call, seed)
        found.append(call.regret)
        way = np.minimum.accumulate(call.values) - function.minimum
        ways.append(np.pad(way, (0, budget - len(way)), mode="edge"))
    low, median, high = np.quantile(found, [0.25, 0.5, 0.75])
    return {
        "median": float(median),
        "quartiles": [float(low), float(high)],
        "regrets": [float(r) for r in found],
        "median by call": [float(f"{regret:.4g}") for regret in np.median(ways, 0)],
        "seconds per run": round((time.perf_counter() - started) / len(seeds), 2),
    }


def compare(found: dict[str, dict[str, Any]]) -> list[Comparison]:
    """Return median regrets; no paper has these figures."""
    return [
        Comparison(
            f"{name}, {method}", None, one["median"], better="smaller", learner=method,
            measure=f"{name}, median regret", note=f"quartiles {_quartiles(one)}",
        )
        for name, methods in found.items()
        for method, one in methods.items()
    ]  # fmt: skip


def _quartiles(found: dict[str, Any]) -> str:
    low, high = found["quartiles"]
    return f"{low:.3g} to {high:.3g}"


def charts(found: dict[str, dict[str, Any]]) -> list[Chart]:
    """Plot the median regret by call, one chart per function."""
    made = []
    for name, methods in found.items():
        curves = {}
        for method, one in methods.items():
            way = one["median by call"]
            curves[method] = (list(range(1, len(way) + 1)), way)
        made.append(Chart(f"{name}: median regret", "calls", "regret", curves, log=True))
    return made


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: functions, methods and budget."""

    seed: list[int] = seed_option(range(10), quick=[0, 1])
    budget: int = option(100, "calls of the function", quick=25, min_value=1)
    methods: list[str] = option(list(METHODS), choices=METHODS)
    functions: list[str] = option(list(FUNCTIONS), choices=FUNCTIONS, quick=["Branin"])


def main(argv: Sequence[str] | None = None) -> Path:
    """Run all methods on all functions, print the table and write the results."""
    options = parse(Options, STUDY, argv, __doc__)
    record = RunRecord(STUDY, seeds=options.seed, settings=settings(options), argv=argv)
    record.notes.append("No paper has these figures: the other methods are the comparison.")
    with PartsProgress(len(options.functions) * len(options.methods), "runs") as parts:
        for name, method in itertools.product(options.functions, options.methods):
            found = regrets(FUNCTIONS[name], method, options.seed, options.budget)
            record.metrics.setdefault(name, {})[method] = found
            record.comparison = compare(record.metrics)
            record.charts = charts(record.metrics)
            path = record.write(options.out)
            parts.step(f"{name} by {method}: median regret {found['median']:.3g}")
    rows = [
        [name, *(f"{found[m]['median']:.3f}" for m in options.methods)]
        for name, found in record.metrics.items()
    ]
    seeds = len(options.seed)
    print_line(f"median regret of {seeds} seeds after {options.budget} calls (no paper's figure)")
    print_table(["", *options.methods], rows)
    print_line(f"written to {path}")
    return path


if __name__ == "__main__":
    main()
