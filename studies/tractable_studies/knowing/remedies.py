"""Regularization of a plain network on UCI tables, with equal numbers of row visits.

One network of 50 units on the standardized tables.  The strength of each regularizer is selected on
validation rows over all splits, and the reported results are measured on test rows.

    python -m tractable_studies.knowing.remedies
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from tractable.cli.output import print_line
from tractable.data import UCI_NAMES
from tractable.diagnostics import compare_regularizers
from tractable.report.results import Comparison
from tractable_studies.framework.options import StudyOptions, option, parse, seed_option, settings
from tractable_studies.framework.record import RunRecord
from tractable_studies.knowing import REMEDIES
from tractable_studies.knowing.honesty import RATE, table


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options of the study."""

    seed: int = seed_option(0)
    sets: list[str] = option(["boston", "energy"], "UCI sets", quick=["boston"], choices=UCI_NAMES)
    splits: int = option(3, "number of splits of the rows", quick=1, min_value=1)
    epochs: int = option(60, "in batches of 32", quick=3, min_value=1)


def main(argv: Sequence[str] | None = None) -> Path:
    """Try every method on every set and print its table."""
    options = parse(Options, REMEDIES, argv, __doc__)
    record = RunRecord(REMEDIES, seeds=[options.seed], settings=settings(options), argv=argv)
    for name in options.sets:
        x, y = table(name)
        net = nn.Sequential(nn.Linear(x.shape[1], 50), nn.ReLU(), nn.Linear(50, 1))
        found = compare_regularizers(
            net, x, y, epochs=options.epochs, batch_size=32, lr=RATE, n_splits=options.splits,
            seed=options.seed, n_jobs=1,
        )  # fmt: skip
        print_line(f"{name}\n{found}")
        record.metrics[name] = found.to_dict()
        for result in found.results:
            record.comparison.append(
                Comparison(
                    f"{name}: test NLL, {result.name}", found["none"].nll, result.nll,
                    better="smaller", std_error=result.gain_std_error, learner=result.name,
                    measure=name,
                    note=result.strength,
                )
            )  # fmt: skip
    record.notes.append("In the table, 'paper' is a plain network; the spread is that of the gain.")
    path = record.write(options.out)
    print_line(f"written to {path}")
    return path


if __name__ == "__main__":
    main()
