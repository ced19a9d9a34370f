"""Moment rules: torch functions of Gaussian tensors, and the propagation of messages through them.

Importing this package fills the table of rules.  There are four ways to write a rule:

* **elementwise** (``activation.elementwise``, or ``activation_rule`` with a formula for the slope):
  a function of each entry;
* **product** (``bilinear.product``): a function that is linear in each of two arguments, given as
  a ``moments.bilinear.BilinearMap``;
* **move** (``structural.move``, ``split``, ``join``, ``apply_to_both_moments``): a function that
  only moves entries or adds them up, so that torch's own function is applied to both moments;
* **tangent** (``linearized.pointwise``, ``linearized.reduction``): any other function, by its
  derivative at the means.

Most rules combine functions that have one already.  Only ``autograd``, ``linearized``, ``norm``,
``attention`` and ``recurrent`` define autograd functions.
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
