"""Moment rules of pooling; the formulas are in ``tractable.moments.pool``.

Exact: averages of independent entries, and of all positions of a layer that shares its weights.
Approximate: averages of some positions that share weights (``tractable.moments.shared_variance``);
the maximum is the entry with the largest mean, with its variance; overlapping windows share entries
and are treated as independent.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tractable.gaussian import Gaussian, moment_rule
from tractable.moments.pool import adaptive_weights, select
from tractable.rules import shared_variance

Size = int | tuple[int, ...]


def _per_dim(value: Size, dims: int) -> tuple[int, ...]:
    return (value,) * dims if isinstance(value, int) else tuple(value) * (dims // len(value))


def _average(function: Any, dims: int) -> Any:
    def rule(
        input: Gaussian,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Gaussian:
        options: tuple[Any, ...] = (kernel_size, stride, padding, ceil_mode, count_include_pad)
        if dims > 1:
            options += (divisor_override,)
        loc = function(input.loc, *options)
        variance = function(input.variance, *options)
        kernel = torch.Size(_per_dim(kernel_size, dims)).numel()
        if not any(_per_dim(padding, dims)) and not ceil_mode:
            divisor = divisor_override or kernel
            return _windows(input, loc, variance, kernel / divisor, 1 / divisor, dims)
        sums = _window_sums(input.loc, function, dims, options)
        return _windows(input, loc, variance, *sums, dims)

    return rule


def _windows(
    input: Gaussian,
    loc: Tensor,
    average: Tensor,
    inside: Tensor | float,
    weight: Tensor | float,
    dims: int,
    max_windows: int = 1,
) -> Gaussian:
    """Return means over windows.

    The shared variance of all positions does not determine the covariance of neighbors in a small
    window.  If there are more than ``max_windows`` windows, their entries are treated as
    independent (as published), and only the variance of the mean over all of them is kept.

    Args:
        input: the input.
        loc: means of the result.
        average: the same averages of the variances.
        inside: sum of the weights of each window.
        weight: weight of each entry of a window.
        dims: number of pooled dimensions, the last ones.
        max_windows: see above.
    """
    if input.shared is None:
        return Gaussian.wrap(loc, average * weight)
    at = tuple(range(input.ndim - dims, input.ndim))
    if loc.shape[-dims:].numel() > max_windows:
        variance = average * weight
    else:
        pooled = shared_variance.pooled_variance(input)
        if pooled is None or pooled.dims != at:
            return Gaussian.wrap(loc, average * weight)
        variance = shared_variance.window_means(input, pooled, average, inside, weight)[0]
    total = inside.mean() if isinstance(inside, Tensor) else inside
    return Gaussian.wrap(loc, variance, shared_variance.of_windows(input, variance, total, at))


_MAX_ADAPTIVE_WINDOWS = 4
"""Windows of adaptive pooling for which each contains a large share of all positions."""


def _window_sums(
    x: Tensor, function: Any, dims: int, options: tuple[Any, ...]
) -> tuple[Tensor, Tensor]:
    """Return the sum of the weights of each window, and the weight of each of its entries."""
    ones = x.new_ones((1, 1, *x.shape[-dims:]))
    with torch.no_grad():
        shared = function(ones, *options)
        kernel, stride, padding, ceil_mode = options[:4]
        if dims == 1:
            stride = kernel if stride is None else stride
            kernel, stride = ((1, *_per_dim(o, 1)) for o in (kernel, stride))
            padding = (0, *_per_dim(padding, 1))
            flat = F.avg_pool2d(ones.unsqueeze(-2), kernel, stride, padding, ceil_mode, True, 1)
            count = flat.squeeze(-2)
        else:
            count = function(ones, kernel, stride, padding, ceil_mode, True, 1)
        weight = shared / count
    shape = weight.shape[-dims:]
    return shared.reshape(shape), weight.reshape(shape)


def _adaptive_average(function: Any, dims: int) -> Any:
    def rule(input: Gaussian, output_size: Any) -> Gaussian:
        loc = function(input.loc, output_size)
        weight: Any = 1.0
        for dim in range(-dims, 0):
            one = adaptive_weights(input.shape[dim], loc.shape[dim], loc)
            weight = weight * one.reshape([-1] + [1] * (-dim - 1))
        return _windows(
            input,
            loc,
            function(input.variance, output_size),
            1.0,
            weight,
            dims,
            _MAX_ADAPTIVE_WINDOWS,
        )

    return rule


def _maximum(function: Any, dims: int) -> Any:
    def rule(input: Gaussian, *args: Any, return_indices: bool = False, **kwargs: Any) -> Any:
        loc, indices = function(input.loc, *args, return_indices=True, **kwargs)
        z = Gaussian.wrap(loc, select(input.variance, indices, dims), input.shared)
        return (z, indices) if return_indices else z

    return rule


for _dims, _plain, _adaptive in (
    (1, F.avg_pool1d, F.adaptive_avg_pool1d),
    (2, F.avg_pool2d, F.adaptive_avg_pool2d),
    (3, F.avg_pool3d, F.adaptive_avg_pool3d),
):
    moment_rule(_plain)(_average(_plain, _dims))
    moment_rule(_adaptive)(_adaptive_average(_adaptive, _dims))
for _dims, _functions in (
    (1, (F.max_pool1d, torch.max_pool1d)),
    (2, (F.max_pool2d, torch.max_pool2d)),
    (3, (F.max_pool3d, torch.max_pool3d)),
    (1, (F.adaptive_max_pool1d, torch.adaptive_max_pool1d)),
    (2, (F.adaptive_max_pool2d,)),
    (3, (F.adaptive_max_pool3d,)),
):
    moment_rule(*_functions)(_maximum(_functions[0], _dims))
for _dims, _name in (
    (1, "max_pool1d"),
    (2, "max_pool2d"),
    (3, "max_pool3d"),
    (1, "adaptive_max_pool1d"),
    (2, "adaptive_max_pool2d"),
    (3, "adaptive_max_pool3d"),
    (2, "fractional_max_pool2d"),
    (3, "fractional_max_pool3d"),
):
    _rule = _maximum(getattr(F, _name), _dims)
    moment_rule(getattr(F, f"{_name}_with_indices"))(partial(_rule, return_indices=True))
    if _name.startswith("fractional"):
        moment_rule(getattr(F, _name))(_rule)
