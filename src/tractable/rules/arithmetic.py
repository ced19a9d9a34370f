"""Rules of sums, differences and quotients.  Products are in ``bilinear``.

Exact: sums and differences of independent Gaussians and constants, scaling by constants.
Approximate: two Gaussians are taken as independent, so the two branches of a residual
connection lose their covariance; a quotient linearises the reciprocal of its divisor.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tractable.gaussian import Gaussian, moment_rule, torch_functions
from tractable.rules import shared_variance
from tractable.rules.bilinear import moments_of, multiply, scaled

Operand = Gaussian | Tensor | float


def _combine(function: Any, input: Operand, other: Operand, alpha: float) -> Gaussian:
    """``input + alpha * other`` or ``input - alpha * other``: the variances add either way."""
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
    shared = part.shared if variance.shape == loc.shape else None
    # A view even where the shape is the same: the variance message to the sum must not be mixed
    # with what its Gaussian part hears from elsewhere.
    return Gaussian.wrap(loc, variance.expand(loc.shape).to(loc.dtype), shared)


@moment_rule(*torch_functions("add"), Tensor.__add__, Tensor.__radd__)
def add(input: Operand, other: Operand, alpha: float = 1) -> Gaussian:
    """``input + alpha * other``."""
    if isinstance(input, Gaussian) and input is other:
        return multiply(input, 1 + alpha)
    return _combine(torch.add, input, other, alpha)


@moment_rule(*torch_functions("sub"), *torch_functions("subtract"), Tensor.__sub__)
def subtract(input: Operand, other: Operand, alpha: float = 1) -> Gaussian:
    """``input - alpha * other``."""
    if isinstance(input, Gaussian) and input is other:
        return multiply(input, 1 - alpha)
    return _combine(torch.sub, input, other, alpha)


@moment_rule(Tensor.__rsub__, *torch_functions("rsub"))
def reflected_subtract(input: Operand, other: Operand, alpha: float = 1) -> Gaussian:
    """``other - alpha * input``."""
    return subtract(other, input, alpha=alpha)


@moment_rule(*torch_functions("neg"), *torch_functions("negative"), Tensor.__neg__)
def negate(input: Gaussian) -> Gaussian:
    """``-input``."""
    return Gaussian.wrap(-input.loc, input.variance.view_as(input.variance), input.shared)


@moment_rule(
    *torch_functions("div"),
    *torch_functions("divide"),
    *torch_functions("true_divide"),
    Tensor.__truediv__,
)
def divide(input: Operand, other: Operand, *, rounding_mode: Any = None) -> Gaussian:
    """``input / other``."""
    if rounding_mode is not None:
        raise TypeError("rounding a Gaussian has no moment rule: rounding_mode must be None")
    if isinstance(other, Gaussian):
        return multiply(input, other.reciprocal())
    assert isinstance(input, Gaussian)
    return scaled(input, input.loc / other, input.variance / other / other)


@moment_rule(Tensor.__rtruediv__, Tensor.__rdiv__)
def reflected_divide(input: Gaussian, other: Operand) -> Gaussian:
    """``other / input``."""
    return divide(other, input)
