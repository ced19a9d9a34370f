"""Moment rules by linearization, for elementwise functions and for reductions.

The derivative is computed by autograd, so no formula is needed:

* *pointwise* functions of one or several Gaussians: those that torch tags so
  (``torch.Tag.pointwise``) and the names in ``UNTAGGED``, whose Jacobian the tests check to be
  diagonal;
* *reductions*: each entry of an argument contributes to one output (norms, variances, products).

With ``J`` the derivative at the means (eq. 10): mean ``f(mu)``, variance ``J^2 var`` summed over
the entries that contribute to an output, messages ``J d_mu`` and ``J^2 d_var``.

Exact: for functions that are linear in all their Gaussians together.
Approximate: the curvature within the width of the arguments; different arguments are treated as
independent, the same Gaussian passed twice is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils._pytree import tree_flatten, tree_unflatten

from tractable.gaussian import Gaussian, Rule, moment_rule
from tractable.torch_functions import torch_functions

Function = Callable[..., Tensor]

UNTAGGED = """
    hardswish log_sigmoid logsigmoid absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh
    clip fix negative sgn multiply special_expit special_exp2 special_expm1 special_erf special_erfc
    special_erfinv special_digamma special_gammaln special_i0 special_log1p special_logit
    special_ndtr special_psi special_round special_sinc special_xlogy special_polygamma
    special_multigammaln softsign tanhshrink
