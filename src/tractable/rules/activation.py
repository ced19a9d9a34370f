"""Moment rules of elementwise functions, and the function to register more of them.

Exact: linear functions; in the mode ``"exact"``, mean and variance where there is a closed form
(relu, leaky_relu, abs, exp, sine, cosine); squares in both modes.
Approximate: in the mode ``"linear"``, the function is replaced by its tangent at the mean; in the
mode ``"exact"``, sigmoid and tanh have bounded moments that are nearly exact; in both, the result
is treated as Gaussian.  ``"auto"`` uses the tangent, except for sine and cosine, whose tangent is
unbounded and which use the exact moments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from tractable.gaussian import Gaussian, moment_rule
from tractable.moments import activation as act
from tractable.rules.autograd import ElementwiseFunction, Kernel, ReLUFunction, squared
from tractable.torch_functions import torch_functions

Mode = Literal["auto", "linear", "exact"]
MODES: tuple[Mode, ...] = ("auto", "linear", "exact")

_mode: ContextVar[Mode] = ContextVar("activation_moments", default="auto")


@contextmanager
def activation_moments(mode: Mode) -> Iterator[None]:
    """Within this block activations use the moments of this mode.

    Args:
        mode: ``"linear"``: the tangent (eq. 10).  ``"exact"``: a closed form where there is one
            (relu, leaky_relu, abs, exp, sin, cos), bounded moments for sigmoid and tanh, the
            tangent for others.  ``"auto"``: exact for sine and cosine, the tangent for others.
    """
    if mode not in MODES:
        raise ValueError(f"moments must be one of {', '.join(MODES)}; got {mode!r}")
    token = _mode.set(mode)
    try:
        yield
    finally:
        _mode.reset(token)


def current_mode() -> Mode:
    """Return the mode of the enclosing ``activation_moments`` block, ``"auto"`` without one."""
    return _mode.get()


def elementwise(z: Gaussian, kernel: Kernel) -> Gaussian:
    """Return the Gaussian of ``phi(z)``.

    Args:
        z: the input.
        kernel: function from mean and variance of ``z`` to mean, variance and
            ``J = cov(phi(z), z) / var(z)``.
    """
    mean, variance = ElementwiseFunction.apply(z.loc, z.variance, kernel)
    return z.with_moments(mean, variance)


def activation_rule(
    *functions: Any,
    linear: act.Linearized,
    exact: act.Exact | None = None,
    exact_by_default: bool = False,
) -> Callable[..., Gaussian]:
    """Register the moment rule of an elementwise torch function and return it.

    Args:
        functions: the torch functions, for example ``torch.erf, torch.Tensor.erf``.
        linear: function from the mean (and the options of the torch function) to
            ``(phi(mu), phi'(mu))``.
        exact: function from mean and variance to ``(E[phi], var phi, cov(phi, z) / var)``, if there
            is a closed form.
        exact_by_default: whether the mode ``"auto"`` uses the exact moments.

    >>> import math, torch
    >>> rule = activation_rule(
    ...     torch.erf,
    ...     linear=lambda mu: (mu.erf(), 2 / math.sqrt(math.pi) * torch.exp(-mu * mu)),
    ... )
    >>> torch.erf(Gaussian(torch.zeros(1), 1.0)).loc
    tensor([0.])
    """

    def rule(input: Gaussian, *options: Any, **named: Any) -> Gaussian:
        named.pop("inplace", None)
        mode = _mode.get()
        closed_form = exact if mode == "exact" or (exact_by_default and mode == "auto") else None

        def kernel(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            if closed_form is not None:
                return closed_form(mu, var, *options, **named)
            value, slope = linear(mu, *options, **named)
            return value, var * squared(slope), slope

        return elementwise(input, kernel)

    return moment_rule(*functions)(rule)


@moment_rule(*torch_functions("relu"))
def relu(input: Gaussian, inplace: bool = False) -> Gaussian:
    """Return ``max(0, input)``; the linearized one has its own autograd function, for speed."""
    if _mode.get() == "exact":
        return elementwise(input, act.exact_relu)
    mean, variance = ReLUFunction.apply(input.loc, input.variance)
    return input.with_moments(mean, variance)


activation_rule(F.leaky_relu, linear=act.leaky_relu, exact=act.exact_leaky_relu)
activation_rule(*torch_functions("tanh"), linear=act.tanh, exact=act.bounded_tanh)
activation_rule(
    *torch_functions("sigmoid"), torch.special.expit, linear=act.sigmoid, exact=act.bounded_sigmoid
)
activation_rule(F.softplus, linear=act.softplus)
activation_rule(F.gelu, linear=act.gelu)
activation_rule(F.silu, linear=act.silu)
activation_rule(F.elu, linear=act.elu)
activation_rule(*torch_functions("exp"), linear=act.exp, exact=act.exact_exp)
activation_rule(*torch_functions("log"), linear=act.log)
activation_rule(*torch_functions("sqrt"), linear=act.sqrt)
activation_rule(*torch_functions("reciprocal"), linear=act.reciprocal)
activation_rule(*torch_functions("sin"), linear=act.sin, exact=act.exact_sin, exact_by_default=True)
activation_rule(*torch_functions("cos"), linear=act.cos, exact=act.exact_cos, exact_by_default=True)
activation_rule(
    *torch_functions("abs"),
    *torch_functions("absolute"),
    linear=act.absolute,
    exact=act.exact_absolute,
)


@moment_rule(*torch_functions("rrelu"))
def rrelu(
    input: Gaussian, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
) -> Gaussian:
    """Return ``leaky_relu`` with the mean slope: the weights are uncertain already."""
    return F.leaky_relu(input, (lower + upper) / 2)  # type: ignore[return-value]


@moment_rule(F.glu)
def glu(input: Gaussian, dim: int = -1) -> Gaussian:
    """Return one half times the sigmoid of the other; the halves are treated as independent."""
    value, gate = input.chunk(2, dim)
    return value * gate.sigmoid()  # type: ignore[return-value]
