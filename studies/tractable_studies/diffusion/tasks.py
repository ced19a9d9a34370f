"""Data sets of the study, and measures of the quality of generated rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression

from tractable import metrics
from tractable.data import uci

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
TABLES = ("wine", "concrete", "kin8nm")
_FEW = 1_000
CLASSES = 10


@dataclass(frozen=True)
class Task:
    """Training, validation and test rows.

    Attributes:
        train: training rows.
        validation: validation rows, for model selection.
        test: test rows.
        labels: labels of digits for training, validation and test rows.
    """

    train: Array
    validation: Array
    test: Array
    labels: tuple[Labels, ...] | None = None


def table(name: str, most: int, seed: int) -> Task:
    """Return a standardized and dequantized UCI table, target last."""
    data = uci(name)
    rows = torch.cat([data.features, data.targets], 1).double().numpy()
    rng = np.random.default_rng(seed)
    for k in range(rows.shape[1]):
        values = np.unique(rows[:, k])
        if len(values) < _FEW:
            rows[:, k] += np.diff(values).min() * (rng.random(len(rows)) - 0.5)
    train = rng.permutation(data.train_rows[0].numpy())[:most]
    test = rng.permutation(data.test_rows[0].numpy())[:most]
    mean, scale = rows[train].mean(0), rows[train].std(0)
    rows = (rows - mean) / scale
    apart = len(train) // 6
    return Task(rows[train[apart:]], rows[train[:apart]], rows[test])


def digits(most: int, seed: int) -> Task:
    """Return scikit-learn's 8x8 digits with pixels from -1 to 1, dequantized."""
    data = load_digits()
    rng = np.random.default_rng(seed)
    x = (data.data + rng.random(data.data.shape) - 0.5) / 8 - 1
    order = rng.permutation(len(x))
    apart = min(most, 1_300)
    train, test = order[: apart - 200], order[1_300:]
    some = order[apart - 200 : apart]
    labels = tuple(data.target[part].astype(np.int64) for part in (train, some, test))
    return Task(x[train], x[some], x[test], labels)


def judged(task: Task, made: Array, labels: Labels | None, seed: int) -> dict[str, float]:
    """Compare generated rows with test rows.

    Measures: the energy distance, the accuracy of a two-sample classifier, and the test score
    of a model trained on the generated rows: R² of the last column of a table, accuracy on digits.
    """
    apart = metrics.two_sample(task.test, made, epochs=20, seed=seed, progress=False)
    return {
        "energy_distance": metrics.energy_distance(task.test, made, unbiased=True),
        "told_apart": apart.accuracy,
        "auroc": apart.auroc,
        "worth": worth(task, made, labels, seed),
    }


def worth(task: Task, rows: Array, labels: Labels | None, seed: int) -> float:
    """Return the R² or accuracy on test rows of a model trained on the given rows."""
    if labels is None or task.labels is None:
        model = HistGradientBoostingRegressor(random_state=seed).fit(rows[:, :-1], rows[:, -1])
        return float(model.score(task.test[:, :-1], task.test[:, -1]))
    known = LogisticRegression(max_iter=1_000).fit(rows, labels)
    return float(known.score(task.test, task.labels[2]))


def one_hot(labels: Labels) -> Array:
    """Return labels as context variables."""
    return np.eye(CLASSES)[labels]