"""
_UNTAGGED = frozenset(UNTAGGED.split())
_NOT_POINTWISE = frozenset({"equal", "rrelu", "max", "min", "clone", "frexp", "native_dropout"})


@cache
def is_pointwise(name: str) -> bool:
    """Return whether a torch function of this name acts entry by entry."""
    if name in _NOT_POINTWISE or name.endswith("_backward"):
        return False
    if name in _UNTAGGED:
        return True
    packet = getattr(torch.ops.aten, name, None)
    overloads = [] if packet is None else packet.overloads()
    return any(torch.Tag.pointwise in getattr(packet, each).tags for each in overloads)


class TangentFunction(torch.autograd.Function):
    """The tangent of a function whose input entries each contribute to one entry of the output.

    ``gather`` sums the entries that contribute to one output; it is None for pointwise functions.
    """

    @staticmethod
    def forward(ctx: Any, function: Function, gather: Any, n: int, *moments: Tensor) -> Any:
        """Return the value at the means, and the variances times the squared slopes."""
        locs = [loc.detach().clone().requires_grad_() for loc in moments[:n]]
        with torch.enable_grad():
            value = function(*locs)
            slopes = [torch.zeros_like(loc) for loc in locs]
            if value.requires_grad:
                ones = torch.ones_like(value)
                found = torch.autograd.grad(value, locs, ones, allow_unused=True)
                slopes = [o if s is None else s for o, s in zip(slopes, found, strict=True)]
        variance = torch.zeros_like(value, requires_grad=False)
        for slope, var in zip(slopes, moments[n:], strict=True):
            # A slope may be infinite (the square root at zero), which is harmless without variance.
            part = torch.where(var > 0, slope * slope * var, 0).to(value.dtype)
            variance = variance + (part if gather is None else gather(part))
        ctx.save_for_backward(*slopes)
        ctx.shape, ctx.gather = value.shape, gather
        ctx.set_materialize_grads(False)
        return value.detach(), variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_mu: Tensor | None, d_var: Tensor | None) -> Any:
        """Return ``J d_mu`` and ``J^2 d_var`` for each argument."""
        slopes = ctx.saved_tensors
        if ctx.gather is not None:
            d_mu, d_var = (
                None if d is None else _spread(ctx.gather, d, slopes[0]) for d in (d_mu, d_var)
            )
        to_means = [None if d_mu is None else d_mu * s for s in slopes]
        to_variances = [None if d_var is None else d_var * s * s for s in slopes]
        return None, None, None, *to_means, *to_variances


def _spread(gather: Function, d: Tensor, like: Tensor) -> Tensor:
    """Return messages to outputs, repeated for the entries that contribute to each."""
    entries = torch.zeros_like(like, requires_grad=True)
    with torch.enable_grad():
        (found,) = torch.autograd.grad(gather(entries), entries, d)
    return found


def tangent(function: Function, inputs: Sequence[Gaussian], gather: Any = None) -> Gaussian:
    """Return the Gaussian of the tangent of ``function`` at the means of ``inputs``.

    Args:
        function: function from the means of ``inputs`` to a tensor.
        inputs: Gaussians, each entry of which contributes to one entry of the output.
        gather: sums the entries that contribute to one output; None for pointwise functions.
    """
    moments = [*(g.loc for g in inputs), *(g.variance for g in inputs)]
    return Gaussian.wrap(*TangentFunction.apply(function, gather, len(inputs), *moments))


def pointwise(function: Any) -> Rule:
    """Return the rule of a function that acts entry by entry on any number of Gaussians."""
    floating: list[bool] = []  # not empty once the results are known to be floating point

    def rule(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten((args, kwargs))
        given = {id(leaf): leaf for leaf in leaves if isinstance(leaf, Gaussian)}
        places = [list(given).index(id(leaf)) if id(leaf) in given else -1 for leaf in leaves]

        def of(*values: Tensor) -> Tensor:
            filled = [leaf if i < 0 else values[i] for leaf, i in zip(leaves, places, strict=True)]
            positional, named = tree_unflatten(filled, spec)
            result: Tensor = function(*positional, **named)
            return result

        inputs = list(given.values())
        if not floating:
            with torch.no_grad():
                value = of(*(g.loc for g in inputs))
            if not value.is_floating_point():
                return value
            floating.append(True)
        shapes = {leaf.shape for leaf in leaves if isinstance(leaf, Tensor)}
        if len(shapes) > 1:
            shape = torch.broadcast_shapes(*shapes)
            inputs = [Gaussian.wrap(g.loc.expand(shape), g.variance.expand(shape)) for g in inputs]
        z = tangent(of, inputs)
        return inputs[0].with_moments(z.loc, z.variance) if len(inputs) == 1 else z

    return rule


def reduction(
    function: Function, inputs: Sequence[Gaussian], dim: Any = None, keepdim: bool = False
) -> Gaussian:
    """Return the tangent of a function that reduces the entries along ``dim`` to one number.

    Args:
        function: function from the means of ``inputs`` to a tensor.
        inputs: Gaussians.
        dim: reduced dimensions, all by default.
        keepdim: whether the result keeps the reduced dimensions with size one.
    """
    empty = dim is None or (isinstance(dim, tuple | list) and not dim)

    def gather(part: Tensor) -> Tensor:
        if empty:
            total = part.sum()
            return total.reshape([1] * part.dim()) if keepdim else total
        return part.sum(dim, keepdim=keepdim)

    return tangent(function, inputs, gather)


@moment_rule(*torch_functions("prelu"))
def prelu(input: Any, weight: Any) -> Gaussian:
    """Return ``input`` above zero and ``weight input`` below; one weight, or one per channel."""
    if weight.numel() == 1:
        weight = weight.reshape([1] * input.dim())
    elif input.dim() > 1:
        weight = weight.reshape([1, -1] + [1] * (input.dim() - 2))
    curve: Gaussian = _prelu(input, weight)
    return curve


_prelu = pointwise(lambda x, w: torch.where(x > 0, x, w * x))


_POSITION_OF_DIM = {
    "norm": 2,
    "linalg_vector_norm": 2,
    "linalg_norm": 2,
    "var": 1,
    "std": 1,
    "prod": 1,
    "logsumexp": 1,
    "special_logsumexp": 1,
    "nansum": 1,
    "nanmean": 1,
}


def _reducer(function: Any, position: int) -> Rule:
    def rule(input: Gaussian, *args: Any, **kwargs: Any) -> Gaussian:
        dim = kwargs.get("dim", args[position - 1] if len(args) >= position else None)
        if isinstance(dim, bool):  # var(x, unbiased)
            dim = None
        with torch.no_grad():
            shape = function(input.loc, *args, **kwargs).shape
        keepdim = len(shape) == input.dim() and input.dim() > 0
        return reduction(lambda x: function(x, *args, **kwargs), [input], dim, keepdim)

    return rule


def _named(name: str) -> tuple[Any, ...]:
    if name.startswith("linalg_"):
        return (getattr(torch.linalg, name.removeprefix("linalg_")),)
    if name.startswith("special_"):
        return (getattr(torch.special, name.removeprefix("special_")),)
    return torch_functions(name)


for _name, _position in _POSITION_OF_DIM.items():
    for _function in _named(_name):
        moment_rule(_function)(_reducer(_function, _position))


@moment_rule(torch.var_mean)
def var_mean(input: Gaussian, *args: Any, **kwargs: Any) -> tuple[Gaussian, Gaussian]:
    """Return the variance over entries, and their mean."""
    return _with_mean(input.var(*args, **kwargs), input, args, kwargs)


@moment_rule(torch.std_mean)
def std_mean(input: Gaussian, *args: Any, **kwargs: Any) -> tuple[Gaussian, Gaussian]:
    """Return the standard deviation over entries, and their mean."""
    return _with_mean(input.std(*args, **kwargs), input, args, kwargs)


def _with_mean(spread: Any, input: Gaussian, args: Any, kwargs: Any) -> tuple[Any, Any]:
    dim = kwargs.get("dim", args[0] if args and not isinstance(args[0], bool) else None)
    keepdim = kwargs.get("keepdim", False)
    return spread, input.mean() if dim is None else input.mean(dim, keepdim=keepdim)
