"""How good predictions for held-out rows are, and how honest about it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tractable import metrics
from tractable.report.calibration import LEVELS, covered, of_classes, of_intervals
from tractable.report.results import Calibration, Comparison
from tractable.report.words import number
from tractable.sklearn.ordered import positions

Score = tuple[dict[str, Any], list[Comparison], Calibration]


def of_numbers(estimator: Any, x: Any, y: Any, train: Any, learner: str) -> Score:
    """Metrics, rows of the report and calibration of a regression.

    Args:
        estimator: fitted.
        x: inputs of the test rows.
        y: their targets.
        train: targets of the training rows, whose mean and deviation are the yardstick.
        learner: its name in the report.
    """
    predictive = estimator.predict_distribution(x)
    seen = torch.as_tensor(y)
    shares = covered(predictive, seen)
    rmse = metrics.rmse(predictive, seen)
    naive = float(np.sqrt(np.mean((y - np.mean(train)) ** 2)))
    found: dict[str, Any] = {
        "rmse": rmse,
        "rmse_of_the_mean": naive,
        "r2": 1 - (rmse / naive) ** 2 if naive else None,
        "log_density": float(predictive.log_prob(seen).mean()),
        "width_90": metrics.sharpness(predictive),
        "coverage": {f"{level:g}": share for level, share in zip(LEVELS, shares, strict=True)},
    }
    calibration = of_intervals({learner: shares})
    rows = [
        _row("RMSE", rmse, learner, "smaller", note=f"predicting the mean: {number(naive)}"),
        _row("R²", found["r2"], learner, "larger"),
        _row("log density", found["log_density"], learner, "larger"),
        _row("90 % intervals cover", 100 * shares[LEVELS.index(0.9)], learner, "nearer", "%", 90.0),
        _row("mean width of 90 % intervals", found["width_90"], learner, "smaller"),
        _row("mean gap of coverage", 100 * calibration.error[learner], learner, "smaller", "%"),
    ]
    return found, rows, calibration


def of_labels(estimator: Any, x: Any, y: Any, train: Any, learner: str) -> Score:
    """Metrics, rows of the report and calibration of a classification."""
    predictive = estimator.predict_distribution(x)
    seen = torch.from_numpy(positions(y, estimator.classes_))
    labels, counts = np.unique(train, return_counts=True)
    frequent = labels[counts.argmax()]
    naive = float(np.mean(y == frequent))
    curve = metrics.reliability(predictive, seen)
    found = {
        "accuracy": metrics.accuracy(predictive, seen),
        "accuracy_of_the_most_frequent_class": naive,
        "log_loss": -float(predictive.log_prob(seen).mean()),
        "brier": metrics.brier(predictive, seen),
        "ece": curve.ece,
        "classes": estimator.classes_.tolist(),
    }
    note = f"always {str(frequent)!r}: {100 * naive:.1f} %"
    rows = [
        _row("accuracy", 100 * found["accuracy"], learner, "larger", "%", note=note),
        _row("log loss", found["log_loss"], learner, "smaller"),
        _row("Brier score", found["brier"], learner, "smaller"),
        _row("expected calibration error", 100 * curve.ece, learner, "smaller", "%"),
    ]
    return found, rows, of_classes({learner: curve})


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
