"""Moment rules of functions that select entries by their means: extremes, sorting, masks.

Exact: if the order of the means is that of the values, and if the mask is given.
Approximate: the uncertainty of the selection is ignored, as in max pooling.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tractable.gaussian import Gaussian, Rule, moment_rule
from tractable.rules.bilinear import moments_of
from tractable.torch_functions import torch_functions


def _values_of_chosen(function: Any) -> Rule:
    """Return the rule of ``max(dim)``, ``sort``, ``topk``: values with variances, and indices."""

    def rule(input: Gaussian, *args: Any, **kwargs: Any) -> Any:
        with torch.no_grad():
            found = function(input.loc, *args, **kwargs)
        dim, indices = _dim(function, input, args, kwargs), found[1]
        missing = indices.dim() < input.dim()
        places = indices.unsqueeze(dim) if missing else indices
        chosen: Any = input.gather(dim, places)
        return type(found)((chosen.squeeze(dim) if missing else chosen, indices))

    return rule


_DIM_FIRST = {"max", "min", "sort", "median", "nanmedian", "mode", "cummax", "cummin"}


def _dim(function: Any, input: Gaussian, args: Any, kwargs: Any) -> int:
    position = 0 if function.__name__ in _DIM_FIRST else 1
    dim = kwargs.get("dim", args[position] if len(args) > position else -1)
    return int(dim) if input.dim() else 0


for _name in "topk sort kthvalue mode cummax cummin".split():
    for _function in torch_functions(_name):
        moment_rule(_function)(_values_of_chosen(_function))


def _extreme(function: Any, of_two: Any, argument: Any) -> Rule:
    by_dim = _values_of_chosen(function)

    def rule(input: Any, *args: Any, **kwargs: Any) -> Any:
        second = args[0] if args else kwargs.get("other")
        if isinstance(second, Tensor):
            return of_two(input, second)
        if args or kwargs:
            return by_dim(input, *args, **kwargs)
        # A copy, because indexing returns a view and torch.max does not.
        return input.reshape(-1)[argument(input.loc.reshape(-1))].clone()

    return rule


for _name, _of_two, _argument in (
    ("max", torch.maximum, torch.argmax),
    ("min", torch.minimum, torch.argmin),
):
    for _function in torch_functions(_name):
        moment_rule(_function)(_extreme(_function, _of_two, _argument))


@moment_rule(*torch_functions("median"), *torch_functions("nanmedian"))
def median(input: Gaussian, *args: Any, **kwargs: Any) -> Any:
    """Return the entry whose mean is the median of the means."""
    if args or kwargs:
        return _values_of_chosen(torch.median)(input, *args, **kwargs)
    flat: Any = input.reshape(-1)
    return flat[torch.median(flat.loc, 0).indices].clone()


def _by_largest(argument: Any) -> Rule:
    def rule(input: Gaussian, dim: Any = (), keepdim: bool = False) -> Gaussian:
        dims = (dim,) if isinstance(dim, int) else tuple(dim or range(input.dim()))
        dims = tuple(d % max(input.dim(), 1) for d in dims)
        kept = [d for d in range(input.dim()) if d not in dims]
        flat: Any = input.permute(*kept, *dims).reshape(*(input.shape[d] for d in kept), -1)
        chosen = flat.gather(-1, argument(flat.loc, -1, keepdim=True)).squeeze(-1)
        if not keepdim:
            return chosen
        shape = [1 if d in dims else n for d, n in enumerate(input.shape)]
        return chosen.reshape(shape)

    return rule


for _name, _argument in (("amax", torch.argmax), ("amin", torch.argmin)):
    moment_rule(*torch_functions(_name))(_by_largest(_argument))


@moment_rule(torch.where)
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """Return ``input`` where the condition holds, else ``other``; or the indices where it holds."""
    if isinstance(condition, Gaussian):
        condition = condition.loc.detach()
    if input is None:
        return torch.where(condition)
    (x, var_x), (y, var_y) = moments_of(input), moments_of(other)
    loc = torch.where(condition, x, y)
    variance = torch.where(
        condition,
        0.0 if var_x is None else var_x.to(loc.dtype),
        0.0 if var_y is None else var_y.to(loc.dtype),
    )
    return Gaussian.wrap(loc, variance.expand(loc.shape).to(loc.dtype))


@moment_rule(Tensor.where)
def where_method(input: Any, condition: Any, other: Any) -> Any:
    """Return ``torch.where`` as a method of its second argument."""
    return where(condition, input, other)
