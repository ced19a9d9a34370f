"""Calibration curves of trained models."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tractable import metrics
from tractable.predictive import Predictive
from tractable.report.results import Calibration

MIN_ROWS_PER_BIN = 15
"""Minimum number of rows of a bin: fewer make the accuracy of a bin mostly noise."""
MAX_BINS = 10
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
"""Levels of the central intervals whose coverage is measured."""


def from_reliability(curves: Mapping[str, metrics.Reliability]) -> Calibration:
    """Return confidence against accuracy, in the bins that have rows."""
    lines, errors = {}, {}
    for name, curve in curves.items():
        held = curve.count > 0
        lines[name] = (curve.confidence[held].tolist(), curve.accuracy[held].tolist())
        errors[name] = curve.ece
    return Calibration("reliability", lines, errors)


def from_probabilities(name: str, probabilities: Tensor, y: Tensor, ece: float) -> Calibration:
    """Return confidence against accuracy of one model, in bins with equal numbers of rows.

    Args:
        name: name of the model.
        probabilities: class probabilities, ``[rows, classes]``.
        y: index of the true class of each row.
        ece: expected calibration error.
    """
    confidence, label = probabilities.double().max(-1)
    order = confidence.argsort()
    bins = min(max(len(order) // MIN_ROWS_PER_BIN, 1), MAX_BINS)
    parts = order.tensor_split(bins)
    correct = (label == y).double()
    stated = [float(confidence[part].mean()) for part in parts]
    return Calibration(
        "reliability",
        {name: (stated, [float(correct[part].mean()) for part in parts])},
        {name: ece},
    )


def from_coverage(shares: Mapping[str, list[float]]) -> Calibration:
    """Return the coverage of central intervals; the error is the mean absolute difference."""
    lines = {name: (list(LEVELS), observed) for name, observed in shares.items()}
    errors = {
        name: sum(abs(c - level) for c, level in zip(observed, LEVELS, strict=True)) / len(LEVELS)
        for name, observed in shares.items()
    }
    return Calibration("coverage", lines, errors)


def interval_coverage(predictive: Predictive, y: object) -> list[float]:
    """Return the coverage of the central intervals of ``LEVELS``.

    For counts, the distribution function is evaluated at y and y - 1 only, instead of searching the
    ends of the interval for each level.
    """
    if predictive.is_discrete:
        targets = torch.as_tensor(y).to(predictive.mean).reshape(predictive.mean.shape)
        upto, below = predictive.cdf(targets), predictive.cdf(targets - 1)
        ends = [((1 - level) / 2, (1 + level) / 2) for level in LEVELS]
        return [float(((upto >= a) & (below < b)).double().mean()) for a, b in ends]
    return [metrics.coverage(predictive, y, level) for level in LEVELS]
