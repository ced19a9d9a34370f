"""The variance of a mean over positions that share the weights they were computed with.

The pixels of a feature map, or the steps of a sequence, are computed with the same weights.  Their
errors are similar and hardly average out, so a mean over P of them has far more than 1/P of their
variance.  One number per row and channel describes this: ``V``, the variance of the mean over all
positions.  It is propagated through the network at the cost of a layer at a single position,
because a mean over positions commutes with everything that is linear and the same at each position.

With ``a`` the mean over positions of the input means (for each offset k of a kernel), ``f`` the
share of the positions at which an offset lies inside the image, and weights ``N(mu, s)``:

    V' = sum s (a^2 + f^2 V) + sum_c V (sum_k mu f)^2 + s_bias                     a layer
    V = rho (mean sqrt v)^2 + (1 - rho) mean v / P          defines the shared part rho, which
                                                            elementwise functions do not change
    var = mean v (1/n + r (1 - 1/n)),  V = mean v (1/P + r (1 - 1/P))       a mean over n of P

Messages: ``cov(mean z, w) = a var w`` is what the summed messages of the means give already.  The
message of a variance is propagated back along the computation of V: ``a^2 d_var`` to a weight,
whereas the squares of P messages would add up to less, by up to a factor P.

Shapes below: x ``[rows, channels, *positions]`` (sequences: ``[rows, *positions, features]``);
V has size 1 in each dimension of positions, for example ``[rows, channels, 1, 1]``.

Exact: V of a layer with constant inputs; with uncertain inputs, up to the borders of a convolution.
Approximate: an elementwise function does not change the shared part; for means over some of the
positions all pairs are equally correlated; correlations between channels are ignored.
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
    """The variance of the mean over the positions of a state.

    Attributes:
        variance: V, of size one in the dimensions of positions; messages pass back through it.
        dims: dimensions of the state that contain positions, counted from the front.
        compute_share: function that computes ``share``.
    """

    variance: Tensor
    dims: tuple[int, ...]
    compute_share: Callable[[], Tensor]

    @cached_property
    def share(self) -> Tensor:
        """The shared part rho of the variance, without a graph."""
        return self.compute_share()


def pooled(
    mean_variance: Tensor, sampled_variances: Tensor, dims: tuple[int, ...], count: int
) -> PooledVariance:
    """Return the pooled variance of a state.

    Args:
        mean_variance: V.
        sampled_variances: variances of some of the positions.
        dims: dimensions of positions.
        count: number of positions.
    """
    value = mean_variance.detach()
    return PooledVariance(
        mean_variance, dims, lambda: _share(value, sampled_variances, dims, count)
    )


def _share(value: Tensor, sampled_variances: Tensor, dims: tuple[int, ...], count: int) -> Tensor:
    with torch.no_grad():
        alone, together = _bounds(sampled_variances, deviation(sampled_variances), dims, count)
        range_ = (together - alone).clamp_min(torch.finfo(sampled_variances.dtype).eps * together)
        return (value - alone) / torch.where(range_ > 0, range_, 1)


def deviation(variance: Tensor) -> Tensor:
    """Return the square root, with the smallest normal number for zero.

    The square root of zeros takes torch 40 times as long.
    """
    return variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt_()


def n_positions(shape: torch.Size, dims: tuple[int, ...]) -> int:
    """Return the number of positions."""
    return math.prod(shape[dim] for dim in dims)


def proportional(value: Tensor, source: Tensor) -> Tensor:
    """Return ``value``, whose messages pass to ``source`` multiplied by ``value / source``."""
    if not source.requires_grad:
        return value
    with torch.no_grad():
        tiny = torch.finfo(value.dtype).tiny ** 0.5
        factor = value / source.clamp_min(tiny)
        rest = torch.addcmul(value, factor, source, value=-1)
    return torch.addcmul(rest, factor, source)


def sampled(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return about 30 evenly spaced positions, for an inexpensive estimate of a mean variance."""
    n_sampled = _SAMPLED[min(len(dims), len(_SAMPLED)) - 1]
    index: list[Any] = [slice(None)] * x.ndim
    for dim in dims:
        step = (x.shape[dim] + n_sampled // 2) // n_sampled
        if step > 1:
            index[dim] = slice(step // 2, None, step)
    return x[tuple(index)].contiguous()


_SAMPLED = (36, 6, 3)
"""Sampled positions along each dimension, for one, two and three dimensions."""


def mean_variance_of_products(
    deviation: Tensor, share: Tensor | float, dims: tuple[int, ...], count: int
) -> Tensor:
    """Return the variance of the mean of ``count`` values, of which some (signed) deviations are
    given.

    ``rho (mean sd)^2 + (1 - rho) mean sd^2 / P``
    """
    return _between(*_bounds(deviation * deviation, deviation, dims, count), share)


def _bounds(
    variance: Tensor, deviation: Tensor, dims: tuple[int, ...], count: int
) -> tuple[Tensor, Tensor]:
    """Return the variance of the mean if the values share nothing, and if they share all."""
    alone = variance.mean(dims, keepdim=True) / count
    return alone, deviation.mean(dims, keepdim=True).square()


def _between(alone: Tensor, together: Tensor, share: Tensor | float) -> Tensor:
    """Return the variance of the mean of values with a shared part."""
    return torch.clamp_min(alone + share * (together - alone), 0)


def independent(variance: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return V of a state with independent positions; a dimension of size 1 is one position."""
    full = tuple(dim for dim in dims if variance.shape[dim] > 1)
    if not full:
        return variance
    return variance.mean(full, keepdim=True) / n_positions(variance.shape, full)


def mean_variance(sampled_variances: Tensor, pooled: PooledVariance, count: int) -> Tensor:
    """Return V of a state from its present variances and its shared part.

    Args:
        sampled_variances: present variances of some of the positions.
        pooled: the pooled variance when it was computed.
        count: number of positions.
    """
    with torch.no_grad():
        value = _between(
            *_bounds(sampled_variances, deviation(sampled_variances), pooled.dims, count),
            pooled.share,
        )
    return proportional(value, pooled.variance)


def window_variance(
    average: Tensor,
    inside: Tensor | float,
    weight: Tensor | float,
    mean_variance: Tensor,
    dims: tuple[int, ...],
    count: int,
) -> Tensor:
    """Return the variances of means over windows.

    Args:
        average: the same means of the variances.
        inside: sum of the weights of each window (less than one where it is padded).
        weight: weight of each entry of a window, ``1 / n``.
        mean_variance: V.
        dims: dimensions of positions.
        count: number of all positions.
    """
    extra = (inside - weight) / (1 - 1 / count)
    with torch.no_grad():
        level = average.mean(dims, keepdim=True)
        per_level = extra / level.clamp_min(torch.finfo(level.dtype).tiny)
    alone = average * (weight - extra / count)
    return torch.addcmul(alone, average.detach(), per_level * mean_variance)


# --- layers ----------------------------------------------------------------------------------


def linear(
    mean: Tensor, input_v: Tensor | None, w: Tensor, var_w: Tensor | None, var_b: Tensor | None
) -> Tensor:
    """Return V of ``x w^T + b``.

    As in every rule, a message to a factor contains the squared *mean* of the other factor.

    Args:
        mean: mean over positions of the means of x, ``[rows, 1, inputs]``.
        input_v: V of x, of the same shape; None if x is constant.
        w: means of the weights, ``[outputs, inputs]``.
        var_w: variances of the weights, or None.
        var_b: variances of the bias, ``[outputs]``, or None.
    """
    if var_w is not None:
        found = F.linear((mean * mean).detach(), var_w, var_b)
    else:
        found = w.new_zeros(()) if var_b is None else var_b
    if input_v is None:
        return found
    if var_w is not None:
        found = found + F.linear(input_v, var_w).detach()
    return found + F.linear(input_v, (w * w).detach())


def scaled(
    mean: Tensor, input_v: Tensor, w: Tensor, var_w: Tensor | None, var_b: Tensor | None
) -> Tensor:
    """Return V of ``x w + b``, where ``w`` and ``b`` are the same at all positions.

    Args:
        mean: mean over positions of the means of x.
        input_v: V of x.
        w: means of the factor.
        var_w: variances of the factor, or None.
        var_b: variances of the offset, or None.
    """
    found = input_v * (w * w).detach()
    if var_w is not None:
        found = found + (mean * mean) * var_w + (input_v * var_w).detach()
    return found if var_b is None else found + var_b


def convolution(
    geometry: Convolution,
    x: Tensor,
    input_v: Tensor | None,
    w: Tensor,
    var_w: Tensor | None,
    var_b: Tensor | None,
    out: torch.Size,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return V of a convolution, and the factors ``a^2`` and ``(sum_k mu f)^2`` of its messages.

    Args:
        geometry: stride, padding, dilation and groups.
        x: means of the input, ``[rows, channels, *positions]``.
        input_v: V of x, ``[rows, channels, 1, ...]``; None if x is constant.
        w: means of the weights, ``[outputs, channels, *kernel]``.
        var_w: variances of the weights, or None.
        var_b: variances of the bias, ``[outputs]``, or None.
        out: shape of the result.
    """
    kernel, groups = w.shape[2:], geometry.groups
    met, inside = _offset_shares(geometry, x.shape[2:], kernel, out[2:], x.dtype, x.device)
    squares = through = None
    if var_w is not None:
        squares = (x.flatten(2) @ met).square_().reshape(*x.shape[:2], *kernel)
        found = _single_position(squares, var_w, var_b, groups)
    else:
        found = x.new_zeros(()) if var_b is None else var_b.reshape(-1, *[1] * len(kernel))
    if input_v is None:
        return found, squares, None
    shape = *w.shape[:2], *[1] * len(kernel)
    through = (w.flatten(2) @ inside).square_().reshape(shape)
    if var_w is None:
        return found + _single_position(input_v, through, None, groups), None, through
    both = torch.add(through, (var_w.flatten(2) @ (inside * inside)).reshape(shape))
    return found.add_(_single_position(input_v, both, None, groups)), squares, through


def convolution_messages(
    d_var: Tensor, squares: Tensor | None, through: Tensor | None, groups: int
) -> tuple[Tensor | None, Tensor | None, Tensor]:
    """Return the messages to V of the input, and to the variances of weights and bias."""
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


def _single_position(x: Tensor, w: Tensor, b: Tensor | None, groups: int) -> Tensor:
    """Return a convolution whose kernel is as large as its input, ``[rows, outputs, 1, ...]``."""
    ones = (1,) * (x.ndim - 2)
    if groups > 1:
        return _single_position_map(x.ndim - 2, groups).apply(x, w, b)
    z = F.linear(x.flatten(1), w.flatten(1), b)
    return z.reshape(*z.shape, *ones)


def _back_to_input(d: Tensor, w: Tensor, groups: int) -> Tensor:
    x = d.new_empty(d.shape[0], w.shape[1] * groups, *w.shape[2:])
    found = _single_position_map(d.ndim - 2, groups).pull(d, x, w, (True, False, False))[0]
    assert found is not None
    return found


def _back_to_weight(d: Tensor, x: Tensor, groups: int) -> Tensor:
    w = d.new_empty(d.shape[1], x.shape[1] // groups, *x.shape[2:])
    found = _single_position_map(d.ndim - 2, groups).pull(d, x, w, (False, True, False))[1]
    assert found is not None
    return found


def _single_position_map(dims: int, groups: int) -> Convolution:
    """Return the convolution with a single position."""
    return Convolution((1,) * dims, (0,) * dims, (1,) * dims, groups)


@lru_cache(maxsize=64)
def _offset_shares(
    geometry: Convolution,
    size: torch.Size,
    kernel: torch.Size,
    out: torch.Size,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    """Return the shares of the outputs at which an input meets a kernel offset, and their sums
    ``f``.

    Shapes ``[*positions, *kernel]``, flattened to two dimensions, and ``[*kernel]``.
    """
    met = torch.ones(1, 1, dtype=dtype, device=device)
    for d in range(len(kernel)):
        steps = geometry.stride[d], geometry.padding[d], geometry.dilation[d]
        along = met.new_tensor(_offset_shares_1d(size[d], kernel[d], out[d], *steps))
        met = torch.kron(met, along)
    return met.t().contiguous(), met.sum(1)


def _offset_shares_1d(
    size: int, kernel: int, out: int, stride: int, padding: int, dilation: int
) -> tuple[tuple[float, ...], ...]:
    """Return the same along one dimension, ``[kernel, size]``."""
    # An input i meets the offset k in the output (i + padding - dilation k) / stride.
    numerators = [[i + padding - dilation * k for i in range(size)] for k in range(kernel)]
    return tuple(
        tuple(1 / out if n % stride == 0 and 0 <= n < stride * out else 0.0 for n in row)
        for row in numerators
    )
