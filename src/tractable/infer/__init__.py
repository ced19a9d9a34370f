"""Inferring what is not a parameter: inputs, hidden states, derivatives, optima."""

from tractable.errors import UnsupportedLayer
from tractable.infer.attack import Attack, Budget, attack
from tractable.infer.black_box import BlackBoxOptimizer
from tractable.infer.derivatives import Derivatives, derivatives
from tractable.infer.invert import Inversion, NotConverged, invert
from tractable.infer.optimize import Optimum, infer_optimum, optimize
from tractable.infer.states import states

__all__ = [
    "Attack",
    "BlackBoxOptimizer",
    "Budget",
    "Derivatives",
    "Inversion",
    "NotConverged",
    "Optimum",
    "UnsupportedLayer",
    "attack",
    "derivatives",
    "infer_optimum",
    "invert",
    "optimize",
    "states",
]
