"""The variance of a mean over positions, where positions share the weights that made them.

The pixels of a feature map, or the steps of a sequence, are computed with the same weights: their
errors are alike and hardly average out, so that a mean over P of them keeps far more than 1/P of
their variance.  One number per row and channel says how much: ``V``, the variance of the mean over
all positions.  It follows a network at the cost of a layer at a single position, because a mean
over positions commutes with everything that is linear and the same at each of them.

With ``a`` the mean over positions of the input's means (per offset k of a kernel), ``f`` the share
of the positions where an offset lies inside the image, and weights ``N(mu, s)``:

    V' = sum s (a^2 + f^2 V) + sum_c V (sum_k mu f)^2 + s_bias                     a layer
    V = rho (mean sqrt v)^2 + (1 - rho) mean v / P          defines the common share rho, which
                                                            functions of each entry do not change
    var = mean v (1/n + r (1 - 1/n)),  V = mean v (1/P + r (1 - 1/P))       a mean over n of P

Messages: ``cov(mean z, w) = a var w`` is what the summed messages of the means give already.  The
message of a variance goes back the way V came: ``a^2 d_var`` to a weight, where the squares of P
messages would add up to less, by up to a factor P.

Exact: V of a layer on constant inputs; of one on uncertain inputs too, up to the borders of
a convolution.
Approximate: a function that acts entry by entry leaves the common share as it is; means over some
of the positions take all pairs as equally correlated; correlations between channels are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tractable.moments.maps import Convolution


@dataclass(frozen=True)
class PooledVariance:
    """What is known of the mean over positions of a state."""

    variance: Tensor
    """V, of size one where the positions were; messages go back through it."""
    dims: tuple[int, ...]
    """The dimensions of the state that hold positions, from the front."""
    measure: Callable[[], Tensor]
    """Finds the share."""

    @cached_property
    def share(self) -> Tensor:
        """The share rho of the variance that the positions have in common, without a graph."""
        return self.measure()


def pooled(mean_variance: Tensor, few: Tensor, dims: tuple[int, ...], count: int) -> PooledVariance:
    """What is known of ``count`` states, ``few`` of whose variances are given, and of V."""
    value = mean_variance.detach()
    return PooledVariance(mean_variance, dims, lambda: _share(value, few, dims, count))


def _share(value: Tensor, few: Tensor, dims: tuple[int, ...], count: int) -> Tensor:
    with torch.no_grad():
        alone, together = _bounds(few, deviation(few), dims, count)
        room = (together - alone).clamp_min(torch.finfo(few.dtype).eps * together)
        return (value - alone) / torch.where(room > 0, room, 1)


def deviation(variance: Tensor) -> Tensor:
    """The root, with the least normal number for zero: of zeros, torch's takes 40 times as long."""
    return variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt_()


def count_of(shape: torch.Size, dims: tuple[int, ...]) -> int:
    """How many positions there are."""
    return math.prod(shape[dim] for dim in dims)


def valued(value: Tensor, source: Tensor) -> Tensor:
    """``value``, whose messages go to ``source`` in proportion to it."""
    if not source.requires_grad:
        return value
    with torch.no_grad():
        tiny = torch.finfo(value.dtype).tiny ** 0.5
        factor = value / source.clamp_min(tiny)
        rest = torch.addcmul(value, factor, source, value=-1)
    return torch.addcmul(rest, factor, source)


