"""Torch functions on Gaussians: the only place that carries messages through autograd.

Importing this package fills the rule table.
"""

from tractable.rules import (
    activation,
    arithmetic,
    attention,
    bilinear,
    contraction,
    embedding,
    function,
    interpolation,
    linear_maps,
    matrix,
    mechanism,
    norm,
    pool,
    query,
    recurrent,
    reduction,
    selection,
    shape,
    softmax,
    tangent,
    unrolled,
    vector_norm,
)
from tractable.rules.activation import activation_moments, activation_rule

__all__ = [
    "activation",
    "activation_moments",
    "activation_rule",
    "arithmetic",
    "attention",
    "bilinear",
    "contraction",
    "embedding",
    "function",
    "interpolation",
    "linear_maps",
    "matrix",
    "mechanism",
    "norm",
    "pool",
    "query",
    "recurrent",
    "reduction",
    "selection",
    "shape",
    "softmax",
    "tangent",
    "unrolled",
    "vector_norm",
]
