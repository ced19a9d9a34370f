"""Torch functions on Gaussians: the only place that carries messages through autograd.

Importing this package fills the rule table.
"""

from tractable.rules import (
    activation,
    arithmetic,
    bilinear,
    embedding,
    norm,
    pool,
    reduction,
    shape,
)
from tractable.rules.activation import activation_moments, activation_rule

__all__ = [
    "activation",
    "activation_moments",
    "activation_rule",
    "arithmetic",
    "bilinear",
    "embedding",
    "norm",
    "pool",
    "reduction",
    "shape",
]
