"""Rules of the functions that only move entries, and of the ones that do nothing.

Exact: all of them, entry by entry.  Approximate: copies (``expand``, ``repeat``) are afterwards
taken as independent, so a sum of copies has too small a variance.  Ordinary gradients through
them already are messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tractable.gaussian import Gaussian, moment_rule, spellings
from tractable.rules import positions
from tractable.rules.positions import Common

_MOVES = """
    index_select expand expand_as broadcast_to repeat tile flip roll detach take_along_dim gather
    masked_select diagonal ravel tril triu
"""
_VIEWS = """
    view reshape flatten unflatten permute transpose swapaxes movedim squeeze unsqueeze narrow
    select view_as reshape_as t adjoint
"""
_SAME = "contiguous clone to cpu cuda float double type_as"
_SPLITS = "chunk split unbind tensor_split split_with_sizes"


def _move(function: Any, follow: Any = None) -> Any:
    """``follow``: what becomes of what the positions have in common; by default it is dropped."""

    def rule(input: Gaussian | Tensor, *args: Any, **kwargs: Any) -> Gaussian | Tensor:
        args = tuple(a.loc if isinstance(a, Gaussian) else a for a in args)  # view_as, expand_as
        if not isinstance(input, Gaussian):
            return function(input, *args, **kwargs)
        loc, variance = (function(m, *args, **kwargs) for m in (input.loc, input.variance))
        common = input.common
        if common is not None:
            common = follow and follow(input, loc, lambda t: function(t, *args, **kwargs))
        return Gaussian.wrap(loc, variance, common)

    return rule


def _viewed(input: Gaussian, _: Tensor, function: Any) -> Common | None:
    assert input.common is not None
    return input.common.moved(input.shape, function)


def _kept(input: Gaussian, loc: Tensor, _: Any) -> Common | None:
    same = (loc.dtype, loc.device) == (input.loc.dtype, input.loc.device)
    return input.common if same else None


def _getitem(input: Any, index: Any) -> Any:
    """``input[index]``; what positions have in common is followed through slices."""
    index = index.loc if isinstance(index, Gaussian) else index
    if not isinstance(input, Gaussian):
        return input[index]
    loc, variance = input.loc[index], input.variance[index]
    common = input.common
    if common is not None:
        parts = index if isinstance(index, tuple) else (index,)
        plain = all(p is None or p is ... or isinstance(p, int | slice) for p in parts)
        common = common.moved(input.shape, lambda t: t[index]) if plain else None
    return Gaussian.wrap(loc, variance, common)


def _split(function: Any) -> Any:
    def rule(input: Gaussian, *args: Any, **kwargs: Any) -> tuple[Gaussian, ...]:
        locs = function(input.loc, *args, **kwargs)
        variances = function(input.variance, *args, **kwargs)
        if input.common is None:
            return tuple(Gaussian.wrap(m, v) for m, v in zip(locs, variances, strict=True))
        common = input.common

        def part(i: int) -> Common:
            return common.moved(input.shape, lambda t: function(t, *args, **kwargs)[i])

        moments = zip(locs, variances, strict=True)
        return tuple(Gaussian.wrap(m, v, part(i)) for i, (m, v) in enumerate(moments))

    return rule


def _join(function: Any, joined: Any = lambda *args, **kwargs: None) -> Any:
    def rule(tensors: Sequence[Tensor], *args: Any, **kwargs: Any) -> Gaussian:
        parts = [t if isinstance(t, Gaussian) else constant(t) for t in tensors]
        variance = function([p.variance for p in parts], *args, **kwargs)
        common = joined(parts, variance, *args, **kwargs)
        return Gaussian.wrap(function([p.loc for p in parts], *args, **kwargs), variance, common)

    return rule


def _along(
    parts: Sequence[Gaussian], variance: Tensor, dim: int = 0, **kwargs: Any
) -> Common | None:
    return positions.of_parts(parts, kwargs.get("axis", dim), variance)


def constant(x: Tensor) -> Gaussian:
    """A Gaussian without variance."""
    return Gaussian.wrap(x, torch.zeros_like(x))


for _name in _MOVES.split():
    for _function in spellings(_name):
        moment_rule(_function)(_move(_function))
for _names, _follow in ((_VIEWS, _viewed), (_SAME, _kept)):
    for _name in _names.split():
        for _function in spellings(_name):
            moment_rule(_function)(_move(_function, _follow))
for _name in _SPLITS.split():
    for _function in spellings(_name):
        moment_rule(_function)(_split(_function))
moment_rule(Tensor.__getitem__)(_getitem)
moment_rule(Tensor.__iter__)(_split(torch.unbind))
for _property in ("T", "mT"):
    _getter = getattr(Tensor, _property).__get__
    moment_rule(_getter)(_move(_getter, _viewed))
for _function in (torch.cat, torch.concat, torch.concatenate):
    moment_rule(_function)(_join(_function, _along))
for _function in (torch.stack, torch.hstack):
    moment_rule(_function)(_join(_function))


@moment_rule(F.pad)
def pad(
    input: Gaussian, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Gaussian:
    """Padding with a constant adds entries without variance; other modes copy entries."""
    variance = F.pad(input.variance, pad, mode, 0.0 if mode == "constant" else None)
    common = positions.resized(input, variance.shape)
    return Gaussian.wrap(F.pad(input.loc, pad, mode, value), variance, common)


@moment_rule(F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, torch.dropout)
def dropout(input: Gaussian, *args: Any, **kwargs: Any) -> Gaussian:
    """The identity: the weights are uncertain already."""
    return input
