"""Inferring what is not a parameter: inputs, hidden states, derivatives, optima."""

from tractable.errors import UnsupportedLayer
from tractable.infer.bayes_opt import BlackBoxOptimizer
from tractable.infer.derivatives import Derivatives, derivatives
from tractable.infer.filtering import Filter
from tractable.infer.imputation import Imputation, impute
from tractable.infer.invert import Inversion, NotConverged, invert
from tractable.infer.optimize import Optimum, infer_optimum, optimize
from tractable.infer.smoothing import smooth
from tractable.infer.states import states

__all__ = [
    "BlackBoxOptimizer",
    "Derivatives",
    "Filter",
    "Imputation",
    "Inversion",
    "NotConverged",
    "Optimum",
    "UnsupportedLayer",
    "derivatives",
    "impute",
    "infer_optimum",
    "invert",
    "optimize",
    "smooth",
    "states",
]
