"""How good predictions for held-out rows are, and how honest about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tractable import metrics
from tractable.cli.table import rivals
from tractable.cli.table.rivals import Rival
from tractable.predictive import Predictive
from tractable.report.calibration import LEVELS, covered, of_confidence, of_intervals
from tractable.report.results import Calibration, Comparison
from tractable.report.words import number
from tractable.sklearn.ordered import positions


@dataclass(frozen=True)
class Score:
    """What test rows say.

    Attributes:
        metrics: all numbers.
        compared: those that a table of the report has, by the names that rivals' have.
        rows: of the summary.
        calibration: stated and observed frequencies.
        rivals: what simpler models make of the same rows.
        predictive: the predictions.
    """

    metrics: dict[str, Any]
    compared: dict[str, float]
    rows: list[Comparison]
    calibration: Calibration
    rivals: list[Rival]
    predictive: Predictive


def of_numbers(estimator: Any, x: Any, y: Any, train: tuple[Any, Any], learner: str) -> Score:
    """Metrics, rows of the report and calibration of a regression.

    Args:
        estimator: fitted.
        x: inputs of the test rows.
        y: their targets.
        train: inputs and targets of the training rows, for the rivals.
        learner: its name in the report.
    """
    predictive = estimator.predictive(x)
    seen = torch.as_tensor(y)
    shares = covered(predictive, seen)
    others = rivals.of_numbers(*train, x, y)
    rmse, naive = metrics.rmse(predictive, seen), others[-1].metrics["rmse"]
    found: dict[str, Any] = {
        "rmse": rmse,
        "rmse_of_the_mean": naive,
        "r2": 1 - (rmse / naive) ** 2 if naive else None,
        "mae": float((predictive.unwrapped(seen) - predictive.mean).abs().mean()),
        "log_density": float(predictive.log_prob(seen).mean()),
        "width_90": metrics.sharpness(predictive),
        "coverage": {f"{level:g}": share for level, share in zip(LEVELS, shares, strict=True)},
        "rivals": {rival.name: rival.metrics for rival in others},
    }
    calibration = of_intervals({learner: shares})
    inside = shares[LEVELS.index(0.9)]

    def row(name: str, key: str, better: Any) -> Comparison:
        return _row(name, found[key], learner, better, note=_beside(others, key))

    rows = [
        row("RMSE", "rmse", "smaller"),
        _row("R²", found["r2"], learner, "larger"),
        row("log density", "log_density", "larger"),
        _row("90 % intervals cover", 100 * inside, learner, "nearer", "%", 90.0),
        row("mean width of 90 % intervals", "width_90", "smaller"),
        _row("mean gap of coverage", 100 * calibration.error[learner], learner, "smaller", "%"),
    ]
    compared = {key: found[key] for key in ("rmse", "mae", "log_density", "width_90")}
    compared["coverage_90"] = inside
    return Score(found, compared, rows, calibration, others, predictive)


def of_labels(estimator: Any, x: Any, y: Any, train: tuple[Any, Any], learner: str) -> Score:
    """Metrics, rows of the report and calibration of a classification."""
    predictive = estimator.predictive(x)
    seen = torch.from_numpy(positions(y, estimator.classes_))
    others = rivals.of_labels(*train, x, y)
    labels, counts = np.unique(train[1], return_counts=True)
    frequent = labels[counts.argmax()]
    naive = float(np.mean(y == frequent))
    curve = metrics.reliability(predictive, seen)
    probabilities = predictive.probs.numpy()
    compared = rivals.of_shares(probabilities, y, estimator.classes_)
    names = [str(name) for name in estimator.classes_]
    guess = np.array(names)[probabilities.argmax(1)]
    found = {
        "accuracy": metrics.accuracy(predictive, seen),
        "accuracy_of_the_most_frequent_class": naive,
        "log_loss": -float(predictive.log_prob(seen).mean()),
        "brier": metrics.brier(predictive, seen),
        "ece": curve.ece,
        "recall": {
            name: float(np.mean(guess[y == name] == name)) if (y == name).any() else None
            for name in names
        },
        "classes": estimator.classes_.tolist(),
        "rivals": {rival.name: rival.metrics for rival in others},
    }
    if "auc" in compared:
        found["auc"] = compared["auc"]
    note = f"always {str(frequent)!r}: {100 * naive:.1f} %"
    rows = [
        _row("accuracy", 100 * found["accuracy"], learner, "larger", "%", note=note),
        _row("log loss", found["log_loss"], learner, "smaller", note=_beside(others, "log_loss")),
        _row("Brier score", found["brier"], learner, "smaller", note=_beside(others, "brier")),
        _row("expected calibration error", 100 * curve.ece, learner, "smaller", "%"),
    ]
    calibration = of_confidence(learner, predictive.probs, seen, curve.ece)
    return Score(found, compared, rows, calibration, others, predictive)


def _beside(others: Sequence[Rival], key: str) -> str:
    return ", ".join(f"{rival.name}: {number(rival.metrics[key])}" for rival in others)


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
