"""Torch functions on Gaussians: the only place that carries messages through autograd.

Importing this package fills the rule table.
"""

from tractable.rules import (
    activation,
    arithmetic,
    attention,
    bilinear,
    comparisons,
    custom_function,
    einsum,
    embedding,
    fallback,
    interpolation,
    jacobian,
    linearized,
    norm,
    pool,
    recurrent,
    recurrent_steps,
    reduction,
    selection,
    softmax,
    structural,
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
    "comparisons",
    "custom_function",
    "einsum",
    "embedding",
    "fallback",
    "interpolation",
    "jacobian",
    "linearized",
    "norm",
    "pool",
    "recurrent",
    "recurrent_steps",
    "reduction",
    "selection",
    "softmax",
    "structural",
    "vector_norm",
]
