"""Batch rules by depth and batch size: test RMSE on x^3 - 3x.

The true noise is 0.02 of the target's deviation.  It is inferred along with the weights (the
default of ``Normal()``), or given from the start, which is much harder: a wrong first guess is then
contradicted with great force.  Every network sees the same data for the same number of passes.
``published`` sums messages (with its variances kept positive), ``damped`` scales the step as a
whole; see ``tractable.learners.methods.tagi.batch_rule``.

    python -m tractable_studies.batch_rule.run
    python -m tractable_studies.batch_rule.run --depth 2 --batch-size 32
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

import tractable as tr
from tractable.cli.output import print_line, print_table
from tractable.errors import NonFiniteUpdate
from tractable.learners.methods.tagi.batch_rule import BATCH_RULES
from tractable.report.results import Chart, Comparison
from tractable_studies.batch_rule import STUDY
from tractable_studies.framework.options import StudyOptions, option, parse, seed_option, settings
from tractable_studies.framework.progress import PartsProgress
from tractable_studies.framework.record import RunRecord

DEPTHS = (1, 2, 4, 8)
BATCHES = (1, 8, 32, 128, 512)


def run(
    rule: str, sigma: float | None, depth: int, batch_size: int, seed: int, epochs: int
) -> float:
    """Return the test RMSE in standard deviations of the target; infinite if learning failed."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(1536, 1, generator=generator) * 4 - 2
    y = (x**3 - 3 * x) / 1.4 + 0.02 * torch.randn(x.shape, generator=generator)
    layers: list[nn.Module] = []
    for width in [1] + [50] * (depth - 1):
        layers += [nn.Linear(width, 50), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Linear(50, 1))
    model = tr.TAGI(net, tr.likelihoods.Normal(sigma), batch_rule=rule, seed=seed, robust=False)
    try:
        model.fit(x[:1024], y[:1024], epochs=epochs, batch_size=batch_size, progress=False)
    except NonFiniteUpdate:
        return math.inf
    return (model.predict(x[1024:]).mean - y[1024:]).square().mean().sqrt().item()


def compare(found: dict[str, dict[str, float | str]]) -> list[Comparison]:
    """Return the results of both rules on the whole grid; no paper has these figures."""
    rows = []
    for key, cells in found.items():
        place, _, rule = key.rpartition("/")
        for batch_size, error in cells.items():
            where = f"{place.replace('/', ', ')}, batch {batch_size}"
            diverged = isinstance(error, str)
            rows.append(
                Comparison(
                    f"{where}, {rule}",
                    None,
                    None if isinstance(error, str) else error,
                    better="smaller",
                    learner=rule,
                    measure=where,
                    note="diverged" if diverged else "",
                )
            )
    return rows


def charts(found: dict[str, dict[str, float | str]]) -> list[Chart]:
    """Plot the test RMSE by batch size, one chart for each kind of noise."""
    made = []
    for noise in ("inferred", "given"):
        curves = {}
        for key, cells in found.items():
            if key.startswith(f"noise={noise}/"):
                values = [v if isinstance(v, float) else None for v in cells.values()]
                curves[key.partition("/")[2]] = ([float(b) for b in cells], values)
        if curves:
            title = f"Test RMSE, noise {noise}"
            made.append(Chart(title, "batch size", "RMSE", curves, log=True))
    return made


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: the grid of depths and batch sizes."""

    seed: list[int] = seed_option(range(3), quick=[0])
    epochs: int = option(40, "passes over the data", quick=10, min_value=1)
    depth: list[int] = option(list(DEPTHS), "hidden layers", quick=[1, 4], min_value=1)
    batch_size: list[int] = option(
        list(BATCHES), "observations per step", quick=[8, 128], min_value=1
    )


def main(argv: Sequence[str] | None = None) -> Path:
    """Run the grid and write the medians over seeds."""
    options = parse(Options, STUDY, argv, __doc__)
    chosen = {**settings(options), "true_sigma": 0.02}
    record = RunRecord(STUDY, seeds=options.seed, settings=chosen, argv=argv)
    record.notes.append("Test RMSE; both rules on the same data. No paper has these figures.")
    rows = []
    grid = list(itertools.product((None, 0.02), options.depth, BATCH_RULES))
    with PartsProgress(len(grid), "rows") as parts:
        for sigma, depth, rule in grid:
            noise = "inferred" if sigma is None else "given"
            cells = medians(rule, sigma, depth, options)
            record.metrics[f"noise={noise}/depth={depth}/{rule}"] = cells
            rows.append([noise, str(depth), rule, *map(str, cells.values())])
            record.comparison = compare(record.metrics)
            record.charts = charts(record.metrics)
            path = record.write(options.out)
            parts.step(f"noise {noise}, {depth} hidden, {rule}")
    print_table(["noise", "hidden", "rule", *(f"batch {b}" for b in options.batch_size)], rows)
    print_line(f"written to {path}")
    return path


def medians(rule: str, sigma: float | None, depth: int, options: Options) -> dict[str, float | str]:
    """Return the median error over seeds by batch size."""
    cells: dict[str, float | str] = {}
    for batch_size in options.batch_size:
        errors = [run(rule, sigma, depth, batch_size, s, options.epochs) for s in options.seed]
        middle = torch.tensor(errors).median().item()
        cells[str(batch_size)] = round(middle, 4) if math.isfinite(middle) else "diverged"
    return cells


if __name__ == "__main__":
    main()
