"""Figures that show what a model knows: each takes an ``ax`` (or makes one) and returns it."""

from tractable.plots.calibration import reliability
from tractable.plots.curves import learning_curves, pruning, robustness
from tractable.plots.regression import bands
from tractable.plots.weights import snr, weights

__all__ = [
    "bands",
    "learning_curves",
    "pruning",
    "reliability",
    "robustness",
    "snr",
    "weights",
]
