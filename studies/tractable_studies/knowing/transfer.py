"""Transfer learning: the posterior of five digits as the prior for the other five.

A network of two hidden layers of 100 learns the digits 0 to 4; its posterior, with a new head, is
the prior for 5 to 9, of which 10, 100 or 1,000 images are seen.  How much wider the posterior is
made, and the width of the fresh prior, are each the best of four on validation images of other
rows, over all seeds; what is reported is measured once on test images.

    python -m tractable_studies.knowing.transfer
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import tractable as tr
from tractable.cli.output import print_line, print_table
from tractable.data import mnist
from tractable.likelihoods import Categorical, Softmax
from tractable.priors import Normal
from tractable.report.results import Comparison
from tractable_studies.framework.options import StudyOptions, option, parse, seed_option, settings
from tractable_studies.framework.progress import PartsProgress
from tractable_studies.framework.record import RunRecord
from tractable_studies.knowing import TRANSFER

HALF = 5
WIDEN = (1.0, 10.0, 100.0, 1000.0)
FRESH = {"TAGI": (0.06, 0.25, 1.0, 4.0), "BayesByBackprop": (0.05, 0.1, 0.3, 1.0)}
"""Prior gains of TAGI and prior standard deviations of Bayes by Backprop, to choose from."""
Rows = tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: amounts of data and training."""

    seed: list[int] = seed_option([0, 1, 2], quick=[0])
    rows: list[int] = option(
        [10, 100, 1000], "number of rows of the other five digits", quick=[20], min_value=5
    )
    first_rows: int = option(
        5000, "number of rows of the first five digits", quick=300, min_value=20
    )
    first_epochs: int = option(4, "over those", quick=1, min_value=1)
    epochs: int = option(10, "over the rows of the others", quick=2, min_value=1)
    test_rows: int = option(1000, "number of test rows of the others", quick=200, min_value=20)
    learners: list[str] = option(list(FRESH), "to compare", choices=FRESH)


def halves(options: Options) -> tuple[Rows, Rows, Rows]:
    """Return rows of the first five digits, and training and test rows of the others."""
    data = mnist()
    mean, std = data.train_images.mean(), data.train_images.std()
    train = ((data.train_images.flatten(1) - mean) / std, data.train_labels)
    test = ((data.test_images.flatten(1) - mean) / std, data.test_labels)
    low = train[1] < HALF
    first = (train[0][low][: options.first_rows], train[1][low][: options.first_rows])
    others = (train[0][~low], train[1][~low] - HALF)
    held = test[1] >= HALF
    last = (test[0][held][: options.test_rows], test[1][held][: options.test_rows] - HALF)
    return first, others, last


def learner(kind: str, seed: int, **options: Any) -> tr.Learner:
    """Return a learner of five digits with two hidden layers."""
    outputs = HALF - 1 if kind == "TAGI" else HALF
    net = nn.Sequential(
        nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, outputs)
    )
    if kind == "TAGI":
        return tr.TAGI(net, Categorical(HALF), seed=seed, **options)
    return tr.BayesByBackprop(net, Softmax(HALF), seed=seed, init="he", **options)


def begun(kind: str, way: str, strength: float, prior: tr.Posterior, seed: int) -> tr.Learner:
    """Return an untrained learner of the other five digits with the given prior."""
    if way == "posterior":
        return learner(kind, seed, prior=prior, prior_scale=strength, reinit=["4"])
    if kind == "TAGI":
        return learner(kind, seed, gain=strength)
    return learner(kind, seed, prior=Normal(strength))


def score(model: tr.Learner, rows: Rows) -> dict[str, float]:
    """Return error rate and negative log-likelihood."""
    p = model.predict(rows[0])
    return {"error": tr.metrics.error_rate(p, rows[1]), "nll": tr.metrics.nll(p, rows[1])}


def run_all(options: Options, data: tuple[Rows, Rows, Rows]) -> dict[str, Any]:
    """Run all fits: ``[learner][rows][way][strength]`` to scores of every seed."""
    first, others, last = data
    total = len(options.learners) * len(options.seed)
    found: dict[str, Any] = {}
    with PartsProgress(total, "seeds of learners") as parts:
        for kind in options.learners:
            for seed in options.seed:
                base: dict[str, Any] = {} if kind == "TAGI" else {"prior": Normal(0.1)}
                before = learner(kind, seed, **base)
                before.fit(*first, epochs=options.first_epochs, batch_size=32, distance_aware=False)
                order = torch.randperm(
                    len(others[0]), generator=torch.Generator().manual_seed(seed)
                )
                chosen = order[-500:]
                validation = others[0][chosen], others[1][chosen]
                for n in options.rows:
                    few = others[0][order[:n]], others[1][order[:n]]
                    for way, strengths in (("posterior", WIDEN), ("fresh", FRESH[kind])):
                        for strength in strengths:
                            model = begun(kind, way, strength, before.posterior, seed)
                            model.fit(
                                *few, epochs=options.epochs, batch_size=16, distance_aware=False
                            )
                            entry = score(model, last)
                            entry["validation"] = score(model, validation)["nll"]
                            place = found.setdefault(kind, {}).setdefault(str(n), {})
                            place.setdefault(way, {}).setdefault(f"{strength:g}", []).append(entry)
                parts.step(f"{kind}, seed {seed}")
    return found


def best(runs: dict[str, list[dict[str, float]]]) -> tuple[str, list[dict[str, float]]]:
    """Return the strength of lowest validation NLL over the seeds, and its scores."""
    means = {s: sum(r["validation"] for r in group) / len(group) for s, group in runs.items()}
    chosen = min(means, key=lambda s: means[s])
    return chosen, runs[chosen]


def main(argv: Sequence[str] | None = None) -> Path:
    """Run all fits and print one table."""
    options = parse(Options, TRANSFER, argv, __doc__)
    record = RunRecord(TRANSFER, seeds=options.seed, settings=settings(options), argv=argv)
    record.metrics["runs"] = run_all(options, halves(options))
    lines, summary = [], record.metrics.setdefault("chosen", {})
    for kind, sizes in record.metrics["runs"].items():
        for n, ways in sizes.items():
            picked = {way: best(runs) for way, runs in ways.items()}
            fresh = _mean(picked["fresh"][1], "error")
            for way, (strength, runs) in picked.items():
                means = {k: _mean(runs, k) for k in ("error", "nll")}
                summary.setdefault(kind, {}).setdefault(n, {})[way] = means | {"strength": strength}
                cells = [f"{means['error']:.4f}", f"{means['nll']:.3f}"]
                lines.append([kind, n, way, strength, *cells])
                record.comparison.append(
                    Comparison(
                        f"{kind}, {n} images, {way}: error", fresh if way != "fresh" else None,
                        means["error"], better="smaller", learner=f"{kind}, {way}",
                        measure=f"{n} images",
                    )
                )  # fmt: skip
    record.notes.append("In the table, 'paper' is the fresh prior.")
    path = record.write(options.out)
    print_table(["learner", "images", "prior", "strength", "error", "NLL"], lines, right=2)
    print_line(f"written to {path}")
    return path


def _mean(runs: list[dict[str, float]], key: str) -> float:
    return sum(run[key] for run in runs) / len(runs)


if __name__ == "__main__":
    main()
