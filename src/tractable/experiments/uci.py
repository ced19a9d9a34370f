"""The seven UCI regression sets with their published splits, one untuned recipe for all.

Two hidden layers of 50 ReLU units; inputs and targets standardised on the training rows; the
noise inferred along with the weights and its scale fitted on held-out rows; everything else as
``TAGIRegressor`` has it.  Published figures: Goulet, Nguyen & Amiri (2021), one hidden layer of 50
(100 for Protein), noise chosen per set by cross-validation.

    python -m tractable.experiments.uci
    python -m tractable.experiments.uci --sets boston energy --splits 5

Finished splits are kept in ``uci-splits.json`` in the folder, and not computed again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import torch

from tractable.data import uci
from tractable.experiments import options
from tractable.experiments.calibration import LEVELS, covered, of_intervals
from tractable.experiments.progress import Countdown, say
from tractable.experiments.record import Record, table
from tractable.report.files import write_text
from tractable.report.results import Comparison
from tractable.sklearn import TAGIRegressor

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


def run_split(name: str, split: int, epochs: int | None = None, seed: int = 0) -> dict[str, float]:
    """Train on one split and measure on its test rows, in the units of the data."""
    x, y, x_test, y_test = uci(name).split(split)
    model = TAGIRegressor(
        hidden=(50, 50), epochs=epochs, calibrate="refit", random_state=seed + split
    )
    started = time.perf_counter()
    model.fit(x.numpy(), y.numpy())
    seconds = time.perf_counter() - started
    predictive = model.predict_distribution(x_test.numpy())
    shares = covered(predictive, y_test)
    return {
        "rmse": (predictive.mean - y_test).square().mean().sqrt().item(),
        "log_likelihood": predictive.log_prob(y_test).mean().item(),
        "coverage": shares[LEVELS.index(0.9)],
        "seconds": seconds,
        **{f"coverage_{level}": share for level, share in zip(LEVELS, shares, strict=True)},
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


def compare(figures: dict[str, Any]) -> list[Comparison]:
    """RMSE and log-likelihood of every set beside the published ones."""
    rows = []
    for name, found in figures.items():
        for key, paper, better in zip(
            ("rmse", "log_likelihood"), found["published"], ("smaller", "larger"), strict=True
        ):
            rows.append(
                Comparison(
                    f"{name}, {'RMSE' if key == 'rmse' else 'log-likelihood'}",
                    paper,
                    found[key],
                    better=better,  # type: ignore[arg-type]
                    spread=found.get(f"{key}_standard_error"),
                    learner="TAGI",
                )
            )
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    """Run the sets that are asked for, one split after the other; finished splits are kept."""
    parser = options.parser("uci", __doc__, resume=True)
    parser.add_argument("--sets", nargs="+", choices=list(PUBLISHED), default=list(PUBLISHED))
    parser.add_argument("--splits", type=int, help="the first splits only")
    parser.add_argument("--epochs", type=int, help="passes; by default as many as TAGI chooses")
    quick = {"sets": ["boston", "concrete", "energy", "wine"], "splits": 2, "epochs": 20}
    args = options.parse(parser, argv, quick)
    record = Record("uci", seeds=[args.seed], settings=options.settings(args), argv=argv)
    record.notes.append(
        "The seed of a split is --seed plus its number. Spread: standard error over splits."
    )
    kept = args.out / "uci-splits.json"
    done: dict[str, list[dict[str, float]]] = {}
    if args.resume and kept.is_file():
        earlier = json.loads(kept.read_text())
        if earlier["epochs"] == args.epochs and earlier["seed"] == args.seed:
            done = earlier["splits"]
            record.earlier = sum(s["seconds"] for splits in done.values() for s in splits)
    counts = {name: min(args.splits or 100, uci(name).n_splits) for name in args.sets}
    ready = sum(min(len(done.get(name, [])), count) for name, count in counts.items())
    progress = Countdown(sum(counts.values()), "splits", ready)
    args.out.mkdir(parents=True, exist_ok=True)
    rows, shares = [], {}
    for name, count in counts.items():
        splits = done.setdefault(name, [])
        while len(splits) < count:
            splits.append(run_split(name, len(splits), args.epochs, args.seed))
            state = {"epochs": args.epochs, "seed": args.seed, "splits": done}
            write_text(kept, json.dumps(state))
            progress.step(f"{name}, split {len(splits)}: RMSE {splits[-1]['rmse']:.4g}")
        figures: dict[str, Any] = summary(splits[:count])
        published = PUBLISHED[name]
        record.figures[name] = {"splits": count, **figures, "published": list(published)}
        shares[name] = [figures[f"coverage_{level}"] for level in LEVELS]
        record.comparison = compare(record.figures)
        record.calibration = of_intervals(shares)
        rows.append(
            [
                name,
                f"{published[0]} / {published[1]}",
                f"{figures['rmse']:.4g} / {figures['log_likelihood']:.3g}",
                f"{figures['coverage']:.1%}",
                f"{figures['seconds']:.1f} s",
            ]
        )
        path = record.write(args.out)
    say(table(rows, HEADER))
    say(f"written to {path}")


if __name__ == "__main__":
    main()
