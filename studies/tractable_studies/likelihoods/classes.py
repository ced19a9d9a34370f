"""Calibration of the default classifier and of a network with a fitted temperature.

The tables are the first five of those that the study ``tables`` keeps for reporting: defaults were
chosen on others (but see its page: two changes of defaults were made with these in view as well).
MNIST is there for its 10,000 test rows: a calibration error of one per cent cannot be seen on 200.

The network is ``Backprop`` with Adam and a softmax, whose temperature suits held-out training rows
(Guo et al. 2017), as the noise of a decision of ``TAGIClassifier`` does.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

import tractable as tr
from tractable import metrics
from tractable.data import mnist
from tractable.likelihoods import Categorical, Softmax
from tractable.predictive import Predictive
from tractable.sklearn import TAGIClassifier
from tractable_studies.likelihoods.models import network
from tractable_studies.likelihoods.rows import Task
from tractable_studies.tables import rows as tables

NAMES = ("wine", "glass", "swiss", "mortgages", "frogs")
FOLDS = 3
"""Number of folds used, of the five of every table."""
DIGITS = 3000
"""Number of training images of the default classifier."""


def fold(name: str, seed: int) -> Task:
    """Return one fold of a table with standardized inputs."""
    x, y = tables.rows(name)
    train, test = tables.folds(name, y)[seed % tables.FOLDS]
    scale = x[train].std(0)
    x = (x - x[train].mean(0)) / np.where(scale > 0, scale, 1)
    parts = [torch.tensor(x[part], dtype=torch.float32) for part in (train, test)]
    labels = [torch.tensor(y[part]).long() for part in (train, test)]
    return Task(parts[0], labels[0], parts[1], labels[1])


def digits(rows: int, seed: int) -> Task:
    """Return some training images of MNIST and all test images, flattened."""
    data = mnist()
    generator = torch.Generator().manual_seed(seed)
    some = torch.randperm(len(data.train_labels), generator=generator)[:rows]
    x, x_test = ((t.flatten(1) - 0.13) / 0.31 for t in (data.train_images[some], data.test_images))
    return Task(x, data.train_labels[some], x_test, data.test_labels)


def ours(task: Task, seed: int) -> Predictive:
    """Fit the estimator with its defaults."""
    model = TAGIClassifier(random_state=seed).fit(task.x.numpy(), task.y.numpy())
    return model.predictive(task.x_test.numpy())


def adam(task: Task, seed: int, *, temperature: bool) -> Predictive:
    """Fit a network of the same widths with Adam."""
    classes = int(torch.cat([task.y, task.y_test]).max()) + 1
    net = network(task, classes, (64, 64))
    model = tr.Backprop(net, Softmax(classes), lr=1e-3, seed=seed)
    model.fit(
        task.x, task.y, epochs=40, batch_size=32, calibrate=temperature, progress=False,
        distance_aware=False,
    )  # fmt: skip
    return model.predict(task.x_test)


def scored(predictive: Predictive, y: Tensor) -> dict[str, float]:
    """Return NLL, calibration error and accuracy."""
    y = y.to(predictive.probs.device)
    return {
        "nll": metrics.nll(predictive, y),
        "ece": metrics.reliability(predictive, y).ece,
        "accuracy": metrics.accuracy(predictive, y),
    }


def convolutional() -> nn.Module:
    """Return two convolutions and a hidden layer."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 4, padding=1), nn.ReLU(), nn.AvgPool2d(3, 2),
        nn.Conv2d(16, 32, 5), nn.ReLU(), nn.AvgPool2d(3, 2),
        nn.Flatten(), nn.Linear(32 * 4 * 4, 100), nn.ReLU(), nn.Linear(100, 9),
    )  # fmt: skip


def images(rows: int, epochs: int, seed: int) -> dict[str, dict[str, float]]:
    """Fit a convolutional network on MNIST; score it before and after calibration."""
    task = digits(rows, seed)
    x, x_test = (t.reshape(-1, 1, 28, 28) for t in (task.x, task.x_test))
    found = {}
    for name, calibrate in (("as it is", False), ("calibrated", True)):
        model = tr.TAGI(convolutional(), Categorical(10), seed=seed)
        model.fit(
            x, task.y, epochs=epochs, batch_size=16, calibrate=calibrate, progress=False,
            distance_aware=False,
        )  # fmt: skip
        found[name] = scored(model.predict(x_test, batch_size=256), task.y_test)
    return found
