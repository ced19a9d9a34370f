"""Plots of models and predictions: each function takes matplotlib axes ``ax`` and returns them.

Without ``ax`` a new figure is made.
"""

from tractable.plots.bandit import action_rate, error_counts, regret
from tractable.plots.bands import forecast, prediction_bands
from tractable.plots.calibration import (
    bar_ranking,
    calibration_curve,
    predicted_vs_observed,
    reliability,
)
from tractable.plots.curves import learning_curves, lines, pruning, robustness
from tractable.plots.weights import snr, weights

__all__ = [
    "action_rate",
    "bar_ranking",
    "calibration_curve",
    "error_counts",
    "forecast",
    "learning_curves",
    "lines",
    "predicted_vs_observed",
    "prediction_bands",
    "pruning",
    "regret",
    "reliability",
    "robustness",
    "snr",
    "weights",
]
