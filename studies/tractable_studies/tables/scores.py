"""Scores of predictions; smaller is better, except for coverage.

Targets are divided by their standard deviation over the whole table, so that tables can be
compared.  The interval score and the CRPS are those of Gneiting & Raftery, "Strictly proper
scoring rules, prediction, and estimation" (2007), eqs. (43) and (20).
"""

from __future__ import annotations

import numpy as np
import torch

from tractable import metrics
from tractable.predictive import Predictive
from tractable.predictive.categorical import CategoricalPredictive
from tractable_studies.tables.rows import Array

LEVEL = 0.9
QUANTILES = 100
"""Number of quantiles for the CRPS."""
LEAST_PROBABILITY = 1e-6
"""Lower bound of probabilities in the log loss, for forests that predict zero."""

REGRESSION = {
    "nll": "NLL",
    "crps": "CRPS",
    "interval": "interval score",
    "rmse": "RMSE",
    "coverage": "90 % covers",
}
CLASSES = {"log_loss": "log loss", "brier": "Brier", "ece": "ECE", "error": "error rate"}


def of_regression(predictive: Predictive, y: Array, scale: float) -> dict[str, float]:
    """Return all scores of one fold."""
    seen = torch.from_numpy(y)
    low, high = (end.numpy() for end in predictive.interval(LEVEL))
    return {
        "nll": metrics.nll(predictive, seen) - float(np.log(scale)),
        "crps": crps(predictive, y) / scale,
        "interval": interval_score(low, high, y) / scale,
        "rmse": metrics.rmse(predictive, seen) / scale,
        "coverage": metrics.coverage(predictive, seen, LEVEL),
    }


def of_classes(probabilities: Array, y: Array) -> dict[str, float]:
    """Return all scores of one fold."""
    clipped = np.clip(probabilities, LEAST_PROBABILITY, 1)
    probs = torch.from_numpy(clipped / clipped.sum(1, keepdims=True))
    seen = torch.from_numpy(y)
    predictive = CategoricalPredictive(probs)
    return {
        "log_loss": metrics.nll(predictive, seen),
        "brier": metrics.brier(predictive, seen),
        "ece": metrics.ece(predictive, seen),
        "error": metrics.error_rate(predictive, seen),
    }


def interval_score(low: Array, high: Array, y: Array, level: float = LEVEL) -> float:
    """Return the interval score: width, plus 2 / (1 - level) times the distance outside."""
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return float(np.mean(high - low + 2 / (1 - level) * outside))


def crps(predictive: Predictive, y: Array) -> float:
    """Return the CRPS as the mean of quantile losses over all quantiles."""
    total = 0.0
    for level in (np.arange(QUANTILES) + 0.5) / QUANTILES:
        over = y - predictive.quantile(float(level)).numpy()
        total += float(np.mean(np.maximum(level * over, (level - 1) * over)))
    return 2 * total / QUANTILES
