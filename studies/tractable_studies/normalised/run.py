"""A batch-normalized ResNet and a layer-normalized mixer on CIFAR-10: TAGI and Adam.

Both learners see the same images in the same number of passes.  The rate of Adam is the best of
three on validation images, for each network; TAGI has its defaults.  Digits of MNIST are the
out-of-distribution images, detected by predictive entropy.

    python -m tractable_studies.normalised.run
    python -m tractable_studies.normalised.run --networks resnet --rows 50000 --epochs 30
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

import tractable as tr
from tractable.cli.output import print_line, print_table
from tractable.data import cifar10, mnist
from tractable.likelihoods import Categorical, Softmax
from tractable.predictive import CategoricalPredictive
from tractable.report.results import Comparison
from tractable_studies.framework.options import StudyOptions, option, parse, seed_option, settings
from tractable_studies.framework.progress import PartsProgress
from tractable_studies.framework.record import RunRecord
from tractable_studies.images.run import cifar_resnet
from tractable_studies.normalised import STUDY
from tractable_studies.normalised.nets import Mixer

CLASSES = 10
RATES = (1e-3, 3e-3, 1e-2)
NETWORKS = ("resnet", "mixer")
LEARNERS = ("TAGI", "Adam")
Rows = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Sets:
    """Training, validation, test and out-of-distribution images."""

    train: Rows
    validation: Rows
    test: Rows
    foreign: Tensor

    @classmethod
    def load(cls, rows: int, validation: int, test: int) -> Sets:
        """Load the first training images, the last ones for validation, and test images."""
        data, digits = cifar10(), mnist().test_images[:test]
        mean = data.train_images.mean((0, 2, 3), keepdim=True)
        std = data.train_images.std((0, 2, 3), keepdim=True)

        def part(images: Tensor) -> Tensor:
            return (images - mean) / std

        return cls(
            (part(data.train_images[:rows]), data.train_labels[:rows]),
            (part(data.train_images[-validation:]), data.train_labels[-validation:]),
            (part(data.test_images[:test]), data.test_labels[:test]),
            part(F.pad(digits, (2, 2, 2, 2)).expand(-1, 3, -1, -1)),
        )


def network(name: str, outputs: int) -> nn.Module:
    """Return a network by name and number of outputs."""
    if name == "mixer":
        return Mixer(outputs)
    resnet = cifar_resnet()
    assert isinstance(resnet, nn.Sequential)
    head = resnet[-1]
    assert isinstance(head, nn.Linear)
    resnet[-1] = nn.Linear(head.in_features, outputs)
    return resnet


def fitted(
    learner: str, name: str, rows: Rows, options: Options, seed: int, rate: float
) -> tr.Learner:
    """Fit TAGI with its defaults on the published tree, or Adam with a cosine to zero."""
    if learner == "TAGI":
        likelihood = Categorical(CLASSES, tree="published")
        model: tr.Learner = tr.TAGI(
            network(name, likelihood.outputs), likelihood, seed=seed, compile=options.compile
        )
    else:
        model = tr.Backprop(network(name, CLASSES), Softmax(CLASSES), lr=rate, seed=seed)
    return model.fit(
        *rows, epochs=options.epochs, batch_size=options.batch_size, distance_aware=False
    )


def score(model: tr.Learner, sets: Sets) -> dict[str, float]:
    """Return error, NLL and calibration on test images, and the AUROC of the entropy."""
    own, foreign = model.predict(sets.test[0]), model.predict(sets.foreign)
    assert isinstance(own, CategoricalPredictive)
    assert isinstance(foreign, CategoricalPredictive)
    entropies = [p.entropy for p in (own, foreign)]
    strange = torch.cat([torch.full((len(e),), k) for k, e in enumerate(entropies)])
    return {
        "error": tr.metrics.error_rate(own, sets.test[1]),
        "nll": tr.metrics.nll(own, sets.test[1]),
        "ece": tr.metrics.ece(own, sets.test[1]),
        "auroc": float(roc_auc_score(strange, torch.cat(entropies))),
    }


def best_of_rates(name: str, sets: Sets, options: Options) -> tuple[float, tr.Learner]:
    """Return the learning rate of lowest validation error, and Adam fitted with it."""
    found: dict[float, tuple[float, tr.Learner]] = {}
    for rate in RATES:
        model = fitted("Adam", name, sets.train, options, options.seed[0], rate)
        error = tr.metrics.error_rate(model.predict(sets.validation[0]), sets.validation[1])
        found[rate] = error, model
    best = min(RATES, key=lambda rate: found[rate][0])
    return best, found[best][1]


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: networks and amounts of data and training."""

    seed: list[int] = seed_option([0, 1, 2], quick=[0])
    networks: list[str] = option(list(NETWORKS), "to learn", choices=NETWORKS)
    epochs: int = option(10, "number of epochs of every learner", quick=1, min_value=1)
    batch_size: int = option(32, "images per step", min_value=1)
    rows: int = option(50_000 - 2000, "images to learn from", quick=500, min_value=10)
    validation: int = option(2000, "images to choose the rate on", quick=200, min_value=10)
    test_rows: int = option(10_000, "images to test on", quick=500, min_value=10)
    compile: bool = option(False, "compile TAGI's step: minutes once, then two thirds of the time")


def run_network(name: str, sets: Sets, options: Options, parts: PartsProgress) -> dict[str, Any]:
    """Return means over seeds for both learners."""
    rate, first = best_of_rates(name, sets, options)
    found: dict[str, Any] = {"rate": rate}
    for learner in LEARNERS:
        runs = []
        for seed in options.seed:
            known = learner == "Adam" and seed == options.seed[0]
            model = first if known else fitted(learner, name, sets.train, options, seed, rate)
            runs.append(score(model, sets))
            parts.step(f"{name}, {learner}: error {runs[-1]['error']:.3f}")
        found[learner] = {key: _mean([run[key] for run in runs]) for key in runs[0]}
    return found


def main(argv: Sequence[str] | None = None) -> Path:
    """Run every network and print one table; the file is written after each network."""
    options = parse(Options, STUDY, argv, __doc__)
    record = RunRecord(STUDY, seeds=options.seed, settings=settings(options), argv=argv)
    record.notes += _NOTES
    sets = Sets.load(options.rows, options.validation, options.test_rows)
    lines, path = [], options.out
    with PartsProgress(len(options.networks) * len(LEARNERS) * len(options.seed), "fits") as parts:
        for name in options.networks:
            found = record.metrics[name] = run_network(name, sets, options, parts)
            record.comparison += [
                Comparison(
                    f"{name}, {key}", found["Adam"][key], found["TAGI"][key],
                    better="larger" if key == "auroc" else "smaller", learner="TAGI", measure=name,
                )
                for key in found["TAGI"]
            ]  # fmt: skip
            for who in LEARNERS:
                lines.append([name, who, *(f"{value:.3f}" for value in found[who].values())])
            path = record.write(options.out)
    print_table(["network", "learner", "error", "NLL", "ECE", "AUROC of MNIST"], lines)
    print_line(f"written to {path}")
    return path


def _mean(values: list[float]) -> float:
    return float(f"{sum(values) / len(values):.4g}")


_NOTES = [
    "In the table of comparisons, 'paper' is Adam from torch's own first weights, with the best "
    f"of the rates {', '.join(map(str, RATES))} on validation images of the first seed.",
    "AUROC: digits of MNIST against test images of CIFAR-10, by the entropy of a prediction.",
]


if __name__ == "__main__":
    main()
