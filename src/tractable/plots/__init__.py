"""Figures that show what a model knows: each takes an ``ax`` (or makes one) and returns it."""

from tractable.plots.bandit import action_rate, mistakes, regret
from tractable.plots.calibration import reliability
from tractable.plots.curves import learning_curves, pruning, robustness
from tractable.plots.regression import bands
from tractable.plots.weights import snr, weights

__all__ = [
    "action_rate",
    "bands",
    "learning_curves",
    "mistakes",
    "pruning",
    "regret",
    "reliability",
    "robustness",
    "snr",
    "weights",
]
