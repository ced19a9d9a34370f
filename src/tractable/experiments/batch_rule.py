"""How the batch rules fare over depth and batch size: test RMSE of x^3 - 3x.

The true noise is 0.02 of the target's deviation.  It is inferred along with the weights (the
default of ``Normal()``), or given from the start, which is much harder: a wrong first guess is then
contradicted with great force.  Every network sees the same data for the same number of passes.
``published`` sums messages (with its variances kept positive), ``damped`` scales the step as a
whole; see ``tractable.learners.batch_rule``.

    python -m tractable.experiments.batch_rule
"""

from __future__ import annotations

import argparse
import itertools
import math
from pathlib import Path

import torch
from torch import nn

import tractable as tr
from tractable.experiments.record import Record, table
from tractable.learners.batch_rule import BATCH_RULES
from tractable.learners.tagi import NonFiniteUpdate

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


def main() -> None:
    """Run the grid and write the medians over seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("results"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    seeds = list(range(args.seeds))
    record = Record("batch_rule", seeds=seeds, settings={"epochs": args.epochs, "true_sigma": 0.02})
    rows = []
    for sigma, depth, rule in itertools.product((None, 0.02), DEPTHS, BATCH_RULES):
        noise = "inferred" if sigma is None else "given"
        cells = {}
        for batch_size in BATCHES:
            errors = [run(rule, sigma, depth, batch_size, seed, args.epochs) for seed in seeds]
            middle = torch.tensor(errors).median().item()
            cells[str(batch_size)] = round(middle, 4) if math.isfinite(middle) else "diverged"
        record.figures[f"noise={noise}/depth={depth}/{rule}"] = cells
        rows.append([noise, str(depth), rule, *map(str, cells.values())])
        record.write(args.out)
    print(table(rows, ["noise", "hidden layers", "rule", *(f"batch {b}" for b in BATCHES)]))


if __name__ == "__main__":
    main()
