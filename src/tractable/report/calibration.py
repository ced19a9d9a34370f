"""Calibration of trained models, as the report takes it."""

from __future__ import annotations

from collections.abc import Mapping

from tractable import metrics
from tractable.predictive import Predictive
from tractable.report.results import Calibration

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


def of_intervals(shares: Mapping[str, list[float]]) -> Calibration:
    """Coverage of the central intervals of ``LEVELS``; the error is the mean gap."""
    lines = {name: (list(LEVELS), covered) for name, covered in shares.items()}
    errors = {
        name: sum(abs(c - level) for c, level in zip(covered, LEVELS, strict=True)) / len(LEVELS)
        for name, covered in shares.items()
    }
    return Calibration("coverage", lines, errors)


def covered(predictive: Predictive, y: object) -> list[float]:
    """Share of the targets inside the central intervals of ``LEVELS``."""
    return [metrics.coverage(predictive, y, level) for level in LEVELS]
