"""Invertible transforms that zuko lacks: each a module that returns a torch ``Transform``.

A module here is called with a context (or None) and returns a transform from rows of data to rows
of the base, as zuko's do, so both can stand in one flow.
"""

from tractable.generative.transforms.elementwise import (
    LeakyReLUTransform,
    PiecewiseLinear,
    PiecewiseLinearTransform,
    SquareRootTransform,
)
from tractable.generative.transforms.linear import Linear, LinearTransform
from tractable.generative.transforms.multiscale import MultiScale, Squeeze, SqueezeTransform
from tractable.generative.transforms.planar import Planar, PlanarTransform
from tractable.generative.transforms.residual import (
    Contraction,
    LogDet,
    Residual,
    ResidualTransform,
    hutchinson_trace,
    log_det_series,
)
from tractable.generative.transforms.reversible import Reversible, ReversibleTransform

__all__ = [
    "Contraction",
    "LeakyReLUTransform",
    "Linear",
    "LinearTransform",
    "LogDet",
    "MultiScale",
    "PiecewiseLinear",
    "PiecewiseLinearTransform",
    "Planar",
    "PlanarTransform",
    "Residual",
    "ResidualTransform",
    "Reversible",
    "ReversibleTransform",
    "SquareRootTransform",
    "Squeeze",
    "SqueezeTransform",
    "hutchinson_trace",
    "log_det_series",
]
