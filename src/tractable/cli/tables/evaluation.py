"""Metrics of a model on test rows, and of two baselines on the same rows.

The baselines are Bayesian ridge regression or logistic regression on the same inputs (standardized,
missing values replaced by means; scikit-learn's defaults), and predicting the mean or the class
frequencies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.impute import SimpleImputer
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tractable import metrics
from tractable.predictive import Predictive
from tractable.report.calibration import (
    LEVELS,
    from_coverage,
    from_probabilities,
    interval_coverage,
)
from tractable.report.formatting import format_number
from tractable.report.results import Calibration, Comparison
from tractable.sklearn.class_labels import class_indices

Array = npt.NDArray[Any]

_Z_90 = 1.6448536  # half width of a 90 % interval of a standard normal distribution


@dataclass(frozen=True)
class Baseline:
    """Metrics of a baseline, by name."""

    name: str
    metrics: dict[str, float]


def regression_baselines(x: Array, y: Array, x_test: Array, y_test: Array) -> list[Baseline]:
    """Return the metrics of Bayesian ridge regression and of predicting the mean."""
    ridge = make_pipeline(SimpleImputer(), StandardScaler(), BayesianRidge()).fit(x, y)
    mean, std = ridge.predict(x_test, return_std=True)
    flat = np.full(len(y_test), y.mean())
    return [
        Baseline("Bayesian ridge", _normal_metrics(mean, std, y_test)),
        Baseline("mean", _normal_metrics(flat, np.full(len(y_test), y.std()), y_test)),
    ]


def _normal_metrics(mean: Array, std: Array, y: Array) -> dict[str, float]:
    std = np.maximum(std, 1e-12 * (1 + np.abs(mean)))
    z = (y - mean) / std
    return {
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "mae": float(np.mean(np.abs(y - mean))),
        "log_density": float(np.mean(-0.5 * z * z - np.log(std)) - 0.5 * math.log(2 * math.pi)),
        "coverage_90": float(np.mean(np.abs(z) <= _Z_90)),
        "width_90": float(np.mean(2 * _Z_90 * std)),
    }


def classification_baselines(x: Array, y: Array, x_test: Array, y_test: Array) -> list[Baseline]:
    """Return the metrics of logistic regression and of predicting the class frequencies."""
    classes, counts = np.unique(y, return_counts=True)
    line = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression(max_iter=1000))
    flat = np.tile(counts / counts.sum(), (len(y_test), 1))
    return [
        Baseline(
            "logistic regression",
            classification_metrics(line.fit(x, y).predict_proba(x_test), y_test, classes),
        ),
        Baseline("class frequencies", classification_metrics(flat, y_test, classes)),
    ]


def classification_metrics(probabilities: Array, y: Array, classes: Array) -> dict[str, float]:
    """Return the metrics of class probabilities, ``[rows, classes]``."""
    code = {str(label): place for place, label in enumerate(classes)}
    targets = np.array([code[str(label)] for label in y])
    true_probs = probabilities[np.arange(len(y)), targets]
    hot = np.eye(len(classes))[targets]
    found = {
        "accuracy": float(np.mean(probabilities.argmax(1) == targets)),
        "log_loss": float(-np.mean(np.log(np.maximum(true_probs, 1e-15)))),
        "brier": float(np.mean(((probabilities - hot) ** 2).sum(1))),
    }
    if len(classes) == 2:
        found["auc"] = auc(probabilities[:, 1], targets == 1)
    return found


def auc(score: Array, positive: Array) -> float:
    """Return the area under the ROC curve: how often a positive row has the higher score.

    >>> auc(np.array([0.9, 0.8, 0.3]), np.array([True, False, False]))
    1.0
    """
    high, low = score[positive], np.sort(score[~positive])
    if not len(high) or not len(low):
        return math.nan
    below = np.searchsorted(low, high), np.searchsorted(low, high, side="right")
    return float(np.mean((below[0] + below[1]) / 2) / len(low))


# --- the model ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evaluation:
    """Metrics of a model on the test rows.

    Attributes:
        metrics: all numbers.
        compared: metrics that the baselines have as well.
        rows: rows of the printed summary.
        calibration: expected and observed frequencies.
        baselines: metrics of simpler models on the same rows.
        predictive: the predictions.
    """

    metrics: dict[str, Any]
    compared: dict[str, float]
    rows: list[Comparison]
    calibration: Calibration
    baselines: list[Baseline]
    predictive: Predictive


def evaluate_regression(
    estimator: Any, x: Any, y: Any, train: tuple[Any, Any], learner: str
) -> Evaluation:
    """Return the evaluation of a regression.

    Args:
        estimator: fitted estimator.
        x: inputs of the test rows.
        y: targets of the test rows.
        train: inputs and targets of the training rows, for the baselines.
        learner: name of the learner in the report.
    """
    predictive = estimator.predictive(x)
    targets = torch.as_tensor(y)
    shares = interval_coverage(predictive, targets)
    baselines = regression_baselines(*train, x, y)
    rmse, naive = metrics.rmse(predictive, targets), baselines[-1].metrics["rmse"]
    found: dict[str, Any] = {
        "rmse": rmse,
        "rmse_of_the_mean": naive,
        "r2": 1 - (rmse / naive) ** 2 if naive else None,
        "mae": float((predictive.unwrapped(targets) - predictive.mean).abs().mean()),
        "log_density": float(predictive.log_prob(targets).mean()),
        "width_90": metrics.mean_interval_width(predictive),
        "coverage": {f"{level:g}": share for level, share in zip(LEVELS, shares, strict=True)},
        "baselines": {each.name: each.metrics for each in baselines},
    }
    calibration = from_coverage({learner: shares})
    inside = shares[LEVELS.index(0.9)]

    def row(name: str, key: str, better: Any) -> Comparison:
        return _row(name, found[key], learner, better, note=_baseline_note(baselines, key))

    rows = [
        row("RMSE", "rmse", "smaller"),
        _row("R²", found["r2"], learner, "larger"),
        row("mean test log-likelihood", "log_density", "larger"),
        _row("coverage of 90 % intervals", 100 * inside, learner, "nearer", "%", 90.0),
        row("mean width of 90 % intervals", "width_90", "smaller"),
        _row("mean calibration error", 100 * calibration.error[learner], learner, "smaller", "%"),
    ]
    compared = {key: found[key] for key in ("rmse", "mae", "log_density", "width_90")}
    compared["coverage_90"] = inside
    return Evaluation(found, compared, rows, calibration, baselines, predictive)


def evaluate_classification(
    estimator: Any, x: Any, y: Any, train: tuple[Any, Any], learner: str
) -> Evaluation:
    """Return the evaluation of a classification."""
    predictive = estimator.predictive(x)
    targets = torch.from_numpy(class_indices(y, estimator.classes_))
    baselines = classification_baselines(*train, x, y)
    labels, counts = np.unique(train[1], return_counts=True)
    frequent = labels[counts.argmax()]
    naive = float(np.mean(y == frequent))
    curve = metrics.reliability(predictive, targets)
    probabilities = predictive.probs.numpy()
    compared = classification_metrics(probabilities, y, estimator.classes_)
    names = [str(name) for name in estimator.classes_]
    guess = np.array(names)[probabilities.argmax(1)]
    found = {
        "accuracy": metrics.accuracy(predictive, targets),
        "accuracy_of_the_most_frequent_class": naive,
        "log_loss": -float(predictive.log_prob(targets).mean()),
        "brier": metrics.brier(predictive, targets),
        "ece": curve.ece,
        "recall": {
            name: float(np.mean(guess[y == name] == name)) if (y == name).any() else None
            for name in names
        },
        "classes": estimator.classes_.tolist(),
        "baselines": {each.name: each.metrics for each in baselines},
    }
    if "auc" in compared:
        found["auc"] = compared["auc"]
    note = f"class {str(frequent)!r}: {100 * naive:.1f} %"
    rows = [
        _row("accuracy", 100 * found["accuracy"], learner, "larger", "%", note=note),
        _row(
            "log loss",
            found["log_loss"],
            learner,
            "smaller",
            note=_baseline_note(baselines, "log_loss"),
        ),
        _row(
            "Brier score",
            found["brier"],
            learner,
            "smaller",
            note=_baseline_note(baselines, "brier"),
        ),
        _row("expected calibration error", 100 * curve.ece, learner, "smaller", "%"),
    ]
    calibration = from_probabilities(learner, predictive.probs, targets, curve.ece)
    return Evaluation(found, compared, rows, calibration, baselines, predictive)


def _baseline_note(baselines: Sequence[Baseline], key: str) -> str:
    return ", ".join(f"{each.name}: {format_number(each.metrics[key])}" for each in baselines)


def _row(
    name: str,
    ours: float | None,
    learner: str,
    better: Any,
    unit: str = "",
    goal: float | None = None,
    note: str = "",
) -> Comparison:
    return Comparison(name, None, ours, unit, better=better, goal=goal, learner=learner, note=note)
