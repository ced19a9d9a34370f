"""Moment rules of ``sum`` and ``mean``.

Exact: for independent entries.
Approximate: covariances between entries are ignored, except those of positions that share weights
(``tractable.moments.shared_variance``).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tractable.gaussian import Gaussian, moment_rule
from tractable.moments.shared_variance import PooledVariance, n_positions
from tractable.rules import shared_variance
from tractable.rules.shared_variance import SharedVariance
from tractable.torch_functions import torch_functions


@moment_rule(*torch_functions("sum"))
def total(input: Gaussian, *args: Any, **kwargs: Any) -> Gaussian:
    """Return the sum: means add, variances add."""
    loc = input.loc.sum(*args, **kwargs)
    found = _over_positions(input, *args, **kwargs)
    if found is None:
        return Gaussian.wrap(loc, input.variance.sum(*args, **kwargs))
    entries = input.numel() // loc.numel()
    return Gaussian.wrap(loc, found[0] * entries**2, found[1])


@moment_rule(*torch_functions("mean"))
def average(input: Gaussian, *args: Any, **kwargs: Any) -> Gaussian:
    """Return the mean of n entries: the variance is that of the sum divided by n squared."""
    loc = input.loc.mean(*args, **kwargs)
    found = _over_positions(input, *args, **kwargs)
    if found is not None:
        return Gaussian.wrap(loc, *found)
    entries = input.numel() / max(loc.numel(), 1)
    return Gaussian.wrap(loc, input.variance.mean(*args, **kwargs) / entries)


def _over_positions(
    input: Gaussian,
    dim: int | tuple[int, ...] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    axis: Any = None,
    out: Any = None,
) -> tuple[Tensor, SharedVariance | None] | None:
    """Return the variance of a mean over positions that share weights, and what the result shares.

    None if the mean is not over such positions.
    """
    pooled = shared_variance.pooled_variance(input)
    if pooled is None or dtype is not None or input.numel() == 0:
        return None
    dim = axis if dim is None else dim
    given = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    dims = tuple(sorted(d % input.ndim for d in given)) or tuple(range(input.ndim))
    here = tuple(d for d in dims if d in pooled.dims)
    if not here:
        return None
    return _mean_over(input, pooled, here, tuple(d for d in dims if d not in here), keepdim)


def _mean_over(
    input: Gaussian,
    pooled: PooledVariance,
    here: tuple[int, ...],
    rest: tuple[int, ...],
    keepdim: bool,
) -> tuple[Tensor, SharedVariance | None]:
    """Return the same for the positions ``here``, then for the independent entries of ``rest``."""
    windows = input.variance.mean(here, keepdim=True)
    count = n_positions(input.shape, here)
    variance, whole = shared_variance.window_means(input, pooled, windows, 1.0, 1 / count)
    if rest:
        others = n_positions(input.shape, rest)
        variance, whole = (v.mean(rest, keepdim=True) / others for v in (variance, whole))
    left = tuple(d for d in pooled.dims if d not in here)
    shared = None
    if left:
        kept = variance
        shared = SharedVariance(lambda: shared_variance.pooled_state(whole, kept, left))
    if keepdim:
        return variance, shared
    shape, gone = variance.shape, (*here, *rest)
    if shared is not None:
        shared = shared.moved(shape, lambda t: t.squeeze(gone))
    return variance.squeeze(gone), shared
