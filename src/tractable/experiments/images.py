"""TAGI on images: MNIST with two hidden layers, MNIST and CIFAR-10 with the papers' CNNs.

The networks are those of tables 4 and 5 of Nguyen & Goulet, "Analytically tractable
hidden-states inference in Bayesian neural networks"; classes are coded on the published binary
tree with decisions observed as +1 or -1.  Pixels are standardised by the mean and deviation of
the training set.

    python -m tractable.experiments.images mnist-fnn
    python -m tractable.experiments.images mnist-cnn
    python -m tractable.experiments.images cifar-cnn --quick
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

import tractable as tr
from tractable.data import Augmented, ImageData, cifar10, mnist
from tractable.experiments import options
from tractable.experiments.calibration import of_classes
from tractable.experiments.progress import Countdown, say
from tractable.experiments.record import Record, table
from tractable.report.results import Chart, Comparison
from tractable.training.callbacks import EpochRecord as Epoch


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
    published: float
    sigma: float = 0.1
    augment: int | None = None


def mnist_fnn() -> nn.Module:
    """Two hidden layers of 800 units."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 800),
        nn.ReLU(),
        nn.Linear(800, 800),
        nn.ReLU(),
        nn.Linear(800, 11),
    )


def mnist_cnn() -> nn.Module:
    """Table 4; pooling is average pooling."""
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
    """Table 5."""
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


TASKS = {
    "mnist-fnn": Task(mnist, mnist_fnn, epochs=20, batch_size=64, published=1.5),
    "mnist-cnn": Task(mnist, mnist_cnn, epochs=20, batch_size=32, published=0.64),
    "cifar-cnn": Task(
        cifar10, cifar_cnn, epochs=34, batch_size=32, published=22.0, sigma=0.3, augment=2
    ),
}


def standardized(data: ImageData) -> tuple[Tensor, Tensor]:
    """Training and test images with zero mean and unit deviation per channel of the former."""
    mean = data.train_images.mean((0, 2, 3), keepdim=True)
    std = data.train_images.std((0, 2, 3), keepdim=True)
    return (data.train_images - mean) / std, (data.test_images - mean) / std


def learner(task: Task, sigma: float, gain: float, forget: float, seed: int) -> tr.TAGI:
    """The untrained model of a task."""
    likelihood = tr.likelihoods.Categorical(10, tree="published", link="normal", sigma=sigma)
    return tr.TAGI(task.net(), likelihood, gain=gain, forget=forget, seed=seed)


def charts(history: list[Epoch]) -> list[Chart]:
    """Test error and negative log-likelihood over epochs."""
    epochs = [e["epoch"] for e in history]
    error, nll = ([e[key] for e in history] for key in ("error", "nll"))
    return [
        Chart("Test error by epoch", "epoch", "error [%]", {"TAGI": (epochs, error)}),
        Chart("Test NLL by epoch", "epoch", "negative log-likelihood", {"TAGI": (epochs, nll)}),
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Train, test after every epoch, write the result; a checkpoint allows to resume."""
    parser = options.parser("images", __doc__, resume=True)
    parser.add_argument("task", choices=sorted(TASKS))
    parser.add_argument("--epochs", type=int, help="passes over the training set")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--sigma", type=float, help="noise of the +-1 decisions")
    parser.add_argument("--gain", type=float, default=0.25, help="factor on the prior variances")
    parser.add_argument("--forget", type=float, default=0.3)
    parser.add_argument(
        "--augment", type=int, help="mirror images and shift them by up to so many pixels; -1: not"
    )
    parser.add_argument("--validate", type=int, help="test on so many held-out training images")
    parser.add_argument("--rows", type=int, help="train on the first rows only")
    parser.add_argument("--test-rows", type=int, help="test on the first rows only")
    parser.add_argument("--model", type=Path, help="checkpoint, by default TASK.tr in the folder")
    quick = {"epochs": 2, "rows": 3000, "test_rows": 2000}
    args = options.parse(parser, argv, quick, name=lambda args: args.task)
    task = TASKS[args.task]
    epochs, batch_size = args.epochs or task.epochs, args.batch_size or task.batch_size
    sigma = task.sigma if args.sigma is None else args.sigma
    shift = task.augment if args.augment is None else args.augment
    augment = None if shift is None or shift < 0 else shift
    chosen = options.settings(args, "task", "model")
    chosen |= {"epochs": epochs, "batch_size": batch_size, "sigma": sigma, "augment": augment}
    record = Record(args.task, seeds=[args.seed], settings=chosen, argv=argv)
    data = task.data()
    train, test = standardized(data)
    rows, test_rows = slice(args.rows), slice(args.test_rows)
    test, labels = test[test_rows], data.test_labels[test_rows]
    x, y = train[rows], data.train_labels[rows]
    if args.validate:
        parts = [len(x) - args.validate, args.validate]
        (x, test), (y, labels) = x.split(parts), y.split(parts)
    model = learner(task, sigma, args.gain, args.forget, args.seed)
    path = args.model or args.out / f"{args.task}.tr"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not args.resume:
        path.unlink(missing_ok=True)
    countdown: Countdown | None = None

    def score(learner: tr.Learner, record: Epoch) -> None:
        nonlocal countdown
        done = int(record["epoch"]) - 1
        countdown = countdown or Countdown(epochs, "epochs", done, spent=record["seconds"])
        predictive = learner.predict(test)
        record["error"] = 100 * tr.metrics.error_rate(predictive, labels)
        record["nll"] = -predictive.log_prob(labels).mean().item()
        countdown.step(
            f"error {record['error']:.2f} %, NLL {record['nll']:.4f}, {record['seconds']:.0f} s"
        )

    plan = {"epochs": epochs, "callbacks": [score, tr.Checkpoint(path)], "resume": path}
    if augment is None:
        model.fit(x, y, batch_size=batch_size, **plan)
    else:
        model.fit(Augmented(x, y, shift=augment, seed=args.seed).batches(batch_size), **plan)
    last = model.history[-1]
    record.figures = {
        "test_error_percent": round(last["error"], 3),
        "test_nll": round(last["nll"], 5),
        "published_error_percent": task.published,
        "error_by_epoch": [round(e["error"], 3) for e in model.history],
        "seconds_per_epoch": round(sum(e["seconds"] for e in model.history) / epochs, 1),
    }
    record.comparison = [
        Comparison(
            "test error", task.published, last["error"], "%", better="smaller", learner="TAGI"
        )
    ]
    record.charts = charts(model.history)
    record.calibration = of_classes({"TAGI": tr.metrics.reliability(model.predict(test), labels)})
    written = record.write(args.out)
    ours = f"{last['error']:.2f} %"
    say(table([[args.task, f"{task.published} %", ours]], ["task", "published", "ours"]))
    say(f"written to {written}")


if __name__ == "__main__":
    main()
