"""Moment rules of functions that move, repeat or add up entries: torch's function of both moments.

Such a function is linear with coefficients zero and one in all its tensors together.  It is applied
to the means and to the variances, and ordinary gradients through it are the messages.  Constant
tensors among its arguments have variance zero.

Exact: for independent entries.
Approximate: copies (``expand``, ``repeat``) and sums that share entries (cumulative ones,
overlapping windows) are treated as independent, so a sum of copies has too small a variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map

from tractable.gaussian import Gaussian, Rule, moment_rule, write_in_place
from tractable.rules import shared_variance
from tractable.rules.bilinear import moments_of
from tractable.rules.shared_variance import SharedVariance
from tractable.torch_functions import function_name, torch_functions

_VIEWS = """
    view reshape flatten unflatten permute transpose swapaxes movedim squeeze unsqueeze narrow
    select view_as reshape_as t adjoint
"""
"""Functions that return views, in which positions stay positions."""
_MOVES = """
    index_select expand expand_as broadcast_to repeat tile flip roll detach take_along_dim gather
    masked_select diagonal ravel tril triu moveaxis swapdims unfold fold pixel_shuffle
    pixel_unshuffle channel_shuffle native_channel_shuffle repeat_interleave rot90 fliplr flipud
    diag diag_embed diagflat take atleast_1d atleast_2d atleast_3d as_strided cumsum trace
    squeeze_copy positive half bfloat16 type resolve_conj resolve_neg pin_memory im2col col2im
    view_as_real alias_copy conj max_unpool1d max_unpool2d max_unpool3d
"""
_COPIES = "contiguous clone to cpu cuda float double type_as"
_SPLITS = """
    chunk split unbind tensor_split split_with_sizes hsplit vsplit dsplit unsafe_chunk unsafe_split
"""
_JOINS = "stack hstack vstack dstack column_stack row_stack"
_WRITES = """
    scatter_add index_copy index_put index_fill masked_fill masked_scatter select_scatter
    slice_scatter diagonal_scatter put fill
