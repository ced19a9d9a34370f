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

_MOVES = """
    view reshape flatten unflatten permute transpose swapaxes movedim squeeze unsqueeze narrow
    select index_select expand expand_as broadcast_to repeat tile flip roll view_as reshape_as
    contiguous clone detach take_along_dim gather masked_select diagonal ravel t adjoint to cpu
    cuda float double type_as tril triu
"""
_SPLITS = "chunk split unbind tensor_split split_with_sizes"


def _move(function: Any) -> Any:
    def rule(input: Gaussian | Tensor, *args: Any, **kwargs: Any) -> Gaussian | Tensor:
        args = tuple(a.loc if isinstance(a, Gaussian) else a for a in args)  # view_as, expand_as
        if not isinstance(input, Gaussian):
            return function(input, *args, **kwargs)
        return Gaussian.wrap(
            function(input.loc, *args, **kwargs), function(input.variance, *args, **kwargs)
        )

    return rule


def _split(function: Any) -> Any:
    def rule(input: Gaussian, *args: Any, **kwargs: Any) -> tuple[Gaussian, ...]:
        locs = function(input.loc, *args, **kwargs)
        variances = function(input.variance, *args, **kwargs)
        return tuple(Gaussian.wrap(m, v) for m, v in zip(locs, variances, strict=True))

    return rule


def _join(function: Any) -> Any:
    def rule(tensors: Sequence[Tensor], *args: Any, **kwargs: Any) -> Gaussian:
        parts = [t if isinstance(t, Gaussian) else constant(t) for t in tensors]
        return Gaussian.wrap(
            function([p.loc for p in parts], *args, **kwargs),
            function([p.variance for p in parts], *args, **kwargs),
        )

    return rule


def constant(x: Tensor) -> Gaussian:
    """A Gaussian without variance."""
    return Gaussian.wrap(x, torch.zeros_like(x))


for _name in _MOVES.split():
    for _function in spellings(_name):
        moment_rule(_function)(_move(_function))
for _name in _SPLITS.split():
    for _function in spellings(_name):
        moment_rule(_function)(_split(_function))
moment_rule(Tensor.__getitem__)(_move(Tensor.__getitem__))
moment_rule(Tensor.__iter__)(_split(torch.unbind))
for _property in ("T", "mT"):
    _getter = getattr(Tensor, _property).__get__
    moment_rule(_getter)(_move(_getter))
for _function in (torch.cat, torch.concat, torch.concatenate, torch.stack, torch.hstack):
    moment_rule(_function)(_join(_function))


@moment_rule(F.pad)
def pad(
    input: Gaussian, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Gaussian:
    """Padding with a constant adds entries without variance; other modes copy entries."""
    variance = F.pad(input.variance, pad, mode, 0.0 if mode == "constant" else None)
    return Gaussian.wrap(F.pad(input.loc, pad, mode, value), variance)


@moment_rule(F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, torch.dropout)
def dropout(input: Gaussian, *args: Any, **kwargs: Any) -> Gaussian:
    """The identity: the weights are uncertain already."""
    return input
