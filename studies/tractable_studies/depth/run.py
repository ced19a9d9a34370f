"""Networks of 1 to 20 layers: TAGI with its defaults compared with Adam.

Classes of scikit-learn's digits (or of 10,000 images of MNIST), three seeds; the rate of Adam is
the best of three on validation rows, for each network.  TAGI has nothing to choose.

    python -m tractable_studies.depth.run
    python -m tractable_studies.depth.run --data mnist --depths 7 --kinds mlp-plain conv-batch
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor

import tractable as tr
from tractable.cli.output import print_line, print_table
from tractable.data import mnist
from tractable.likelihoods import Categorical, Softmax
from tractable.report.results import Comparison
from tractable_studies.depth import STUDY
from tractable_studies.depth.nets import NAMES, network
from tractable_studies.framework.options import StudyOptions, option, parse, seed_option, settings
from tractable_studies.framework.progress import PartsProgress
from tractable_studies.framework.record import RunRecord

CLASSES = 10
RATES = (1e-3, 3e-3, 1e-2)
BATCH = 16
Rows = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Sets:
    """Training, validation and test rows."""

    train: Rows
    validation: Rows
    test: Rows

    @classmethod
    def of(cls, name: str, seed: int) -> Sets:
        """Return standardized images of one channel, split with ``seed``."""
        images, labels, sizes = digits() if name == "digits" else mnist_rows()
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(images), generator=generator)[: sum(sizes)]
        x, y = images[order], labels[order]
        seen = x[: sizes[0]]
        x = (x - seen.mean()) / seen.std()
        pairs = zip(x.split(list(sizes)), y.split(list(sizes)), strict=True)
        return cls(*pairs)


def digits() -> tuple[Tensor, Tensor, tuple[int, int, int]]:
    """Return 1,797 images of 8 x 8 pixels."""
    found = load_digits()
    images = torch.tensor(found.images, dtype=torch.float32).unsqueeze(1)
    return images, torch.tensor(found.target), (1100, 300, 397)


def mnist_rows() -> tuple[Tensor, Tensor, tuple[int, int, int]]:
    """Return 10,000 training images of MNIST, pooled to 14 x 14 pixels."""
    data = mnist()
    images = torch.nn.functional.avg_pool2d(data.train_images, 2)
    return images, data.train_labels, (7000, 1000, 2000)


def tagi(name: str, depth: int, sets: Sets, epochs: int, seed: int) -> tr.Learner:
    """Return TAGI with its default options."""
    likelihood = Categorical(CLASSES)
    net = network(name, depth, sets.train[0].shape[-1], likelihood.outputs)
    model = tr.TAGI(net, likelihood, seed=seed)
    return model.fit(*sets.train, epochs=epochs, batch_size=BATCH, distance_aware=False)


def adam(name: str, depth: int, sets: Sets, epochs: int, seed: int, rate: float) -> tr.Learner:
    """Return Adam with torch's default initialization and a cosine schedule to zero."""
    net = network(name, depth, sets.train[0].shape[-1], CLASSES)
    model = tr.Backprop(net, Softmax(CLASSES), lr=rate, seed=seed)
    return model.fit(*sets.train, epochs=epochs, batch_size=BATCH, distance_aware=False)


def score(model: tr.Learner, rows: Rows) -> dict[str, float]:
    """Return error rate and negative log-likelihood."""
    predictive = model.predict(rows[0])
    return {
        "error": tr.metrics.error_rate(predictive, rows[1]),
        "nll": tr.metrics.nll(predictive, rows[1]),
    }


def best_rate(name: str, depth: int, sets: Sets, epochs: int, seed: int) -> float:
    """Return the learning rate with the lowest validation error, then NLL."""

    def loss(rate: float) -> tuple[float, float]:
        found = score(adam(name, depth, sets, epochs, seed, rate), sets.validation)
        return found["error"], found["nll"]

    return min(RATES, key=loss)


def both(name: str, depth: int, options: Options) -> dict[str, Any]:
    """Return means over seeds for both learners, and the selected learning rate."""
    runs: dict[str, list[dict[str, float]]] = {"TAGI": [], "Adam": []}
    rate = 0.0
    for seed in options.seed:
        sets = Sets.of(options.data, seed)
        if not rate:
            rate = best_rate(name, depth, sets, options.epochs, seed)
        runs["TAGI"].append(score(tagi(name, depth, sets, options.epochs, seed), sets.test))
        model = adam(name, depth, sets, options.epochs, seed, rate)
        runs["Adam"].append(score(model, sets.test))
    means = {
        learner: {key: _mean([one[key] for one in found]) for key in ("error", "nll")}
        for learner, found in runs.items()
    }
    return {**means, "rate": rate, "errors": {k: [r["error"] for r in v] for k, v in runs.items()}}


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: networks, data and seeds."""

    seed: list[int] = seed_option([0, 1, 2], quick=[0])
    data: str = option("digits", "images", choices=("digits", "mnist"))
    depths: list[int] = option([1, 3, 7, 20], "hidden layers", quick=[3], min_value=1)
    kinds: list[str] = option(list(NAMES), "networks", choices=NAMES, quick=["mlp-plain"])
    epochs: int = option(8, "number of epochs of every learner", quick=2, min_value=1)


def compare(name: str, depth: int, found: dict[str, Any]) -> list[Comparison]:
    """Compare TAGI with Adam, which takes the place of published results."""
    return [
        Comparison(
            f"{name}, {depth} layers, {key}", found["Adam"][key], found["TAGI"][key],
            better="smaller", learner="TAGI", measure=f"{name}, {depth} layers",
        )
        for key in ("error", "nll")
    ]  # fmt: skip


def main(argv: Sequence[str] | None = None) -> Path:
    """Run every network and print one table; the file is written after each network."""
    options = parse(Options, STUDY, argv, __doc__)
    record = RunRecord(STUDY, seeds=options.seed, settings=settings(options), argv=argv)
    record.notes += _NOTES
    todo = [(name, depth) for depth in options.depths for name in options.kinds]
    lines = []
    path = options.out
    with PartsProgress(len(todo), "networks") as parts:
        for name, depth in todo:
            found = both(name, depth, options)
            record.metrics[f"{name}, {depth}"] = found
            record.comparison += compare(name, depth, found)
            pairs = [f"{found[who]['error']:.3f} / {found[who]['nll']:.3f}" for who in _LEARNERS]
            lines.append([name, str(depth), *pairs, f"{found['rate']:g}"])
            parts.step(f"{name}, {depth} layers: TAGI {pairs[0]}, Adam {pairs[1]}")
            path = record.write(options.out)
    print_table(["network", "layers", "TAGI error / NLL", "Adam error / NLL", "its rate"], lines)
    print_line(f"written to {path}")
    return path


_LEARNERS = ("TAGI", "Adam")


def _mean(values: list[float]) -> float:
    return float(f"{sum(values) / len(values):.4g}")


_NOTES = [
    "In the table of comparisons, 'paper' is Adam from torch's own first weights, with the best "
    f"of the rates {', '.join(map(str, RATES))} on validation rows of the first seed.",
    "Each seed has its own random split of the rows, the same for both learners.",
]


if __name__ == "__main__":
    main()