"""
_WRITE_ONE_VALUE = {"masked_fill", "index_fill", "fill", "fill_"}
"""Functions whose last argument is one value to be written."""
_DROPOUTS = "dropout alpha_dropout feature_dropout feature_alpha_dropout"


def move(function: Any, follow: Any = None) -> Any:
    """Return the rule of a function that rearranges entries, such as ``reshape``.

    If torch returns a view, the result is a view of the Gaussian.

    Args:
        function: the torch function.
        follow: function from the input, the means of the result and the move to the variance that
            the result's positions share.  Default: none.
    """
    alias = function_name(function) in ("detach", "data")  # which torch does not call views

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
        shared = input.shared
        if shared is not None:
            shared = follow and follow(input, loc, lambda t: function(t, *args, **kwargs))
        z = Gaussian.wrap(loc, function(input.variance, *args, **kwargs), shared)
        if not alias and not is_view(loc, input.loc):
            return z
        return z.register_as_view_of(input, lambda t: function(t, *args, **kwargs))

    return rule


def is_view(part: Tensor, whole: Tensor) -> bool:
    """Return whether ``part``, computed from ``whole``, shares its memory."""
    return part is whole or part._is_view()  # noqa: SLF001  (torch has no public name)


def _viewed(input: Gaussian, _: Tensor, function: Any) -> SharedVariance | None:
    assert input.shared is not None
    return input.shared.moved(input.shape, function)


def _kept(input: Gaussian, loc: Tensor, _: Any) -> SharedVariance | None:
    same = (loc.dtype, loc.device) == (input.loc.dtype, input.loc.device)
    return input.shared if same else None


def _sliced(input: Any, index: Any) -> Any:
    """Return ``input[index]``; the variance that positions share is kept for slices."""
    parts = index if isinstance(index, tuple) else (index,)
    plain = all(p is None or p is ... or isinstance(p, int | slice) for p in parts)
    return (_item_followed if plain else _item)(input, index)


def split(function: Any) -> Any:
    """Return the rule of a function with several outputs, each of which moves entries."""

    def rule(input: Gaussian, *args: Any, **kwargs: Any) -> tuple[Gaussian, ...]:
        locs = function(input.loc, *args, **kwargs)
        variances = function(input.variance, *args, **kwargs)
        parts = []
        for i, (loc, variance) in enumerate(zip(locs, variances, strict=True)):

            def take(t: Tensor, i: int = i) -> Tensor:
                part: Tensor = function(t, *args, **kwargs)[i]
                return part

            shared = input.shared and input.shared.moved(input.shape, take)
            parts.append(Gaussian.wrap(loc, variance, shared).register_as_view_of(input, take))
        return tuple(parts)

    return rule


def join(function: Any, joined: Any = lambda *args, **kwargs: None) -> Any:
    """Return the rule of a function that joins several tensors.

    Args:
        function: the torch function.
        joined: function from the parts, the variance and the other arguments to the variance that
            the result's positions share.  Default: none.
    """

    def rule(tensors: Sequence[Tensor], *args: Any, **kwargs: Any) -> Gaussian:
        parts = [t if isinstance(t, Gaussian) else constant(t) for t in tensors]
        variance = function([p.variance for p in parts], *args, **kwargs)
        shared = joined(parts, variance, *args, **kwargs)
        return Gaussian.wrap(function([p.loc for p in parts], *args, **kwargs), variance, shared)

    return rule


def _along(
    parts: Sequence[Gaussian], variance: Tensor, dim: int = 0, **kwargs: Any
) -> SharedVariance | None:
    return shared_variance.of_parts(parts, kwargs.get("axis", dim), variance)


def constant(x: Tensor) -> Gaussian:
    """Return a Gaussian with variance zero."""
    return Gaussian.wrap(x, torch.zeros_like(x))


@moment_rule(F.pad)
def pad(
    input: Gaussian, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Gaussian:
    """Pad: a constant adds entries without variance, other modes copy entries."""
    variance = F.pad(input.variance, pad, mode, 0.0 if mode == "constant" else None)
    shared = shared_variance.resized(input, variance.shape)
    return Gaussian.wrap(F.pad(input.loc, pad, mode, value), variance, shared)


@moment_rule(
    F.dropout,
    F.dropout1d,
    F.dropout2d,
    F.dropout3d,
    F.alpha_dropout,
    F.feature_alpha_dropout,
    *(f for name in _DROPOUTS.split() for f in torch_functions(name)),
)
def dropout(
    input: Gaussian | Tensor, p: float = 0.5, training: bool = True, *args: Any, **kwargs: Any
) -> Any:
    """Return the input: the weights are uncertain already."""
    if not training or p == 0 or not isinstance(input, Gaussian):  # as torch
        return input
    return input.with_moments(input.loc, input.variance)


def apply_to_both_moments(function: Any) -> Rule:
    """Return the rule that applies a function to the means and to the variances."""
    name = function_name(function)

    def without_variance(value: Any) -> Any:
        if isinstance(value, Gaussian):
            return value.variance
        if isinstance(value, Tensor) and value.is_floating_point():
            return torch.zeros_like(value)
        return 0.0 if isinstance(value, float) else value

    def rule(*args: Any, **kwargs: Any) -> Any:
        means = tree_map(lambda a: a.loc if isinstance(a, Gaussian) else a, (args, kwargs))
        spreads = tree_map(without_variance, (args, kwargs))
        if name in _WRITE_ONE_VALUE:
            spreads = _with_value_zero(*spreads)
        return Gaussian.wrap(function(*means[0], **means[1]), function(*spreads[0], **spreads[1]))

    return rule


def _with_value_zero(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return the arguments with a variance of zero for the value that is written.

    A Gaussian value has its variance here already; a number and a tensor of integers do not.
    """
    if "value" in kwargs:
        return args, {**kwargs, "value": _zero_if_integer(kwargs["value"])}
    return (*args[:-1], _zero_if_integer(args[-1])), kwargs


