"""Moment rules of sums, differences and quotients.  Products are in ``bilinear``.

Exact: sums and differences of independent Gaussians and constants, products with constants.
Approximate: two Gaussians are treated as independent, so that the two branches of a residual
connection lose their covariance; a quotient linearizes the reciprocal of its divisor.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tractable.gaussian import Gaussian, moment_rule
from tractable.rules import shared_variance
from tractable.rules.bilinear import moments_of, multiply
from tractable.torch_functions import torch_functions

Operand = Gaussian | Tensor | float


def _combine(function: Any, input: Operand, other: Operand, alpha: float) -> Gaussian:
    """Return ``input + alpha * other`` or ``input - alpha * other``; the variances add."""
    (x, var_x), (y, var_y) = moments_of(input), moments_of(other)
    loc = function(x, y, alpha=alpha)
    if var_y is not None and alpha != 1:
        var_y = var_y * alpha**2
    if var_x is not None and var_y is not None:
        assert isinstance(input, Gaussian)
        assert isinstance(other, Gaussian)
        both = var_x + var_y
        return Gaussian.wrap(loc, both, shared_variance.of_sum(input, other, alpha**2, both))
    part = input if isinstance(input, Gaussian) else other
    assert isinstance(part, Gaussian)
    variance = var_y if var_x is None else var_x
    assert variance is not None
    # A view even where the shape is the same: the variance message to the sum must not be mixed
    # with the messages that its Gaussian part receives from elsewhere.
    return part.with_moments(loc, variance.expand(loc.shape).to(loc.dtype))


@moment_rule(*torch_functions("add"), Tensor.__add__, Tensor.__radd__)
def add(input: Operand, other: Operand, alpha: float = 1) -> Gaussian:
    """Return ``input + alpha * other``."""
    if isinstance(input, Gaussian) and input is other:
        return multiply(input, 1 + alpha)
    return _combine(torch.add, input, other, alpha)


@moment_rule(*torch_functions("sub"), *torch_functions("subtract"), Tensor.__sub__)
def subtract(input: Operand, other: Operand, alpha: float = 1) -> Gaussian:
    """Return ``input - alpha * other``."""
    if isinstance(input, Gaussian) and input is other:
        return multiply(input, 1 - alpha)
    return _combine(torch.sub, input, other, alpha)


@moment_rule(Tensor.__rsub__, *torch_functions("rsub"))
def reflected_subtract(input: Operand, other: Operand, alpha: float = 1) -> Gaussian:
    """Return ``other - alpha * input``."""
    return subtract(other, input, alpha=alpha)


@moment_rule(*torch_functions("neg"), *torch_functions("negative"), Tensor.__neg__)
def negate(input: Gaussian) -> Gaussian:
    """Return ``-input``."""
    return input.with_moments(-input.loc, input.variance.view_as(input.variance))


@moment_rule(
    *torch_functions("div"),
    *torch_functions("divide"),
    *torch_functions("true_divide"),
    Tensor.__truediv__,
)
def divide(input: Operand, other: Operand, *, rounding_mode: Any = None) -> Gaussian:
    """Return ``input / other``."""
    if rounding_mode is not None:
        raise TypeError("rounding a Gaussian has no moment rule: rounding_mode must be None")
    if isinstance(other, Gaussian):
        return multiply(input, other.reciprocal())
    assert isinstance(input, Gaussian)
    return input.with_moments(input.loc / other, input.variance / other / other)


@moment_rule(Tensor.__rtruediv__, Tensor.__rdiv__)
def reflected_divide(input: Gaussian, other: Operand) -> Gaussian:
    """Return ``other / input``."""
    return divide(other, input)