def sampled(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Some 30 positions, evenly spread: enough for a mean of variances, and cheap."""
    most = _SAMPLED[min(len(dims), len(_SAMPLED)) - 1]
    index: list[Any] = [slice(None)] * x.ndim
    for dim in dims:
        step = (x.shape[dim] + most // 2) // most
        if step > 1:
            index[dim] = slice(step // 2, None, step)
    return x[tuple(index)].contiguous()


_SAMPLED = (36, 6, 3)
"""Positions along each dimension, for one, two and three dimensions."""


def loaded(deviation: Tensor, share: Tensor | float, dims: tuple[int, ...], count: int) -> Tensor:
    """Variance of the mean of ``count`` states, some of whose (signed) deviations are given.

    ``rho (mean sd)^2 + (1 - rho) mean sd^2 / P``
    """
    return _between(*_bounds(deviation * deviation, deviation, dims, count), share)


def _bounds(
    variance: Tensor, deviation: Tensor, dims: tuple[int, ...], count: int
) -> tuple[Tensor, Tensor]:
    """Variance of the mean of states that have nothing and all in common."""
    alone = variance.mean(dims, keepdim=True) / count
    return alone, deviation.mean(dims, keepdim=True).square()


def _between(alone: Tensor, together: Tensor, share: Tensor | float) -> Tensor:
    """Variance of the mean of states that have a share in common."""
    return torch.clamp_min(alone + share * (together - alone), 0)


def independent(variance: Tensor, dims: tuple[int, ...]) -> Tensor:
    """V of a state whose positions are independent, or one and the same."""
    full = tuple(dim for dim in dims if variance.shape[dim] > 1)
    if not full:
        return variance
    return variance.mean(full, keepdim=True) / count_of(variance.shape, full)


def mean_variance(few: Tensor, pooled: PooledVariance, count: int) -> Tensor:
    """V of ``count`` states now, ``few`` of whose variances are given."""
    with torch.no_grad():
        value = _between(*_bounds(few, deviation(few), pooled.dims, count), pooled.share)
    return valued(value, pooled.variance)


def window_variance(
    average: Tensor,
    inside: Tensor | float,
    weight: Tensor | float,
    mean_variance: Tensor,
    dims: tuple[int, ...],
    count: int,
) -> Tensor:
    """Variance of the means over windows.

    Args:
        average: the same means of the variances.
        inside: the sum of the weights of each window (less than one where it is padded).
        weight: the weight that each entry of a window has, ``1 / n``.
        mean_variance: V.
        dims: the dimensions that hold positions.
        count: the number of all positions.
    """
    extra = (inside - weight) / (1 - 1 / count)
    with torch.no_grad():
        level = average.mean(dims, keepdim=True)
        per_level = extra / level.clamp_min(torch.finfo(level.dtype).tiny)
    alone = average * (weight - extra / count)
    return torch.addcmul(alone, average.detach(), per_level * mean_variance)


# --- layers ----------------------------------------------------------------------------------


def linear(
    mean: Tensor, incoming: Tensor | None, w: Tensor, var_w: Tensor | None, var_b: Tensor | None
) -> Tensor:
    """V of ``x w^T + b``, from the mean over positions of the means of x and V of x.

    As in every rule, a message to a factor holds the squared *mean* of the other one.
    """
    if var_w is not None:
        found = F.linear((mean * mean).detach(), var_w, var_b)
    else:
        found = w.new_zeros(()) if var_b is None else var_b
    if incoming is None:
        return found
    if var_w is not None:
        found = found + F.linear(incoming, var_w).detach()
    return found + F.linear(incoming, (w * w).detach())


def scaled(
    mean: Tensor, incoming: Tensor, w: Tensor, var_w: Tensor | None, var_b: Tensor | None
) -> Tensor:
    """V of ``x w + b`` whose ``w`` and ``b`` are the same at all positions."""
    found = incoming * (w * w).detach()
    if var_w is not None:
        found = found + (mean * mean) * var_w + (incoming * var_w).detach()
    return found if var_b is None else found + var_b


def convolution(
    geometry: Convolution,
    x: Tensor,
    incoming: Tensor | None,
    w: Tensor,
    var_w: Tensor | None,
    var_b: Tensor | None,
    out: torch.Size,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """V of a convolution of ``x``, whose means are given in full, with V of x.

    Also the two factors that messages go back by: ``a^2`` and ``(sum_k mu f)^2``.
    """
    kernel, groups = w.shape[2:], geometry.groups
    met, inside = _shares(geometry, x.shape[2:], kernel, out[2:], x.dtype, x.device)
    squares = through = None
    if var_w is not None:
        squares = (x.flatten(2) @ met).square_().reshape(*x.shape[:2], *kernel)
        found = _at_one_position(squares, var_w, var_b, groups)
    else:
        found = x.new_zeros(()) if var_b is None else var_b.reshape(-1, *[1] * len(kernel))
    if incoming is None:
        return found, squares, None
    shape = *w.shape[:2], *[1] * len(kernel)
    through = (w.flatten(2) @ inside).square_().reshape(shape)
    if var_w is None:
        return found + _at_one_position(incoming, through, None, groups), None, through
    both = torch.add(through, (var_w.flatten(2) @ (inside * inside)).reshape(shape))
    return found.add_(_at_one_position(incoming, both, None, groups)), squares, through


def convolution_messages(
    d_var: Tensor, squares: Tensor | None, through: Tensor | None, groups: int
) -> tuple[Tensor | None, Tensor | None, Tensor]:
    """Messages to V of the input, and to the variances of weights and bias."""
    d = d_var.flatten(1)
    if groups > 1:
        d_in = None if through is None else _back_to_input(d_var, through, groups)
        d_w = None if squares is None else _back_to_weight(d_var, squares, groups)
        return d_in, d_w, d.sum(0)
    d_in = d_w = None
    if through is not None:
        d_in = (d @ through.flatten(1)).reshape(*d.shape[:1], *through.shape[1:])
    if squares is not None:
        d_w = (d.t() @ squares.flatten(1)).reshape(-1, *squares.shape[1:])
    return d_in, d_w, d.sum(0)


def _at_one_position(x: Tensor, w: Tensor, b: Tensor | None, groups: int) -> Tensor:
    """A convolution whose kernel is as large as its input."""
    ones = (1,) * (x.ndim - 2)
    if groups > 1:
        return _one(x.ndim - 2, groups).apply(x, w, b)
    z = F.linear(x.flatten(1), w.flatten(1), b)
    return z.reshape(*z.shape, *ones)


def _back_to_input(d: Tensor, w: Tensor, groups: int) -> Tensor:
    x = d.new_empty(d.shape[0], w.shape[1] * groups, *w.shape[2:])
    found = _one(d.ndim - 2, groups).pull(d, x, w, (True, False, False))[0]
    assert found is not None
    return found


def _back_to_weight(d: Tensor, x: Tensor, groups: int) -> Tensor:
    w = d.new_empty(d.shape[1], x.shape[1] // groups, *x.shape[2:])
    found = _one(d.ndim - 2, groups).pull(d, x, w, (False, True, False))[1]
    assert found is not None
    return found


def _one(dims: int, groups: int) -> Convolution:
    """The convolution that has one position."""
    return Convolution((1,) * dims, (0,) * dims, (1,) * dims, groups)


@lru_cache(maxsize=64)
def _shares(
    geometry: Convolution,
    size: torch.Size,
    kernel: torch.Size,
    out: torch.Size,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    """The share of the output where an input meets an offset of the kernel; its sum, ``f``."""
    met = torch.ones(1, 1, dtype=dtype, device=device)
    for d in range(len(kernel)):
        way = geometry.stride[d], geometry.padding[d], geometry.dilation[d]
        along = met.new_tensor(_meetings(size[d], kernel[d], out[d], *way))
        met = torch.kron(met, along)
    return met.t().contiguous(), met.sum(1)


def _meetings(
    size: int, kernel: int, out: int, stride: int, padding: int, dilation: int
) -> tuple[tuple[float, ...], ...]:
    """Per offset of the kernel along a dimension, the share of the output that meets each entry."""
    ways = [[i + padding - dilation * k for i in range(size)] for k in range(kernel)]
    return tuple(
        tuple(1 / out if way % stride == 0 and 0 <= way < stride * out else 0.0 for way in row)
        for row in ways
    )
