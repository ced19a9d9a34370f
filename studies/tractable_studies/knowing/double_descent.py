"""Test error by width on MNIST images with wrong labels: Backprop, TAGI, BBB.

One hidden layer, 1,000 images of 7 x 7 pixels (means of 4 x 4), 20 % of their labels redrawn;
the test labels are true.  At 28 x 28 pixels a network fits all labels before it is wide enough to
distinguish ten digits, and the error only falls.  Pixels, noise and rate were settled on another
draw of images (seed 7, Backprop alone).  The
learners have their defaults but for the rate and the epochs; nothing is chosen on the test images.

    python -m tractable_studies.knowing.double_descent
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import tractable as tr
from tractable.cli.output import print_line
from tractable.data import mnist
from tractable.diagnostics import Capacity, capacity
from tractable.likelihoods import Categorical, Softmax
from tractable.persistence.atomic import write_text
from tractable.report.results import Chart, Comparison
from tractable_studies.framework.options import StudyOptions, option, parse, seed_option, settings
from tractable_studies.framework.record import RunRecord
from tractable_studies.knowing import DOUBLE_DESCENT

PIXELS, DIGITS = 49, 10
RATE = 1e-2
LEARNERS = ("TAGI", "Backprop", "BayesByBackprop")


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options of the study."""

    seed: int = seed_option(0)
    seeds: int = option(2, "fits of each width", quick=1, min_value=1)
    widths: list[int] = option(
        [4, 8, 16, 24, 32, 48, 64, 128, 256, 512], "of the hidden layer", quick=[4, 16, 64],
        min_value=1,
    )  # fmt: skip
    rows: int = option(1000, "images to learn from", quick=200, min_value=20)
    test_rows: int = option(2000, "images to test on", quick=300, min_value=20)
    noise: float = option(0.2, "fraction of the labels that are replaced at random")
    epochs: int = option(200, "number of epochs of the gradient learners", quick=20, min_value=1)
    tagi_epochs: int = option(30, "number of epochs of TAGI", quick=5, min_value=1)
    learners: list[str] = option(list(LEARNERS), "to compare", choices=LEARNERS)


def data(options: Options) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return training images, some with wrong labels, and test images."""
    digits = mnist()
    generator = torch.Generator().manual_seed(options.seed)
    order = torch.randperm(len(digits.train_labels), generator=generator)[: options.rows]
    x, y = pooled(digits.train_images[order]), digits.train_labels[order].clone()
    mean, std = x.mean(), x.std()
    false = torch.randperm(options.rows, generator=generator)[: round(options.noise * options.rows)]
    y[false] = torch.randint(0, DIGITS, (len(false),), generator=generator)
    test = pooled(digits.test_images[: options.test_rows])
    return ((x - mean) / std, y), ((test - mean) / std, digits.test_labels[: options.test_rows])


def pooled(images: Tensor) -> Tensor:
    """Return images of 7 x 7 pixels, flattened."""
    return nn.functional.avg_pool2d(images, 4).flatten(1)


def maker(learner: str) -> Callable[[int, int], Any]:
    """Return a function that makes this learner from width and seed."""
    outputs = DIGITS - 1 if learner == "TAGI" else DIGITS

    def make(width: int, seed: int) -> Any:
        net = nn.Sequential(nn.Linear(PIXELS, width), nn.ReLU(), nn.Linear(width, outputs))
        if learner == "TAGI":
            return tr.TAGI(net, Categorical(DIGITS), seed=seed)
        return getattr(tr, learner)(net, Softmax(DIGITS), lr=RATE, seed=seed)

    return make


def main(argv: Sequence[str] | None = None) -> Path:
    """Run every learner and print its table."""
    options = parse(Options, DOUBLE_DESCENT, argv, __doc__)
    record = RunRecord(DOUBLE_DESCENT, seeds=[options.seed], settings=settings(options), argv=argv)
    train, test = data(options)
    curves: dict[str, Capacity] = {}
    for learner in options.learners:
        extra: dict[str, Any] = {"epochs": options.tagi_epochs}
        if learner != "TAGI":
            extra = {"epochs": options.epochs, "batch_size": 100}
        curves[learner] = capacity(
            maker(learner), options.widths, *train, validation=test, n_seeds=options.seeds,
            seed=options.seed, n_jobs=1, distance_aware=False, **extra,
        )  # fmt: skip
        print_line(f"{learner}\n{curves[learner]}")
        record.metrics[learner] = curves[learner].to_dict() | {
            "peak_ratio": curves[learner].peak_ratio
        }
        options.out.mkdir(parents=True, exist_ok=True)
        write_text(options.out / f"double-descent-{learner}.txt", f"{curves[learner]}\n")
    for kind in ("test_error", "test_nll", "train_error"):
        found = {
            name: ([s.size for s in c.sizes], [getattr(s, kind) for s in c.sizes])
            for name, c in curves.items()
        }
        record.charts.append(Chart(f"{kind.replace('_', ' ')} by width", "width", kind, found))
    for name, c in curves.items():
        widest = c.sizes[-1]
        record.comparison += [
            Comparison("least test error", None, c.best.test_error, better="smaller", learner=name),
            Comparison("peak over the least before it", None, c.peak_ratio, better="smaller",
                       learner=name),
            Comparison("test NLL at the widest", None, widest.test_nll, better="smaller",
                       learner=name),
        ]  # fmt: skip
    record.picture(options.out, drawn(curves), caption="Test and training error by width")
    path = record.write(options.out)
    print_line(f"written to {path}")
    return path


def drawn(curves: dict[str, Capacity]) -> Any:
    """Plot the test error and the error on the noisy training labels, by width."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(9, 3.4), layout="constrained")
    for ax, kind in zip(sheet.subplots(1, 2, sharex=True), ("test", "train"), strict=True):
        for name, curve in curves.items():
            errors = [getattr(size, f"{kind}_error") for size in curve.sizes]
            ax.plot([size.size for size in curve.sizes], errors, "o-", label=name, markersize=3)
        ax.set(xscale="log", xlabel="hidden units", ylabel=f"{kind} error")
    sheet.axes[0].legend(frameon=False)
    return sheet


if __name__ == "__main__":
    main()
