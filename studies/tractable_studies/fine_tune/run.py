"""Fine-tuning: five classes of CIFAR-10 by Adam, the other five from few images.

Four ways to learn the other five: TAGI from the trained body with a new head (``init="net"``),
TAGI from nothing, Adam from the trained body with a new head, Adam from nothing.  The rate of Adam
is the best of three on validation images, for each; TAGI has its defaults.

    python -m tractable_studies.fine_tune.run
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import tractable as tr
from tractable.cli.output import print_line, print_table
from tractable.data import cifar10
from tractable.likelihoods import Categorical, Likelihood, Softmax
from tractable.report.results import Comparison
from tractable_studies.fine_tune import STUDY
from tractable_studies.framework.options import StudyOptions, option, parse, seed_option, settings
from tractable_studies.framework.progress import PartsProgress
from tractable_studies.framework.record import RunRecord

HALF = 5
RATES = (3e-4, 1e-3, 3e-3)
VALIDATION = 500
BATCH = 16
WAYS = ("TAGI, trained body", "TAGI, from nothing", "Adam, trained body", "Adam, from nothing")
Rows = tuple[Tensor, Tensor]


def body() -> nn.Sequential:
    """Return four convolutions of stride 2, and a hidden layer."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 24), (24, 48), (48, 64), (64, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, 2, 1), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 4, 64), nn.ReLU())


