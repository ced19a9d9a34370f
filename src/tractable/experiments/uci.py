"""The seven UCI regression sets with their published splits, one untuned recipe for all.

Two hidden layers of 50 ReLU units; inputs and targets standardised on the training rows; the
noise inferred along with the weights and its scale fitted on held-out rows; everything else as
``TAGI`` has it.  Published figures: Goulet, Nguyen & Amiri (2021), one hidden layer of 50 (100
for Protein), noise chosen per set by cross-validation.

    python -m tractable.experiments.uci
    python -m tractable.experiments.uci --sets boston energy --splits 5
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

import tractable as tr
from tractable.data import Standardizer, uci
from tractable.experiments.record import Record, table

PUBLISHED = {
    "boston": (3.15, -2.58),
    "concrete": (5.87, -3.20),
    "energy": (1.32, -1.81),
    "kin8nm": (0.095, 0.89),
    "naval": (0.007, 3.54),
    "protein": (4.62, -2.95),
    "wine": (0.64, -0.98),
}

HEADER = ["set", "published RMSE / LL", "ours", "90 % covers", "per split"]


def run_split(name: str, split: int) -> dict[str, float]:
    """Train on one split and measure on its test rows, in the units of the data."""
    x, y, x_test, y_test = uci(name).split(split)
    inputs, targets = Standardizer.fit(x), Standardizer.fit(y)
    net = nn.Sequential(
        nn.Linear(x.shape[1], 50), nn.ReLU(), nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 1)
    )
    model = tr.TAGI(net, tr.likelihoods.Normal(), seed=split)
    started = time.perf_counter()
    model.fit(inputs.transform(x), targets.transform(y), calibrate=True, progress=False)
    seconds = time.perf_counter() - started
    standardized = model.predict(inputs.transform(x_test))
    assert isinstance(standardized, tr.NormalPredictive)
    predictive = standardized.rescaled(targets.mean.float(), targets.scale.float())
    low, high = predictive.interval(0.9)
    return {
        "rmse": (predictive.mean - y_test).square().mean().sqrt().item(),
        "log_likelihood": predictive.log_prob(y_test).mean().item(),
        "coverage": ((y_test > low) & (y_test < high)).double().mean().item(),
        "seconds": seconds,
    }


def summary(splits: list[dict[str, float]]) -> dict[str, float]:
    """Means over splits, and the standard errors of error and log-likelihood."""
    columns = {key: torch.tensor([s[key] for s in splits]).double() for key in splits[0]}
    figures = {key: column.mean().item() for key, column in columns.items()}
    if len(splits) > 1:
        for key in ("rmse", "log_likelihood"):
            error = columns[key].std() / len(splits) ** 0.5
            figures[f"{key}_standard_error"] = error.item()
    return {key: float(f"{value:.4g}") for key, value in figures.items()}


def main() -> None:
    """Run the sets that are asked for, one split after the other; finished splits are kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sets", nargs="+", choices=list(PUBLISHED), default=list(PUBLISHED))
    parser.add_argument("--splits", type=int, help="the first splits only")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--name", default="uci", help="name of the result file")
    parser.add_argument("--resume", type=Path, help="file for finished splits; read if it exists")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    record = Record(args.name, seeds=[0], settings={"splits": args.splits, "seed": "split number"})
    done: dict[str, list[dict[str, float]]] = {}
    if args.resume is not None and args.resume.is_file():
        done = json.loads(args.resume.read_text())
        record.earlier = sum(s["seconds"] for splits in done.values() for s in splits)
    rows = []
    for name in args.sets:
        splits = done.setdefault(name, [])
        count = min(args.splits or 100, uci(name).n_splits)
        while len(splits) < count:
            splits.append(run_split(name, len(splits)))
            if args.resume is not None:
                args.resume.write_text(json.dumps(done))
        figures: dict[str, Any] = summary(splits[:count])
        published = PUBLISHED[name]
        record.figures[name] = {"splits": count, **figures, "published": published}
        rows.append(
            [
                name,
                f"{published[0]} / {published[1]}",
                f"{figures['rmse']:.4g} / {figures['log_likelihood']:.3g}",
                f"{figures['coverage']:.1%}",
                f"{figures['seconds']:.1f} s",
            ]
        )
        print(table(rows[-1:], HEADER), flush=True)
        record.write(args.out)
    print()
    print(table(rows, HEADER))


if __name__ == "__main__":
    main()
