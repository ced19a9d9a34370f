"""How the batch rules fare over depth and batch size: test RMSE of x^3 - 3x.

The true noise is 0.02 of the target's deviation.  It is inferred along with the weights (the
default of ``Normal()``), or given from the start, which is much harder: a wrong first guess is then
contradicted with great force.  Every network sees the same data for the same number of passes.
``published`` sums messages (with its variances kept positive), ``damped`` scales the step as a
whole; see ``tractable.learners.batch_rule``.

    python -m tractable.experiments.batch_rule
    python -m tractable.experiments.batch_rule --depth 2 --batch-size 32
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import nn

import tractable as tr
from tractable.errors import NonFiniteUpdate
from tractable.experiments import options
from tractable.experiments.progress import Countdown, say
from tractable.experiments.record import Record, table
from tractable.learners.batch_rule import BATCH_RULES
from tractable.report.results import Chart, Comparison

DEPTHS = (1, 2, 4, 8)
BATCHES = (1, 8, 32, 128, 512)


def run(
    rule: str, sigma: float | None, depth: int, batch_size: int, seed: int, epochs: int
) -> float:
    """Test RMSE in units of the target's deviation; infinite if the learner gave up."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(1536, 1, generator=generator) * 4 - 2
    y = (x**3 - 3 * x) / 1.4 + 0.02 * torch.randn(x.shape, generator=generator)
    layers: list[nn.Module] = []
    for width in [1] + [50] * (depth - 1):
        layers += [nn.Linear(width, 50), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Linear(50, 1))
    model = tr.TAGI(net, tr.likelihoods.Normal(sigma), batch_rule=rule, seed=seed)  # type: ignore[arg-type]
    try:
        model.fit(x[:1024], y[:1024], epochs=epochs, batch_size=batch_size, progress=False)
    except NonFiniteUpdate:
        return math.inf
    return (model.predict(x[1024:]).mean - y[1024:]).square().mean().sqrt().item()


def compare(figures: dict[str, dict[str, float | str]]) -> list[Comparison]:
    """Both rules at every place of the grid; no paper has these figures."""
    rows = []
    for key, cells in figures.items():
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


def charts(figures: dict[str, dict[str, float | str]]) -> list[Chart]:
    """Test RMSE over batch size: one chart for each kind of noise."""
    made = []
    for noise in ("inferred", "given"):
        curves = {}
        for key, cells in figures.items():
            if key.startswith(f"noise={noise}/"):
                values = [v if isinstance(v, float) else None for v in cells.values()]
                curves[key.partition("/")[2]] = ([float(b) for b in cells], values)
        if curves:
            title = f"Test RMSE, noise {noise}"
            made.append(Chart(title, "batch size", "RMSE", curves, log=True))
    return made


def main(argv: Sequence[str] | None = None) -> None:
    """Run the grid and write the medians over seeds."""
    parser = options.parser("batch_rule", __doc__, seed=range(3))
    parser.add_argument("--epochs", type=int, default=40, help="passes over the data")
    parser.add_argument("--depth", type=int, nargs="+", default=list(DEPTHS), help="hidden layers")
    parser.add_argument("--batch-size", type=int, nargs="+", default=list(BATCHES))
    quick = {"seed": [0], "epochs": 10, "depth": [1, 4], "batch_size": [8, 128]}
    args = options.parse(parser, argv, quick)
    seeds = list(args.seed)
    chosen = {**options.settings(args), "true_sigma": 0.02}
    record = Record("batch_rule", seeds=seeds, settings=chosen, argv=argv)
    record.notes.append("Test RMSE; both rules on the same data. No paper has these figures.")
    rows = []
    grid = list(itertools.product((None, 0.02), args.depth, BATCH_RULES))
    progress = Countdown(len(grid), "rows")
    for sigma, depth, rule in grid:
        noise = "inferred" if sigma is None else "given"
        cells: dict[str, float | str] = {}
        for batch_size in args.batch_size:
            errors = [run(rule, sigma, depth, batch_size, seed, args.epochs) for seed in seeds]
            middle = torch.tensor(errors).median().item()
            cells[str(batch_size)] = round(middle, 4) if math.isfinite(middle) else "diverged"
        record.figures[f"noise={noise}/depth={depth}/{rule}"] = cells
        rows.append([noise, str(depth), rule, *map(str, cells.values())])
        record.comparison = compare(record.figures)
        record.charts = charts(record.figures)
        path = record.write(args.out)
        progress.step(f"noise {noise}, {depth} hidden, {rule}")
    header = ["noise", "hidden layers", "rule", *(f"batch {b}" for b in args.batch_size)]
    say(table(rows, header))
    say(f"written to {path}")


if __name__ == "__main__":
    main()
