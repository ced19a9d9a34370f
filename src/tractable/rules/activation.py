"""Rules of the elementwise functions, and how a user adds one.

Exact: linear functions; in the mode ``"exact"``, mean and variance where there is a closed form
(relu and its kin, exp, sine, cosine); squares in both modes.
Approximate: in the mode ``"linear"``, the tangent at the mean stands for the function; in the mode
``"exact"``, sigmoid and tanh have bounded moments that are nearly right; in both, the result counts
as Gaussian.  ``"auto"`` takes the tangent, but sine and cosine, whose tangent has no bound, are
exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from tractable.gaussian import Gaussian, moment_rule, torch_functions
from tractable.moments import activation as act
from tractable.rules.autograd import ElementwiseFunction, Kernel, ReLUFunction, squared

Mode = Literal["auto", "linear", "exact"]
MODES: tuple[Mode, ...] = ("auto", "linear", "exact")

_mode: ContextVar[Mode] = ContextVar("activation_moments", default="auto")


@contextmanager
def activation_moments(mode: Mode) -> Iterator[None]:
    """Within this block activations use ``"linear"`` (eq. 10) or ``"exact"`` moments.

    ``"exact"`` applies where a closed form exists (relu, leaky_relu, abs, exp, sin, cos), and gives
    sigmoid and tanh bounded moments, which are nearly so; other activations stay linearised.
    ``"auto"`` is exact for sine and cosine only.
    """
    if mode not in MODES:
        raise ValueError(f"moments must be one of {', '.join(MODES)}; got {mode!r}")
    token = _mode.set(mode)
    try:
        yield
    finally:
        _mode.reset(token)


def current_mode() -> Mode:
    """The moments that are asked for, here and now."""
    return _mode.get()


def elementwise(z: Gaussian, kernel: Kernel) -> Gaussian:
    """The Gaussian of ``phi(z)``, where ``kernel(mu, var) -> mean, variance, J``."""
    mean, variance = ElementwiseFunction.apply(z.loc, z.variance, kernel)
    return Gaussian.wrap(mean, variance, z.shared)


def activation_rule(
    *functions: Any,
    linear: act.Linearized,
    exact: act.Exact | None = None,
    exact_by_default: bool = False,
) -> Callable[..., Gaussian]:
    """Register the moment rule of an elementwise torch function.

    Args:
        functions: the torch functions, for instance ``torch.erf, torch.Tensor.erf``.
        linear: maps the mean (and the function's own options) to ``(phi(mu), phi'(mu))``.
        exact: maps mean and variance to ``(E[phi], var phi, cov(phi, z) / var)``, if there is a
            closed form.
        exact_by_default: whether ``"auto"`` moments are the exact ones.

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
    """``max(0, input)``; the linearised one has a carrier of its own, for speed."""
    if _mode.get() == "exact":
        return elementwise(input, act.exact_relu)
    mean, variance = ReLUFunction.apply(input.loc, input.variance)
    return Gaussian.wrap(mean, variance, input.shared)


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
    """The slope below zero is the mean one: the weights are uncertain already."""
    return F.leaky_relu(input, (lower + upper) / 2)  # type: ignore[return-value]


@moment_rule(F.glu)
def glu(input: Gaussian, dim: int = -1) -> Gaussian:
    """One half times the sigmoid of the other; the halves are taken as independent."""
    value, gate = input.chunk(2, dim)
    return value * gate.sigmoid()  # type: ignore[return-value]
