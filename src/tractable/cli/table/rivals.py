"""What to hold a model against: the simplest guess, and a straight line.

Bayesian ridge regression and logistic regression, by scikit-learn with its defaults, on the same
inputs, standardised, missing values filled with their means.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.impute import SimpleImputer
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

Array = npt.NDArray[Any]

_REACH = 1.6448536  # deviations that hold 90 % of a normal


@dataclass(frozen=True)
class Rival:
    """A rival's metrics, by the names that a model's own have."""

    name: str
    metrics: dict[str, float]


def of_numbers(x: Array, y: Array, x_test: Array, y_test: Array) -> list[Rival]:
    """A straight line, and always the mean."""
    ridge = make_pipeline(SimpleImputer(), StandardScaler(), BayesianRidge()).fit(x, y)
    mean, std = ridge.predict(x_test, return_std=True)
    flat = np.full(len(y_test), y.mean())
    return [
        Rival("straight line", _of_normal(mean, std, y_test)),
        Rival("always the mean", _of_normal(flat, np.full(len(y_test), y.std()), y_test)),
    ]


def _of_normal(mean: Array, std: Array, y: Array) -> dict[str, float]:
    std = np.maximum(std, 1e-12 * (1 + np.abs(mean)))
    z = (y - mean) / std
    return {
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "mae": float(np.mean(np.abs(y - mean))),
        "log_density": float(np.mean(-0.5 * z * z - np.log(std)) - 0.5 * math.log(2 * math.pi)),
        "coverage_90": float(np.mean(np.abs(z) <= _REACH)),
        "width_90": float(np.mean(2 * _REACH * std)),
    }


def of_labels(x: Array, y: Array, x_test: Array, y_test: Array) -> list[Rival]:
    """A straight border, and always the shares of the classes."""
    classes, counts = np.unique(y, return_counts=True)
    line = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression(max_iter=1000))
    flat = np.tile(counts / counts.sum(), (len(y_test), 1))
    return [
        Rival("straight border", of_shares(line.fit(x, y).predict_proba(x_test), y_test, classes)),
        Rival("always the shares", of_shares(flat, y_test, classes)),
    ]


def of_shares(probabilities: Array, y: Array, classes: Array) -> dict[str, float]:
    """Metrics of probabilities, columns in the order of the classes."""
    code = {str(label): place for place, label in enumerate(classes)}
    seen = np.array([code[str(label)] for label in y])
    given = probabilities[np.arange(len(y)), seen]
    hot = np.eye(len(classes))[seen]
    found = {
        "accuracy": float(np.mean(probabilities.argmax(1) == seen)),
        "log_loss": float(-np.mean(np.log(np.maximum(given, 1e-15)))),
        "brier": float(np.mean(((probabilities - hot) ** 2).sum(1))),
    }
    if len(classes) == 2:
        found["auc"] = auc(probabilities[:, 1], seen == 1)
    return found


def auc(score: Array, positive: Array) -> float:
    """The share of pairs of a positive and a negative row of which the first has more; 1/2 if tied.

    >>> auc(np.array([0.9, 0.8, 0.3]), np.array([True, False, False]))
    1.0
    """
    high, low = score[positive], np.sort(score[~positive])
    if not len(high) or not len(low):
        return math.nan
    below = np.searchsorted(low, high), np.searchsorted(low, high, side="right")
    return float(np.mean((below[0] + below[1]) / 2) / len(low))
