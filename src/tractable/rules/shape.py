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
_DROPOUTS = "dropout alpha_dropout feature_dropout feature_alpha_dropout"
_SPLITS = "chunk split unbind tensor_split split_with_sizes"


def move(function: Any, follow: Any = None) -> Any:
    """The rule of a function that moves entries; a view of torch is a view of Gaussians.

    ``follow`` says what becomes of what the positions have in common; by default it is dropped.
    """
    alias = name_of(function) in ("detach", "data")  # which torch does not call views

    def rule(input: Gaussian | Tensor, *args: Any, **kwargs: Any) -> Gaussian | Tensor:
        args = tuple(a.loc if isinstance(a, Gaussian) else a for a in args)  # view_as, expand_as
        if kwargs:
            kwargs = {k: a.loc if isinstance(a, Gaussian) else a for k, a in kwargs.items()}
        if not isinstance(input, Gaussian):
            return function(input, *args, **kwargs)
        loc = function(input.loc, *args, **kwargs)
        if loc is input.loc:  # float() of floats: torch returns the tensor itself
            return input
        if not isinstance(loc, Tensor):  # type() without a type is its name
            return loc
        common = input.common
        if common is not None:
            common = follow and follow(input, loc, lambda t: function(t, *args, **kwargs))
        z = Gaussian.wrap(loc, function(input.variance, *args, **kwargs), common)
        if not alias and not is_view(loc, input.loc):
            return z
        return z.view_of(input, lambda t: function(t, *args, **kwargs))

    return rule


def is_view(part: Tensor, whole: Tensor) -> bool:
    """Whether ``part``, made of ``whole``, shares its memory."""
    return part is whole or part._is_view()  # noqa: SLF001  (torch has no public name)


def _viewed(input: Gaussian, _: Tensor, function: Any) -> Common | None:
    assert input.common is not None
    return input.common.moved(input.shape, function)


def _kept(input: Gaussian, loc: Tensor, _: Any) -> Common | None:
    same = (loc.dtype, loc.device) == (input.loc.dtype, input.loc.device)
    return input.common if same else None


def _sliced(input: Any, index: Any) -> Any:
    """``input[index]``; what positions have in common is followed through slices."""
    parts = index if isinstance(index, tuple) else (index,)
    plain = all(p is None or p is ... or isinstance(p, int | slice) for p in parts)
    return (_item_followed if plain else _item)(input, index)


def split(function: Any) -> Any:
    """The rule of a function with several outputs, each of which moves entries."""

    def rule(input: Gaussian, *args: Any, **kwargs: Any) -> tuple[Gaussian, ...]:
        locs = function(input.loc, *args, **kwargs)
        variances = function(input.variance, *args, **kwargs)
        parts = []
        for i, (loc, variance) in enumerate(zip(locs, variances, strict=True)):

            def take(t: Tensor, i: int = i) -> Tensor:
                part: Tensor = function(t, *args, **kwargs)[i]
                return part

            common = input.common and input.common.moved(input.shape, take)
            parts.append(Gaussian.wrap(loc, variance, common).view_of(input, take))
        return tuple(parts)

    return rule


def join(function: Any, joined: Any = lambda *args, **kwargs: None) -> Any:
    """The rule of a function that puts several tensors together.

    ``joined`` says what the positions of the whole have in common; by default nothing.
    """

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
        moment_rule(_function)(move(_function))
for _names, _follow in ((_VIEWS, _viewed), (_SAME, _kept)):
    for _name in _names.split():
        for _function in spellings(_name):
            moment_rule(_function)(move(_function, _follow))
for _name in _SPLITS.split():
    for _function in spellings(_name):
        moment_rule(_function)(split(_function))
_item, _item_followed = move(Tensor.__getitem__), move(Tensor.__getitem__, _viewed)
moment_rule(Tensor.__getitem__)(_sliced)
moment_rule(Tensor.__iter__)(split(torch.unbind))
for _property in ("T", "mT"):
    _getter = getattr(Tensor, _property).__get__
    moment_rule(_getter)(move(_getter, _viewed))
for _function in (torch.cat, torch.concat, torch.concatenate):
    moment_rule(_function)(join(_function, _along))
for _function in (torch.stack, torch.hstack):
    moment_rule(_function)(join(_function))


@moment_rule(F.pad)
def pad(
    input: Gaussian, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Gaussian:
    """Padding with a constant adds entries without variance; other modes copy entries."""
    variance = F.pad(input.variance, pad, mode, 0.0 if mode == "constant" else None)
    common = positions.resized(input, variance.shape)
    return Gaussian.wrap(F.pad(input.loc, pad, mode, value), variance, common)


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
    return Gaussian.wrap(input.loc, input.variance, input.common)
