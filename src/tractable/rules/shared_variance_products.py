"""The variance that positions share after layers, scalings and products.

Exact: V of a layer with constant inputs.
Approximate: all others; see ``tractable.moments.shared_variance``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tractable.gaussian import Gaussian
from tractable.moments import shared_variance as formulas
from tractable.moments.bilinear import BilinearMap
from tractable.moments.maps import Convolution, LinearMap, Multiply, Scale
from tractable.moments.shared_variance import PooledVariance
from tractable.rules.autograd import ConvolutionSharedVariance
from tractable.rules.shared_variance import (
    SharedVariance,
    aligned_dims,
    input_v_of,
    pooled_state,
    pooled_variance,
    snapshot,
    state_factory,
    variance_of_mean,
    with_leading_dims,
)

Operand = Gaussian | Tensor


def of_product(
    map: BilinearMap, x: Operand, w: Operand, b: Operand | None, variance: Tensor
) -> SharedVariance | None:
    """Return the variance that the positions of ``map(x, w) + b`` share."""
    if isinstance(map, LinearMap) and x.ndim > 2:
        return _of_layer(map, x, w, b, variance, tuple(range(1, x.ndim - 1)))
    if isinstance(map, Convolution) and not map.transposed:
        return _of_layer(map, x, w, b, variance, tuple(range(2, x.ndim)))
    if isinstance(map, Scale):
        return _of_scale(map, x, w, b, variance)
    if isinstance(map, Multiply):
        assert isinstance(x, Gaussian)
        assert isinstance(w, Gaussian)
        if x.shared is not None or w.shared is not None:
            left, right = snapshot(x), snapshot(w)
            return SharedVariance(lambda: _of_multiply(left, right, variance), variance)
    return None


def of_channels(
    x: Gaussian,
    made: Sequence[Tensor],
    w: tuple[Tensor, Tensor | None],
    var_b: Tensor | None,
    variance: Tensor,
) -> SharedVariance | None:
    """Return the variance that positions share after batch normalization, times w, plus a bias.

    Args:
        x: the input.
        made: center, scale, and the factor of the variances, ``[channels]`` each.
        w: mean and variance of the factor, ``[channels]``.
        var_b: variance of the bias, ``[channels]``.
        variance: variances of the result.
    """
    if x.shared is None:
        return None
    current, loc = _current(x), x.loc.detach()
    finish = state_factory(variance, x.shared.dims)

    def compute() -> PooledVariance | None:
        pooled, found = current()
        if pooled is None or found is None or 1 in pooled.dims:
            return None
        shape, dims = (-1, *[1] * (loc.ndim - 2)), pooled.dims
        center, scale, factor, mu_w = (part.view(shape) for part in (*made, w[0]))
        var_w, offset = (None if v is None else v.view(shape) for v in (w[1], var_b))
        mean = (formulas.sampled(loc, dims).mean(dims, keepdim=True) - center) * scale
        return finish(formulas.scaled(mean, found * factor, mu_w, var_w, offset), dims)

    return SharedVariance(compute, variance, x.shared.dims)


def _of_layer(
    map: LinearMap | Convolution,
    x: Operand,
    w: Operand,
    b: Operand | None,
    variance: Tensor,
    dims: tuple[int, ...],
) -> SharedVariance | None:
    """Return the variance that the positions of a linear layer or convolution share.

    Only a sample of the variances is kept until it is needed, to save memory and time.
    """
    shape, count = variance.shape, formulas.n_positions(variance.shape, dims)
    uncertain = isinstance(w, Gaussian) or isinstance(b, Gaussian)
    if count < 2 or not (uncertain or (isinstance(x, Gaussian) and x.shared)):
        return None
    input_v, loc = input_v_of(x, dims), _loc(x)
    (mu_w, var_w), var_b = (_loc(w), _variance(w)), _variance(b)
    finish = state_factory(variance, dims)

    def compute() -> PooledVariance | None:
        v_in = input_v()
        if isinstance(map, Convolution):
            found = ConvolutionSharedVariance.apply(
                map, loc.detach(), v_in, mu_w.detach(), var_w, var_b, shape
            )
        else:
            with torch.no_grad():
                mean = loc.mean(dims, keepdim=True)
            found = formulas.linear(mean, v_in, mu_w, var_w, var_b)
        return finish(found, dims)

    return SharedVariance(compute, variance, dims)


def _of_scale(
    map: Scale, x: Operand, w: Operand, b: Operand | None, variance: Tensor
) -> SharedVariance | None:
    """Return the variance that positions share after a factor and an offset for each channel."""
    if not isinstance(x, Gaussian) or x.shared is None:
        return None
    current, loc = _current(x), x.loc.detach()
    (mu_w, var_w), var_b = (_loc(w), _variance(w)), _variance(b)
    var_w, var_b = (None if v is None else map.broadcastable(v) for v in (var_w, var_b))

    def compute() -> PooledVariance | None:
        pooled, found = current()
        if pooled is None or found is None or any(map.shape[d] > 1 for d in pooled.dims):
            return None
        dims = pooled.dims
        mean = formulas.sampled(loc, dims).mean(dims, keepdim=True)
        found = formulas.scaled(mean, found, map.broadcastable(mu_w), var_w, var_b)
        return pooled_state(found, variance, dims)

    return SharedVariance(compute, variance)


def _of_multiply(x: Gaussian, w: Gaussian, variance: Tensor) -> PooledVariance | None:
    """Return the pooled variance of a product of two Gaussians.

    It has three independent parts, with the loadings ``mu_w sd_x``, ``mu_x sd_w`` and ``sd_x
    sd_w``.
    """
    first = x if pooled_variance(x) is not None else w
    known = pooled_variance(first)
    if known is None:
        return None
    dims = aligned_dims(known, first, variance)
    (mu_x, v_x, rho_x, from_x), (mu_w, v_w, rho_w, from_w) = (
        _loading(with_leading_dims(g, variance.ndim), dims) for g in (x, w)
    )
    with torch.no_grad():
        sd_x, sd_w = formulas.deviation(v_x), formulas.deviation(v_w)
        count = formulas.n_positions(variance.shape, dims)
        of_x = formulas.mean_variance_of_products(mu_w * sd_x, rho_x, dims, count)
        of_w = formulas.mean_variance_of_products(mu_x * sd_w, rho_w, dims, count)
        both = formulas.mean_variance_of_products(sd_x * sd_w, rho_x * rho_w, dims, count)
    total = formulas.proportional(of_x, from_x) + formulas.proportional(of_w, from_w) + both
    return pooled_state(total, variance, dims)


def _loading(g: Gaussian, dims: tuple[int, ...]) -> tuple[Tensor, Tensor, Any, Tensor]:
    """Return mean and variance of some positions, the shared part, and V."""
    known = pooled_variance(g)
    found = variance_of_mean(g, dims)
    loc, variance = (formulas.sampled(m.detach(), dims) for m in (g.loc, g.variance))
    if known is not None and known.dims == dims:
        return loc, variance, known.share, found
    alone = any(g.shape[dim] > 1 for dim in dims)
    return loc, variance, 0.0 if alone else 1.0, found


def _current(x: Gaussian) -> Callable[[], tuple[PooledVariance | None, Tensor | None]]:
    """Return a function that returns the pooled variance of x as it is now, and its V."""
    shared = x.shared
    assert shared is not None
    kept = None if shared.is_current_for(x.variance) else snapshot(x)

    def compute() -> tuple[PooledVariance | None, Tensor | None]:
        pooled = shared.pooled()
        if pooled is None:
            return None, None
        return pooled, pooled.variance if kept is None else variance_of_mean(kept, pooled.dims)

    return compute


def _loc(x: Operand) -> Tensor:
    return x.loc if isinstance(x, Gaussian) else x


def _variance(x: Operand | None) -> Tensor | None:
    return x.variance if isinstance(x, Gaussian) else None
