"""Rules of the pooling functions; see ``tractable.moments.pool``.

Exact: averages of independent entries.
Approximate: the maximum is the entry of greatest mean, with that entry's variance; overlapping
windows share entries and count as independent.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tractable.gaussian import Gaussian, moment_rule
from tractable.moments.pool import adaptive_weights, select

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
        kernel = _per_dim(kernel_size, dims)
        if not any(_per_dim(padding, dims)) and not ceil_mode:
            return Gaussian.wrap(loc, variance / (divisor_override or torch.Size(kernel).numel()))
        return Gaussian.wrap(loc, variance * _window_weight(input.loc, function, dims, options))

    return rule


def _window_weight(x: Tensor, function: Any, dims: int, options: tuple[Any, ...]) -> Tensor:
    """The weight ``a`` that all entries of a window share: ``A(1) = n a``, and n is a count."""
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
    return weight.reshape(weight.shape[-dims:])


def _adaptive_average(function: Any, dims: int) -> Any:
    def rule(input: Gaussian, output_size: Any) -> Gaussian:
        loc = function(input.loc, output_size)
        variance = function(input.variance, output_size)
        for dim in range(-dims, 0):
            weight = adaptive_weights(input.shape[dim], loc.shape[dim], loc)
            variance = variance * weight.reshape([-1] + [1] * (-dim - 1))
        return Gaussian.wrap(loc, variance)

    return rule


def _maximum(function: Any, dims: int) -> Any:
    def rule(input: Gaussian, *args: Any, return_indices: bool = False, **kwargs: Any) -> Any:
        loc, indices = function(input.loc, *args, return_indices=True, **kwargs)
        z = Gaussian.wrap(loc, select(input.variance, indices, dims))
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
