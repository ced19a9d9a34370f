"""Black-box optimisation: regret after a hundred calls, beside four other methods.

Branin, Hartmann-6 and Ackley-10 (its box shifted off the optimum) with a budget of 100
evaluations: ``BlackBoxOptimizer``, random search, differential evolution (scipy), and Optuna's
TPE and GP samplers, with their default settings; only evolution has its smallest population,
because the default one would spend the whole budget on its first generation.

    python -m tractable.experiments.blackbox
"""

from __future__ import annotations

import argparse
import contextlib
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from tractable.experiments.functions import ACKLEY10, BRANIN, HARTMANN6, Array, Function
from tractable.experiments.record import Record, table
from tractable.infer import BlackBoxOptimizer

FUNCTIONS = (BRANIN, HARTMANN6, ACKLEY10)


class OutOfBudget(Exception):
    """A method called the function more often than it may."""


class Counted:
    """A function that remembers the best value of its calls and refuses more than a budget."""

    def __init__(self, function: Function, budget: int) -> None:
        self.function, self.budget = function, budget
        self.values: list[float] = []

    def __call__(self, x: Array) -> float:
        """Evaluate."""
        if len(self.values) >= self.budget:
            raise OutOfBudget
        self.values.append(self.function.call(x))
        return self.values[-1]

    @property
    def regret(self) -> float:
        """Best value so far less the smallest there is."""
        return min(self.values) - self.function.minimum


def by_tractable(call: Counted, seed: int) -> None:
    """Ours."""
    search = BlackBoxOptimizer(call.function.bounds, seed=seed)
    for _ in range(call.budget):
        x = search.ask()
        search.tell(x, call(x))


def by_chance(call: Counted, seed: int) -> None:
    """Uniform random points."""
    generator = np.random.default_rng(seed)
    low, high = np.array(call.function.bounds).T
    for _ in range(call.budget):
        call(generator.uniform(low, high))


def by_evolution(call: Counted, seed: int) -> None:
    """Differential evolution, with the smallest population that scipy allows."""
    from scipy.optimize import differential_evolution

    differential_evolution(
        call, call.function.bounds, rng=seed, popsize=1, maxiter=10_000, tol=0, polish=False
    )


def by_optuna(sampler: str) -> Callable[[Counted, int], None]:
    """One of Optuna's samplers."""

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


def regrets(function: Function, method: str, seeds: list[int], budget: int) -> dict[str, object]:
    """Regret after the budget for each seed, and the seconds it took."""
    found, started = [], time.perf_counter()
    for seed in seeds:
        call = Counted(function, budget)
        with contextlib.suppress(OutOfBudget):
            METHODS[method](call, seed)
        found.append(call.regret)
    low, median, high = np.quantile(found, [0.25, 0.5, 0.75])
    return {
        "median": float(median),
        "quartiles": [float(low), float(high)],
        "regrets": [float(r) for r in found],
        "seconds per run": round((time.perf_counter() - started) / len(seeds), 2),
    }


def main() -> None:
    """Run all methods on all functions, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", type=int, default=100)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    seeds = list(range(args.seeds))
    record = Record("blackbox", seeds=seeds, settings={"budget": args.budget})
    for function in FUNCTIONS:
        for method in args.methods:
            found = regrets(function, method, seeds, args.budget)
            record.figures.setdefault(function.name, {})[method] = found
            record.write(args.out)
    path = record.write(args.out)
    rows = [
        [name, *(f"{found[m]['median']:.3f}" for m in args.methods)]
        for name, found in record.figures.items()
    ]
    print(f"median regret of {args.seeds} seeds after {args.budget} calls (no paper's figure)")
    print(table(rows, ["", *args.methods]))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
