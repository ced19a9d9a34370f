"""Inferring what is not a parameter: inputs, hidden states, derivatives, optima.

Attacks by inference have moved to ``tractable.attacks``; ``attack``, ``Attack`` and ``Budget``
can be imported from here for one more release.
"""

import importlib
from typing import TYPE_CHECKING, Any

from tractable.errors import UnsupportedLayer
from tractable.infer.black_box import BlackBoxOptimizer
from tractable.infer.derivatives import Derivatives, derivatives
from tractable.infer.filtering import Filter
from tractable.infer.imputation import Imputation, impute
from tractable.infer.invert import Inversion, NotConverged, invert
from tractable.infer.optimize import Optimum, infer_optimum, optimize
from tractable.infer.smoothing import smooth
from tractable.infer.states import states

if TYPE_CHECKING:
    from tractable.attacks import Attack, Budget
    from tractable.attacks import infer as attack

__all__ = [
    "Attack",
    "BlackBoxOptimizer",
    "Budget",
    "Derivatives",
    "Filter",
    "Imputation",
    "Inversion",
    "NotConverged",
    "Optimum",
    "UnsupportedLayer",
    "attack",
    "derivatives",
    "impute",
    "infer_optimum",
    "invert",
    "optimize",
    "smooth",
    "states",
]

_MOVED = {"Attack": "Attack", "Budget": "Budget", "attack": "infer"}


def __getattr__(name: str) -> Any:
    """What has moved to ``tractable.attacks``, a room above this one: found when it is asked."""
    if name in _MOVED:
        return getattr(importlib.import_module("tractable.attacks"), _MOVED[name])
    raise AttributeError(f"module 'tractable.infer' has no attribute {name!r}")
