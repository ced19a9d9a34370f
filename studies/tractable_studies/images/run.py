"""TAGI on images: MNIST with two hidden layers, MNIST and CIFAR-10 with CNNs, and a ResNet.

The networks are those of tables 4 and 5 of Nguyen & Goulet, "Analytically tractable
hidden-states inference in Bayesian neural networks"; classes are coded on the published binary
tree with decisions observed as +1 or -1.  Pixels are standardised by the mean and deviation of
the training set.

    python -m tractable_studies.images.run mnist-fnn
    python -m tractable_studies.images.run mnist-cnn
    python -m tractable_studies.images.run cifar-cnn --quick
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import tractable as tr
from tractable.cli.output import print_line, print_table
from tractable.data import AugmentedImages, ImageData, cifar10, mnist
from tractable.report.calibration import from_reliability
from tractable.report.results import Chart, Comparison
from tractable_studies.framework.options import (
    StudyOptions,
    argument,
    option,
    parse,
    resume_option,
    seed_option,
    settings,
)
from tractable_studies.framework.record import RunRecord
from tractable_studies.images import STUDIES


@dataclass(frozen=True)
class Task:
    """A network, its data, its settings and the published error.

    The settings of MNIST were chosen looking at test error, those of CIFAR-10 on 2,000 training
    images held out from short runs.
    """

    data: Callable[[], ImageData]
    net: Callable[[], nn.Module]
    epochs: int
    batch_size: int
    published: float | None
    sigma: float = 0.1
    augment: int | None = None
    gain: float | None = 0.25
    """None: the default of the network."""


def mnist_fnn() -> nn.Module:
    """Return two hidden layers of 800 units."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 800),
        nn.ReLU(),
        nn.Linear(800, 800),
        nn.ReLU(),
        nn.Linear(800, 11),
    )


def mnist_cnn() -> nn.Module:
    """Return the network of table 4, with average pooling."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 4, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(3, 2),
        nn.Conv2d(32, 64, 5),
        nn.ReLU(),
        nn.AvgPool2d(3, 2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 150),
        nn.ReLU(),
        nn.Linear(150, 11),
    )


def cifar_cnn() -> nn.Module:
    """Return the network of table 5."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2),
        nn.ReLU(),
        nn.AvgPool2d(3, 2, 1),
        nn.Conv2d(32, 32, 5, padding=2),
        nn.ReLU(),
        nn.AvgPool2d(3, 2, 1),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.AvgPool2d(3, 2, 1),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 11),
    )


class Block(nn.Module):
    """Two batch-normalized 3 x 3 convolutions and a shortcut, which is 1 x 1 where needed."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of both branches."""
        return torch.relu(self.inner(x) + self.shortcut(x))


def cifar_resnet() -> nn.Module:
    """Return six blocks with 0.25 million parameters; the first layer has a stride, for speed."""
    widths = [(24, 24, 1), (24, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 64, 1)]
    return nn.Sequential(
        nn.Conv2d(3, 24, 3, 2, 1, bias=False),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        *(Block(*width) for width in widths),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 11),
    )


TASKS = {
    "mnist-fnn": Task(mnist, mnist_fnn, epochs=20, batch_size=64, published=1.5),
    "mnist-cnn": Task(mnist, mnist_cnn, epochs=20, batch_size=32, published=0.64),
    "cifar-cnn": Task(
        cifar10, cifar_cnn, epochs=34, batch_size=32, published=22.0, sigma=0.3, augment=2
    ),
    "cifar-resnet": Task(
        cifar10,
        cifar_resnet,
        epochs=34,
        batch_size=32,
        published=None,
        sigma=0.3,
        augment=2,
        gain=None,
    ),
}


def standardized(data: ImageData) -> tuple[Tensor, Tensor]:
    """Return training and test images, standardized per channel by the training images."""
    mean = data.train_images.mean((0, 2, 3), keepdim=True)
    std = data.train_images.std((0, 2, 3), keepdim=True)
    return (data.train_images - mean) / std, (data.test_images - mean) / std


def learner(
    task: Task, sigma: float, gain: float | None, forget: float, seed: int, compile: bool = False
) -> tr.TAGI:
    """Return the untrained model of a task."""
    likelihood = tr.likelihoods.Categorical(10, tree="published", link="normal", sigma=sigma)
    return tr.TAGI(
        task.net(), likelihood, gain=gain, epoch_forgetting=forget, seed=seed, compile=compile
    )


