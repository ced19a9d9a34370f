"""Ratio of the predicted epistemic variance to the true variance over data sets, on UCI tables.

Each fit uses a random half of three quarters of the standardized rows, see
``tractable.diagnostics.bias_variance``.  The ratio is 1 for a calibrated learner and below 1 for an
overconfident one.  All learners have one network of 50 units and their default options, except for
the learning rate and number of epochs below.

    python -m tractable_studies.knowing.honesty
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

import tractable as tr
from tractable.cli.output import print_line, print_table
from tractable.data import UCI_NAMES, Standardizer, uci
from tractable.diagnostics import bias_variance
from tractable.likelihoods import Normal
from tractable.report.results import Comparison
from tractable_studies.framework.options import StudyOptions, option, parse, seed_option, settings
from tractable_studies.framework.record import RunRecord
from tractable_studies.knowing import HONESTY

LEARNERS = ("TAGI", "BayesByBackprop", "Laplace", "Ensemble", "Backprop")
RATE = 5e-3


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options of the study."""

    seed: int = seed_option(0)
    sets: list[str] = option(["boston", "energy"], "UCI sets", quick=["boston"], choices=UCI_NAMES)
    learners: list[str] = option(list(LEARNERS), "to compare", choices=LEARNERS)
    datasets: int = option(8, "fits of each", quick=3, min_value=3)
    epochs: int = option(
        100, "number of epochs of the gradient learners, in batches of 32", quick=5, min_value=1
    )


def table(name: str) -> tuple[Tensor, Tensor]:
    """Return a UCI set, standardized by all of its rows."""
    held = uci(name)
    x, y = held.features, held.targets
    return Standardizer.fit(x).transform(x), Standardizer.fit(y).transform(y)[:, 0]


def maker(learner: str, inputs: int) -> Callable[[int], Any]:
    """Return a function that makes this learner from a seed."""
    net = nn.Sequential(nn.Linear(inputs, 50), nn.ReLU(), nn.Linear(50, 1))

    def make(seed: int) -> Any:
        options: dict[str, Any] = {} if learner == "TAGI" else {"lr": RATE}
        return getattr(tr, learner)(net, Normal(), seed=seed, **options)

    return make


def main(argv: Sequence[str] | None = None) -> Path:
    """Run every learner on every set and print one table."""
    options = parse(Options, HONESTY, argv, __doc__)
    record = RunRecord(HONESTY, seeds=[options.seed], settings=settings(options), argv=argv)
    lines = []
    for name in options.sets:
        x, y = table(name)
        for learner in options.learners:
            extra: dict[str, Any] = {"epochs": options.epochs, "batch_size": 32}
            extra = {} if learner == "TAGI" else extra
            found = bias_variance(
                maker(learner, x.shape[1]), x, y, n_datasets=options.datasets, seed=options.seed,
                n_jobs=1, **extra,
            )  # fmt: skip
            ratio = found.epistemic_ratio
            record.metrics.setdefault(name, {})[learner] = found.to_dict() | {
                "epistemic_ratio": ratio,
                "epistemic_to_error_ratio": found.epistemic_to_error_ratio,
            }  # fmt: skip
            record.comparison.append(
                Comparison(
                    f"{name}: own variance over the true one", None, ratio, better="nearer",
                    goal=1.0, learner=learner, measure=name,
                )
            )  # fmt: skip
            cells = (found.loss, found.noise, found.bias_sq, found.variance, found.epistemic, ratio)
            lines.append([name, learner, *("–" if c is None else f"{c:.3g}" for c in cells)])
            print_line(" ".join(lines[-1]))
    path = record.write(options.out)
    header = ["set", "learner", "loss", "noise", "bias²", "variance", "own", "ratio"]
    print_table(header, lines, right=6)
    print_line(f"written to {path}")
    return path


if __name__ == "__main__":
    main()
