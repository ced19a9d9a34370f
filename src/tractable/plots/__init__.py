"""Figures that show what a model knows: each takes an ``ax`` (or makes one) and returns it."""

from tractable.plots.bandit import action_rate, mistakes, regret
from tractable.plots.calibration import agreement, reliability
from tractable.plots.curves import learning_curves, pruning, robustness
from tractable.plots.lines import lines
from tractable.plots.observed import observed, ranked
from tractable.plots.regression import bands
from tractable.plots.series import forecast
from tractable.plots.weights import snr, weights

__all__ = [
    "action_rate",
    "agreement",
    "bands",
    "forecast",
    "learning_curves",
    "lines",
    "mistakes",
    "observed",
    "pruning",
    "ranked",
    "regret",
    "reliability",
    "robustness",
    "snr",
    "weights",
]
