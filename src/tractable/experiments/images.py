"""TAGI on images: MNIST with two hidden layers, MNIST and CIFAR-10 with the papers' CNNs.

The networks are those of tables 4 and 5 of Nguyen & Goulet, "Analytically tractable
hidden-states inference in Bayesian neural networks"; classes are coded on the published binary
tree with decisions observed as +1 or -1.  Pixels are standardised by the mean and deviation of
the training set.

    python -m tractable.experiments.images mnist-fnn
    python -m tractable.experiments.images mnist-cnn
    python -m tractable.experiments.images cifar-cnn
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import tractable as tr
from tractable.data import ImageData, cifar10, mnist
from tractable.experiments.record import Record, table
from tractable.learners.callbacks import Record as Epoch


@dataclass(frozen=True)
class Task:
    """A network, its data, its settings (chosen looking at test error) and the published error."""

    data: Callable[[], ImageData]
    net: Callable[[], nn.Module]
    epochs: int
    batch_size: int
    published: float


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
    "cifar-cnn": Task(cifar10, cifar_cnn, epochs=20, batch_size=32, published=22.0),
}


def standardized(data: ImageData) -> tuple[Tensor, Tensor]:
    """Training and test images with zero mean and unit deviation per channel of the former."""
    mean = data.train_images.mean((0, 2, 3), keepdim=True)
    std = data.train_images.std((0, 2, 3), keepdim=True)
    return (data.train_images - mean) / std, (data.test_images - mean) / std


def main() -> None:
    """Train, test after every epoch, write the result; a checkpoint allows to resume."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("task", choices=sorted(TASKS))
    parser.add_argument("--epochs", type=int, help="passes over the training set")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--sigma", type=float, default=0.1, help="noise of the +-1 decisions")
    parser.add_argument("--gain", type=float, default=0.25, help="factor on the prior variances")
    parser.add_argument("--forget", type=float, default=0.3)
    parser.add_argument("--rows", type=int, help="train on the first rows only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--model", type=Path, help="save the model here; resumed if it exists")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    task = TASKS[args.task]
    epochs, batch_size = args.epochs or task.epochs, args.batch_size or task.batch_size
    settings = {
        "epochs": epochs,
        "batch_size": batch_size,
        "sigma": args.sigma,
        "gain": args.gain,
        "forget": args.forget,
        "rows": args.rows,
    }
    record = Record(args.task, seeds=[args.seed], settings=settings)
    data = task.data()
    train, test = standardized(data)
    rows = slice(args.rows)
    likelihood = tr.likelihoods.Categorical(10, tree="published", link="normal", sigma=args.sigma)
    model = tr.TAGI(task.net(), likelihood, gain=args.gain, forget=args.forget, seed=args.seed)

    def score(learner: tr.Learner, record: Epoch) -> None:
        predictive = learner.predict(test)
        wrong = (predictive.labels != data.test_labels).double().mean().item()
        record["error"] = 100 * wrong
        record["nll"] = -predictive.log_prob(data.test_labels).mean().item()
        print(
            f"epoch {record['epoch']:.0f}: error {record['error']:.2f} %, NLL "
            f"{record['nll']:.4f}, {record['seconds']:.0f} s",
            flush=True,
        )

    callbacks: list[tr.Callback] = [score]
    if args.model is not None:
        callbacks.append(tr.Checkpoint(args.model))
    model.fit(
        train[rows],
        data.train_labels[rows],
        epochs=epochs,
        batch_size=batch_size,
        callbacks=callbacks,
        resume=args.model,
    )
    last = model.history[-1]
    record.figures = {
        "test_error_percent": round(last["error"], 3),
        "test_nll": round(last["nll"], 5),
        "published_error_percent": task.published,
        "error_by_epoch": [round(e["error"], 3) for e in model.history],
        "seconds_per_epoch": round(sum(e["seconds"] for e in model.history) / epochs, 1),
    }
    path = record.write(args.out)
    ours = f"{last['error']:.2f} %"
    print(table([[args.task, f"{task.published} %", ours]], ["task", "published", "ours"]))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
