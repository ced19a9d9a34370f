"""Neural networks that know what they don't know, on ordinary PyTorch modules."""

import importlib
from typing import Any

from tractable import adversarial, errors, infer, likelihoods, metrics, plots, priors, rules
from tractable.errors import NoMomentRule
from tractable.gaussian import Gaussian, moment_rule
from tractable.learners import (
    TAGI,
    Backprop,
    BayesByBackprop,
    Callback,
    Checkpoint,
    EarlyStopping,
    Ensemble,
    Laplace,
    Learner,
)
from tractable.posterior import Posterior
from tractable.predictive import NormalPredictive, Predictive
from tractable.rules.activation import activation_moments, activation_rule

__version__ = "0.1.0"

__all__ = [
    "TAGI",
    "Backprop",
    "BayesByBackprop",
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "Ensemble",
    "Gaussian",
    "Laplace",
    "Learner",
    "NoMomentRule",
    "NormalPredictive",
    "Posterior",
    "Predictive",
    "activation_moments",
    "activation_rule",
    "adversarial",
    "errors",
    "infer",
    "likelihoods",
    "metrics",
    "moment_rule",
    "plots",
    "priors",
    "rules",
]


def __getattr__(name: str) -> Any:
    """``tractable.agents`` is imported when it is first used: it needs the extra ``agents``."""
    if name == "agents":
        return importlib.import_module("tractable.agents")
    raise AttributeError(f"module 'tractable' has no attribute {name!r}")