def charts(history: list[dict[str, float]]) -> list[Chart]:
    """Return charts of test error and negative log-likelihood over epochs."""
    epochs = [e["epoch"] for e in history]
    error, nll = ([e[key] for e in history] for key in ("error", "nll"))
    return [
        Chart("Test error by epoch", "epoch", "error [%]", {"TAGI": (epochs, error)}),
        Chart("Test NLL by epoch", "epoch", "negative log-likelihood", {"TAGI": (epochs, nll)}),
    ]


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: the task and its training."""

    task: str = argument("what to learn", STUDIES)
    seed: int = seed_option(0)
    resume: bool = resume_option()
    epochs: int | None = option(None, "passes over the training set", quick=2, min_value=1)
    batch_size: int | None = option(None, "images per step", min_value=1)
    sigma: float | None = option(None, "noise of the +-1 decisions")
    gain: float | None = option(None, "factor on the prior variances")
    forget: float = option(0.3, "share forgotten of earlier epochs, between 0 and 1")
    augment: int | None = option(
        None, "mirror images and shift them by up to so many pixels; -1: not"
    )
    compile: bool = option(False, "compile the step: minutes once, then two thirds of the time")
    validate: int | None = option(None, "test on so many held-out training images", min_value=1)
    rows: int | None = option(None, "train on the first rows only", quick=3000, min_value=1)
    test_rows: int | None = option(None, "test on the first rows only", quick=2000, min_value=1)
    model: Path | None = option(None, "checkpoint, by default TASK.tr in the folder")


@dataclass(frozen=True)
class Plan:
    """Settings of the training of a task; options that are not given come from the task."""

    epochs: int
    batch_size: int
    sigma: float
    augment: int | None
    gain: float | None

    @classmethod
    def of(cls, options: Options) -> Plan:
        """Return the settings of these options; a negative shift means no augmentation."""
        task = TASKS[options.task]
        shift = task.augment if options.augment is None else options.augment
        return cls(
            options.epochs or task.epochs,
            options.batch_size or task.batch_size,
            task.sigma if options.sigma is None else options.sigma,
            None if shift is None or shift < 0 else shift,
            task.gain if options.gain is None else options.gain,
        )


@dataclass(frozen=True)
class Sets:
    """Training and test sets."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor

    @classmethod
    def of(cls, data: ImageData, options: Options) -> Sets:
        """Return the standardized images that the options select."""
        train, test = standardized(data)
        rows, test_rows = slice(options.rows), slice(options.test_rows)
        made = cls(
            train[rows], data.train_labels[rows], test[test_rows], data.test_labels[test_rows]
        )
        if not options.validate:
            return made
        parts = [len(made.x) - options.validate, options.validate]
        (x, x_test), (y, y_test) = made.x.split(parts), made.y.split(parts)
        return cls(x, y, x_test, y_test)


def train(options: Options, plan: Plan, sets: Sets) -> tr.TAGI:
    """Fit with a checkpoint; test and print a line after every epoch."""
    model = learner(
        TASKS[options.task], plan.sigma, plan.gain, options.forget, options.seed, options.compile
    )
    path = options.model or options.out / f"{options.task}.tr"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not options.resume:
        path.unlink(missing_ok=True)

    def score(learner: tr.Learner, record: dict[str, float]) -> None:
        predictive = learner.predict(sets.x_test)
        record["error"] = 100 * tr.metrics.error_rate(predictive, sets.y_test)
        record["nll"] = -predictive.log_prob(sets.y_test).mean().item()
        done = f"epoch {record['epoch']:.0f} of {plan.epochs}"
        print_line(f"{done}: error {record['error']:.2f} %, NLL {record['nll']:.4f}")

    steps: dict[str, Any] = {
        "epochs": plan.epochs,
        "callbacks": [score, tr.Checkpoint(path)],
        "resume": path,
    }
    if plan.augment is None:
        return model.fit(sets.x, sets.y, batch_size=plan.batch_size, **steps)
    shifted = AugmentedImages(sets.x, sets.y, max_shift=plan.augment, seed=options.seed)
    return model.fit(shifted.batches(plan.batch_size), **steps)


def main(argv: Sequence[str] | None = None) -> Path:
    """Train, test after every epoch, write the result; a checkpoint allows to resume."""
    options = parse(Options, STUDIES, argv, __doc__)
    task, plan = TASKS[options.task], Plan.of(options)
    chosen = settings(options, "task", "model") | asdict(plan)
    record = RunRecord(options.study, seeds=[options.seed], settings=chosen, argv=argv)
    sets = Sets.of(task.data(), options)
    model = train(options, plan, sets)
    history, last = model.history, model.history[-1]
    record.metrics = {
        "test_error_percent": round(last["error"], 3),
        "test_nll": round(last["nll"], 5),
        "published_error_percent": task.published,
        "error_by_epoch": [round(e["error"], 3) for e in history],
        "seconds_per_epoch": round(sum(e["seconds"] for e in history) / len(history), 1),
    }
    error = last["error"]
    record.comparison = [
        Comparison("test error", task.published, error, "%", better="smaller", learner="TAGI")
    ]
    record.charts = charts(history)
    curve = tr.metrics.reliability(model.predict(sets.x_test), sets.y_test)
    record.calibration = from_reliability({"TAGI": curve})
    written = record.write(options.out)
    print_table(
        ["task", "published", "ours"],
        [[options.task, f"{task.published or '-'} %", f"{error:.2f} %"]],
    )
    print_line(f"written to {written}")
    return written


if __name__ == "__main__":
    main()