def _zero_if_integer(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value if value.is_floating_point() else torch.zeros_like(value)
    return 0


@moment_rule(torch.block_diag)
def block_diag(*tensors: Any) -> Any:
    """Return a block-diagonal matrix."""
    return join(lambda parts: torch.block_diag(*parts))(tensors)


@moment_rule(*torch_functions("scatter"))
def scatter(
    input: Any, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: Any = None
) -> Any:
    """Return ``input`` with the entries of ``src`` (or a number) written, added or multiplied."""
    source = value if src is None else src
    if not isinstance(source, Tensor):
        source = torch.full(index.shape, source, dtype=input.dtype, device=input.device)
    if reduce is None:
        return _scatter(input, dim, index, source)
    if reduce == "add":
        return input.scatter_add(dim, index, source)
    if reduce != "multiply":
        raise ValueError(f"reduce must be 'add' or 'multiply', got {reduce!r}")
    return input.scatter_reduce(dim, index, source, "prod")


_scatter = apply_to_both_moments(torch.scatter)


@moment_rule(*torch_functions("index_add"))
def index_add(input: Any, dim: int, index: Tensor, source: Any, *, alpha: float = 1) -> Gaussian:
    """Return ``input`` with the rows of ``alpha source`` added at ``index``."""
    (x, var_x), (y, var_y) = moments_of(input), moments_of(source)
    variance = torch.zeros_like(x) if var_x is None else var_x
    if var_y is not None:
        variance = variance.index_add(dim, index, var_y, alpha=alpha * alpha)
    return Gaussian.wrap(x.index_add(dim, index, y, alpha=alpha), variance)


@moment_rule(*torch_functions("scatter_reduce"))
def scatter_reduce(
    input: Any, dim: int, index: Tensor, src: Any, reduce: str, *, include_self: bool = True
) -> Gaussian:
    """Return sums, means, products or extremes of entries with one index; extremes by the means."""
    x, y = (g if isinstance(g, Gaussian) else constant(g) for g in (input, src))

    def spread(x: Tensor, y: Tensor) -> Tensor:
        return x.scatter_reduce(dim, index, y, reduce, include_self=include_self)

    return scattered(spread, x, y, dim, index)


def scattered(function: Any, x: Gaussian, y: Gaussian, dim: int, index: Tensor) -> Gaussian:
    """Return the tangent of a function that sends each entry of ``y`` to one entry of ``x``."""
    cut = tuple(slice(0, n) for n in index.shape)
    y = y[cut]  # type: ignore[assignment]
    locs = [x.loc.detach().clone().requires_grad_(), y.loc.detach().clone().requires_grad_()]
    with torch.enable_grad():
        value = function(*locs)
        slopes = torch.autograd.grad(value.sum(), locs)
    variance = x.variance * slopes[0].square()
    variance = variance.scatter_add(dim, index, y.variance * slopes[1].square())
    return Gaussian.wrap(function(x.loc, y.loc), variance)


@moment_rule(Tensor.__setitem__)
def assign(target: Tensor, index: Any, value: Any) -> None:
    """Set ``target[index] = value``, under all names of ``target``."""
    (x, var_x), (y, var_y) = moments_of(target), moments_of(value)
    loc = x.clone()
    variance = torch.zeros_like(x) if var_x is None else var_x.clone()
    index = tree_map(lambda a: a.loc if isinstance(a, Gaussian) else a, index)
    loc[index] = y
    variance[index] = 0.0 if var_y is None else var_y
    write_in_place(target, Gaussian.wrap(loc, variance))


@moment_rule(Tensor.copy_)
def copy(target: Tensor, source: Any, non_blocking: bool = False) -> Any:
    """Set ``target`` to the values of ``source``."""
    g = source if isinstance(source, Gaussian) else constant(source.to(target.dtype))
    return write_in_place(target, g.expand(target.shape))  # type: ignore[arg-type]


@moment_rule(Tensor.zero_)
def zero(target: Any) -> Any:
    """Set all entries to zero, without variance."""
    return target.fill_(0.0)


@moment_rule(torch.broadcast_tensors)
def broadcast_tensors(*tensors: Any) -> list[Any]:
    """Return the tensors, expanded to one shape."""
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    shape = torch.broadcast_shapes(*(t.shape for t in tensors))
    return [t.expand(shape) for t in tensors]


@moment_rule(torch.meshgrid)
def meshgrid(*tensors: Any, indexing: str = "ij") -> list[Any]:
    """Return the coordinates of a grid, each a copy of one axis."""
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    sizes = [t.numel() for t in tensors]
    grids = [
        t.reshape([-1 if i == j else 1 for j in range(len(tensors))]).expand(sizes)
        for i, t in enumerate(tensors)
    ]
    return [g.transpose(0, 1) for g in grids] if indexing == "xy" and len(sizes) > 1 else grids


@moment_rule(*torch_functions("diff"))
def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Return the ``n``-th differences of neighbors: sums with binomial coefficients."""
    if n == 0:
        return input.clone()
    parts = [part for part in (prepend, input, append) if part is not None]
    z: Any = torch.cat(parts, dim) if len(parts) > 1 else input
    left = max(z.shape[dim] - n, 0)
    terms = range(n + 1 if left else 1)
    variance = sum(math.comb(n, k) ** 2 * z.variance.narrow(dim, k, left) for k in terms)
    return Gaussian.wrap(torch.diff(z.loc, n, dim), variance)


# --- registration ------------------------------------------------------------------------------


def _existing(names: str) -> Any:
    """Yield the functions of these names; older versions of torch do not have all of them."""
    for name in names.split():
        try:
            yield from torch_functions(name)
        except AttributeError:
            continue


_item, _item_followed = move(Tensor.__getitem__), move(Tensor.__getitem__, _viewed)
moment_rule(Tensor.__getitem__)(_sliced)
moment_rule(Tensor.__iter__)(split(torch.unbind))
for _function in _existing(_MOVES):
    moment_rule(_function)(move(_function))
for _function in _existing(_VIEWS):
    moment_rule(_function)(move(_function, _viewed))
for _function in _existing(_COPIES):
    moment_rule(_function)(move(_function, _kept))
for _function in _existing(_SPLITS):
    moment_rule(_function)(split(_function))
for _function in _existing(_JOINS):
    moment_rule(_function)(join(_function))
for _function in (torch.cat, torch.concat, torch.concatenate):
    moment_rule(_function)(join(_function, _along))
for _function in _existing(_WRITES):
    moment_rule(_function)(apply_to_both_moments(_function))
for _property in ("T", "mT"):
    _getter = getattr(Tensor, _property).__get__
    moment_rule(_getter)(move(_getter, _viewed))
for _property in ("H", "mH", "data", "real"):
    _getter = getattr(Tensor, _property).__get__
    moment_rule(_getter)(move(_getter))
