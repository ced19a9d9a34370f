"""Invertible transforms that zuko does not have, as modules that return a torch ``Transform``.

A module is called with a context (or None) and returns a transform from rows of data to rows of the
base, like those of zuko, so that one flow can contain both.
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
