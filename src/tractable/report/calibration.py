"""Calibration of trained models, as the report takes it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tractable import metrics
from tractable.predictive import Predictive
from tractable.report.results import Calibration

ROWS_OF_A_BIN = 15
"""At least, where bins have equally many rows."""
MOST_BINS = 10
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
"""Of the central intervals whose coverage is measured."""


def of_classes(curves: Mapping[str, metrics.Reliability]) -> Calibration:
    """Confidence against accuracy, in the bins that have rows."""
    lines, errors = {}, {}
    for name, curve in curves.items():
        held = curve.count > 0
        lines[name] = (curve.confidence[held].tolist(), curve.accuracy[held].tolist())
        errors[name] = curve.ece
    return Calibration("reliability", lines, errors)


def of_confidence(name: str, probabilities: Tensor, y: Tensor, ece: float) -> Calibration:
    """The same of one model, in bins of equally many rows: with few rows others are mostly chance.

    Args:
        name: of the model.
        probabilities: of each class, one line a row.
        y: the number of the true class of each row.
        ece: its expected calibration error.
    """
    confidence, label = probabilities.double().max(-1)
    order = confidence.argsort()
    bins = min(max(len(order) // ROWS_OF_A_BIN, 1), MOST_BINS)
    parts = order.tensor_split(bins)
    right = (label == y).double()
    stated = [float(confidence[part].mean()) for part in parts]
    return Calibration(
        "reliability", {name: (stated, [float(right[part].mean()) for part in parts])}, {name: ece}
    )


def of_intervals(shares: Mapping[str, list[float]]) -> Calibration:
    """Coverage of the central intervals of ``LEVELS``; the error is the mean gap."""
    lines = {name: (list(LEVELS), covered) for name, covered in shares.items()}
    errors = {
        name: sum(abs(c - level) for c, level in zip(covered, LEVELS, strict=True)) / len(LEVELS)
        for name, covered in shares.items()
    }
    return Calibration("coverage", lines, errors)


def covered(predictive: Predictive, y: object) -> list[float]:
    """Share of the targets inside the central intervals of ``LEVELS``.

    A count is inside if as many or fewer are likely enough, and fewer not too likely: two looks at
    the distribution function serve all levels, where each end of an interval is a search.
    """
    if predictive.is_discrete:
        seen = torch.as_tensor(y).to(predictive.mean).reshape(predictive.mean.shape)
        upto, below = predictive.cdf(seen), predictive.cdf(seen - 1)
        ends = [((1 - level) / 2, (1 + level) / 2) for level in LEVELS]
        return [float(((upto >= a) & (below < b)).double().mean()) for a, b in ends]
    return [metrics.coverage(predictive, y, level) for level in LEVELS]