class Classifier(nn.Module):
    """A body and a linear head."""

    def __init__(self, trunk: nn.Module, outputs: int) -> None:
        super().__init__()
        self.body, self.head = trunk, nn.Linear(64, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of the head."""
        logits: Tensor = self.head(self.body(x))
        return logits


@dataclass(frozen=True)
class Halves:
    """Training and test images of the first five classes and of the other five."""

    first: Rows
    second: Rows
    test: Rows

    @classmethod
    def load(cls) -> Halves:
        """Load CIFAR-10, standardized by its training images."""
        data = cifar10()
        mean = data.train_images.mean((0, 2, 3), keepdim=True)
        std = data.train_images.std((0, 2, 3), keepdim=True)
        train = ((data.train_images - mean) / std, data.train_labels)
        test = ((data.test_images - mean) / std, data.test_labels)
        return cls(_half(train, 0), _half(train, HALF), _half(test, HALF))


def _half(rows: Rows, start: int) -> Rows:
    of_it = (rows[1] >= start) & (rows[1] < start + HALF)
    return rows[0][of_it], rows[1][of_it] - start


def trained(rows: Rows, epochs: int, seed: int) -> nn.Module:
    """Train a network on the first five classes with Adam and return its body."""
    model = tr.Backprop(Classifier(body(), HALF), Softmax(HALF), lr=1e-3, seed=seed)
    model.fit(*rows, epochs=epochs, batch_size=32, distance_aware=False)
    whole = model.mean_module()
    trunk = whole.body
    assert isinstance(trunk, nn.Module)
    return trunk


def fitted(
    way: str, trunk: nn.Module, rows: Rows, epochs: int, seed: int, options: dict[str, Any]
) -> tr.Learner:
    """Fit one method to the other five classes."""
    learner, _, begin = way.partition(", ")
    likelihood: Likelihood = Categorical(HALF) if learner == "TAGI" else Softmax(HALF)
    outputs = HALF - 1 if learner == "TAGI" else HALF
    torch.manual_seed(seed)  # the first weights of Adam's head
    kept = begin == "trained body"
    net = Classifier(copy.deepcopy(trunk) if kept else body(), outputs)
    if kept:
        options = {"init": "net", **options}
    if learner == "TAGI":
        fresh: dict[str, Any] = {"reinit": ["head"]} if kept else {}
        model: tr.Learner = tr.TAGI(net, likelihood, seed=seed, **options, **fresh)
    else:
        model = tr.Backprop(net, likelihood, seed=seed, **options)
    return model.fit(*rows, epochs=epochs, batch_size=BATCH, distance_aware=False)


def score(model: tr.Learner, rows: Rows) -> dict[str, float]:
    """Return error rate and negative log-likelihood."""
    predictive = model.predict(rows[0])
    return {
        "error": tr.metrics.error_rate(predictive, rows[1]),
        "nll": tr.metrics.nll(predictive, rows[1]),
    }


def best(way: str, trunk: nn.Module, sets: list[Rows], epochs: int, seed: int) -> dict[str, Any]:
    """Return the options of a method: for Adam the best learning rate on validation images."""
    if way.startswith("TAGI"):
        return {}

    def loss(rate: float) -> float:
        model = fitted(way, trunk, sets[0], epochs, seed, {"lr": rate})
        return score(model, sets[1])["error"]

    return {"lr": min(RATES, key=loss)}


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: amounts of data and training."""

    seed: list[int] = seed_option([0, 1, 2], quick=[0])
    images: list[int] = option(
        [100, 1000], "number of images of the other five classes", quick=[60], min_value=10
    )
    epochs: int = option(20, "over those", quick=2, min_value=1)
    first_epochs: int = option(6, "over the first five classes", quick=1, min_value=1)
    first_rows: int = option(25000, "images of the first five classes", quick=500, min_value=10)
    test_rows: int = option(5000, "images to test on", quick=200, min_value=10)


def run_all(options: Options, halves: Halves) -> dict[str, Any]:
    """Return means over seeds for every method and number of images."""
    first = tuple(part[: options.first_rows] for part in halves.first)
    test = tuple(part[: options.test_rows] for part in halves.test)
    runs: dict[str, dict[str, list[dict[str, float]]]] = {}
    with PartsProgress(len(options.seed) * len(options.images) * len(WAYS), "fits") as parts:
        for seed in options.seed:
            trunk = trained((first[0], first[1]), options.first_epochs, seed)
            for images in options.images:
                sets = _drawn(halves.second, images, seed)
                for way in WAYS:
                    chosen = best(way, trunk, sets, options.epochs, seed)
                    model = fitted(way, trunk, sets[0], options.epochs, seed, chosen)
                    found = score(model, (test[0], test[1]))
                    runs.setdefault(str(images), {}).setdefault(way, []).append(found | chosen)
                    parts.step(f"{images} images, {way}: error {found['error']:.3f}")
    return runs


def _drawn(rows: Rows, images: int, seed: int) -> list[Rows]:
    """Draw training images, and validation images for the choice of the learning rate."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(rows[0]), generator=generator)
    train, validation = order[:images], order[images : images + VALIDATION]
    return [(rows[0][part], rows[1][part]) for part in (train, validation)]


def main(argv: Sequence[str] | None = None) -> Path:
    """Run all methods and print one table."""
    options = parse(Options, STUDY, argv, __doc__)
    record = RunRecord(STUDY, seeds=options.seed, settings=settings(options), argv=argv)
    record.metrics = run_all(options, Halves.load())
    record.notes += _NOTES
    lines = []
    for images, ways in record.metrics.items():
        means = {way: {k: _mean([run[k] for run in runs]) for k in ("error", "nll")}
                 for way, runs in ways.items()}  # fmt: skip
        lines += [[images, way, f"{m['error']:.3f}", f"{m['nll']:.3f}"] for way, m in means.items()]
        record.comparison += [
            Comparison(
                f"{images} images, error", means["Adam, trained body"]["error"], m["error"],
                better="smaller", learner=way, measure=f"{images} images",
            )
            for way, m in means.items()
        ]  # fmt: skip
    path = record.write(options.out)
    print_table(["images", "way", "error", "NLL"], lines)
    print_line(f"written to {path}")
    return path


def _mean(values: list[float]) -> float:
    return float(f"{sum(values) / len(values):.4g}")


_NOTES = [
    "In the table of comparisons, 'paper' is Adam from the trained body.",
    f"Rates of Adam: the best of {', '.join(map(str, RATES))} on {VALIDATION} validation images.",
]


if __name__ == "__main__":
    main()
