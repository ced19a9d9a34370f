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

from tractable.gaussian import Gaussian, moment_rule, name_of, spellings

_MOVES = """
    view reshape flatten unflatten permute transpose swapaxes movedim squeeze unsqueeze narrow
    select index_select expand expand_as broadcast_to repeat tile flip roll view_as reshape_as
    contiguous clone detach take_along_dim gather masked_select diagonal ravel t adjoint to cpu
    cuda float double type_as tril triu
"""
_DROPOUTS = "dropout alpha_dropout feature_dropout feature_alpha_dropout"
_SPLITS = "chunk split unbind tensor_split split_with_sizes"


def move(function: Any) -> Any:
    """The rule of a function that moves entries; a view of torch is a view of Gaussians."""
    alias = name_of(function) in ("detach", "data")  # which torch does not call views

    def rule(input: Gaussian | Tensor, *args: Any, **kwargs: Any) -> Gaussian | Tensor:
        args = tuple(a.loc if isinstance(a, Gaussian) else a for a in args)  # view_as, expand_as
        if not isinstance(input, Gaussian):
            return function(input, *args, **kwargs)
        loc = function(input.loc, *args, **kwargs)
        z = Gaussian.wrap(loc, function(input.variance, *args, **kwargs))
        if not alias and not is_view(loc, input.loc):
            return z
        return z.view_of(input, lambda t: function(t, *args, **kwargs))

    return rule


def is_view(part: Tensor, whole: Tensor) -> bool:
    """Whether ``part``, made of ``whole``, shares its memory."""
    return part is whole or part._is_view()  # noqa: SLF001  (torch has no public name)


def split(function: Any) -> Any:
    """The rule of a function with several outputs, each of which moves entries."""

    def rule(input: Gaussian, *args: Any, **kwargs: Any) -> tuple[Gaussian, ...]:
        locs = function(input.loc, *args, **kwargs)
        variances = function(input.variance, *args, **kwargs)
        parts = [Gaussian.wrap(m, v) for m, v in zip(locs, variances, strict=True)]
        for i, part in enumerate(parts):
            part.view_of(input, lambda t, i=i: function(t, *args, **kwargs)[i])  # type: ignore[misc]
        return tuple(parts)

    return rule


def join(function: Any) -> Any:
    """The rule of a function that puts several tensors together."""

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
        moment_rule(_function)(move(_function))
for _name in _SPLITS.split():
    for _function in spellings(_name):
        moment_rule(_function)(split(_function))
moment_rule(Tensor.__getitem__)(move(Tensor.__getitem__))
moment_rule(Tensor.__iter__)(split(torch.unbind))
for _property in ("T", "mT"):
    _getter = getattr(Tensor, _property).__get__
    moment_rule(_getter)(move(_getter))
for _function in (torch.cat, torch.concat, torch.concatenate, torch.stack, torch.hstack):
    moment_rule(_function)(join(_function))


@moment_rule(F.pad)
def pad(
    input: Gaussian, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Gaussian:
    """Padding with a constant adds entries without variance; other modes copy entries."""
    variance = F.pad(input.variance, pad, mode, 0.0 if mode == "constant" else None)
    return Gaussian.wrap(F.pad(input.loc, pad, mode, value), variance)


@moment_rule(
    F.dropout,
    F.dropout1d,
    F.dropout2d,
    F.dropout3d,
    F.alpha_dropout,
    F.feature_alpha_dropout,
    *(f for name in _DROPOUTS.split() for f in spellings(name)),
)
def dropout(
    input: Gaussian | Tensor, p: float = 0.5, training: bool = True, *args: Any, **kwargs: Any
) -> Any:
    """The identity: the weights are uncertain already."""
    if not training or p == 0 or not isinstance(input, Gaussian):  # as torch
        return input
    return Gaussian.wrap(input.loc, input.variance)
