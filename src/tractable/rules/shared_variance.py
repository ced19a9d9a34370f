"""Carries through a network what the positions of a state have in common.

``Gaussian.shared`` is either None or a ``SharedVariance``: a promise of
``moments.shared_variance.PooledVariance``, kept when a mean over positions asks for it.  So
networks that never average over positions pay nothing, except where no graph is recorded: there it
is computed at once, because waiting would keep the states of all layers in memory.

A rule that acts entry by entry, or takes some of the positions, hands on ``x.shared``; one that
ignores it loses it, and positions count as independent again.

Exact: one layer on constant inputs, and functions that only move its entries.
Approximate: all else; see ``tractable.moments.shared_variance``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tractable.gaussian import Gaussian
from tractable.moments import shared_variance as at
from tractable.moments.bilinear import BilinearMap
from tractable.moments.maps import Convolution, Linear, Multiply, Scale
from tractable.moments.shared_variance import PooledVariance
from tractable.rules.autograd import ConvolutionSharedVariance

Operand = Gaussian | Tensor
Make = Callable[[], PooledVariance | None]


class SharedVariance:
    """What the positions of a state have in common, computed when first asked for.

    Args:
        make: computes it.
        of: the variances of the state.
        dims: the dimensions that will be found to hold positions, if any are and if it is known.
    """

    __slots__ = ("_found", "_make", "_of", "dims")

    def __init__(
        self, make: Make, of: Tensor | None = None, dims: tuple[int, ...] | None = None
    ) -> None:
        self.dims = dims
        self._make: Make | None = make
        self._found: PooledVariance | None = None
        self._of = None if of is None else weakref.ref(of)
        if not torch.is_grad_enabled():
            self.pooled()

    def pooled(self) -> PooledVariance | None:
        """The variance of the mean over positions, or None where it could not be followed."""
        if self._make is not None:
            self._found = self._make()
            self._make = None  # and with it the states it was made of
        return self._found

    def is_current_for(self, variance: Tensor) -> bool:
        """Whether V was found for these very variances, which no function has changed since."""
        return self._of is not None and self._of() is variance

    def moved(self, shape: torch.Size, function: Callable[[Tensor], Tensor]) -> SharedVariance:
        """The same after a function that only moves entries of a state of this shape."""
        return SharedVariance(lambda: _moved(self.pooled(), shape, function))


def pooled_of(x: Any) -> PooledVariance | None:
    """What is known of the mean over positions of an operand."""
    shared = x.shared if isinstance(x, Gaussian) else None
    return None if shared is None else shared.pooled()


def variance_of_mean(x: Gaussian, dims: tuple[int, ...]) -> Tensor:
    """V over the given dimensions, of a state that may lack some of them in front."""
    pooled = pooled_of(x)
    if pooled is not None and pooled.dims == dims:
        if x.shared is not None and x.shared.is_current_for(x.variance):
            return pooled.variance
        few = at.sampled(x.variance.detach(), dims)
        return at.mean_variance(few, pooled, at.count_of(x.shape, dims))
    return at.independent(x.variance, dims)


def state(variance_of_mean: Tensor, z: Tensor, dims: tuple[int, ...]) -> PooledVariance | None:
    """What is known of a state with variances ``z``."""
    count = at.count_of(z.shape, dims)
    if count < 2:
        return None
    return at.pooled(variance_of_mean, at.sampled(z.detach(), dims), dims, count)


def _made(
    z: Tensor, dims: tuple[int, ...] | None
) -> Callable[[Tensor, Any], PooledVariance | None]:
    """``state`` of V and dimensions to come; if these are known, few variances wait in memory."""
    if dims is None:
        return lambda found, then: state(found, z, then)
    few, count = at.sampled(z.detach(), dims), at.count_of(z.shape, dims)
    return lambda found, _: at.pooled(found, few, dims, count) if count > 1 else None


def of_product(
    map: BilinearMap, x: Operand, w: Operand, b: Operand | None, variance: Tensor
) -> SharedVariance | None:
    """What the positions of ``map(x, w) + b`` have in common."""
    if isinstance(map, Linear) and x.ndim > 2:
        return _of_layer(map, x, w, b, variance, tuple(range(1, x.ndim - 1)))
    if isinstance(map, Convolution) and not map.transposed:
        return _of_layer(map, x, w, b, variance, tuple(range(2, x.ndim)))
    if isinstance(map, Scale):
        return _of_scale(map, x, w, b, variance)
    if isinstance(map, Multiply):
        assert isinstance(x, Gaussian)
        assert isinstance(w, Gaussian)
        if x.shared is not None or w.shared is not None:
            left, right = _as_is(x), _as_is(w)
            return SharedVariance(lambda: _of_multiply(left, right, variance), variance)
    return None


def of_channels(
    x: Gaussian,
    made: Sequence[Tensor],
    w: tuple[Tensor, Tensor | None],
    var_b: Tensor | None,
    variance: Tensor,
) -> SharedVariance | None:
    """Of channels that are normalised, times w, plus a bias: all the same at all positions.

    Args:
        x: what is normalised.
        made: centre, scale, and the factor of the variances.
        w: mean and variance of the factor.
        var_b: variance of the bias.
        variance: the variance of the result.
    """
    if x.shared is None:
        return None
    whole, loc = _whole(x), x.loc.detach()
    made_state = _made(variance, x.shared.dims)

    def make() -> PooledVariance | None:
        pooled, found = whole()
        if pooled is None or found is None or 1 in pooled.dims:
            return None
        shape, dims = (-1, *[1] * (loc.ndim - 2)), pooled.dims
        centre, scale, factor, mu_w = (part.view(shape) for part in (*made, w[0]))
        var_w, offset = (None if v is None else v.view(shape) for v in (w[1], var_b))
        mean = (at.sampled(loc, dims).mean(dims, keepdim=True) - centre) * scale
        return made_state(at.scaled(mean, found * factor, mu_w, var_w, offset), dims)

    return SharedVariance(make, variance, x.shared.dims)


def of_sum(x: Gaussian, y: Gaussian, factor: float, variance: Tensor) -> SharedVariance | None:
    """What the positions of ``x + y`` have in common, where ``factor`` multiplies var y."""
    if x.shared is None and y.shared is None:
        return None
    if x.shared is not None and y.shared is not None and x.shape == y.shape:
        dims = x.shared.dims
        if dims is not None and dims == y.shared.dims:
            return _of_alike(x, y, factor, variance, dims)
    x, y = _as_is(x), _as_is(y)

    def make() -> PooledVariance | None:
        known = pooled_of(x) or pooled_of(y)
        if known is None:
            return None
        dims = _aligned(known, x if pooled_of(x) is not None else y, variance)
        parts = [variance_of_mean(_raised(g, variance.ndim), dims) for g in (x, y)]
        return state(parts[0] + parts[1] * factor, variance, dims)

    return SharedVariance(make, variance)


def _of_alike(
    x: Gaussian, y: Gaussian, factor: float, variance: Tensor, dims: tuple[int, ...]
) -> SharedVariance:
    """The same for states with positions in the same places, which need not wait in memory."""
    parts, made_state = (_incoming(x, dims), _incoming(y, dims)), _made(variance, dims)

    def make() -> PooledVariance | None:
        first, second = parts[0](), parts[1]()
        assert first is not None
        assert second is not None
        return made_state(first + second * factor, dims)

    return SharedVariance(make, variance, dims)


def resized(x: Gaussian, shape: torch.Size) -> SharedVariance | None:
    """What positions have in common when some are added or taken away, as padding does."""
    shared = x.shared
    if shared is None:
        return None

    def make() -> PooledVariance | None:
        pooled = shared.pooled()
        if pooled is None:
            return None
        rest = (d for d in range(x.ndim) if d not in pooled.dims)
        return pooled if all(x.shape[d] == shape[d] for d in rest) else None

    return SharedVariance(make)


def of_parts(parts: Sequence[Gaussian], dim: int, variance: Tensor) -> SharedVariance | None:
    """What the positions have in common of parts that are put together along ``dim``."""
    if all(part.shared is None for part in parts):
        return None
    parts = [_as_is(part) for part in parts if part.numel()]  # torch lets an empty one be flat

    def make() -> PooledVariance | None:
        known = next((p for p in map(pooled_of, parts) if p is not None), None)
        if known is None:
            return None
        along = dim % variance.ndim
        pieces = [variance_of_mean(part, known.dims) for part in parts]
        if along not in known.dims:
            return state(torch.cat(pieces, along), variance, known.dims)
        total = variance.shape[along]
        weighted = [
            v * (part.shape[along] / total) ** 2 for v, part in zip(pieces, parts, strict=True)
        ]
        return state(torch.stack(weighted).sum(0), variance, known.dims)

    return SharedVariance(make)


def averaged(
    x: Gaussian,
    pooled: PooledVariance,
    average: Tensor,
    inside: Tensor | float,
    weight: Tensor | float,
) -> tuple[Tensor, Tensor]:
    """Variances of means over windows of positions, and V of the state that they form."""
    whole = variance_of_mean(x, pooled.dims)
    count = at.count_of(x.shape, pooled.dims)
    found = at.window_variance(average, inside, weight, whole, pooled.dims, count)
    return found, whole


def of_windows(
    x: Gaussian, variance: Tensor, inside: Tensor | float, dims: tuple[int, ...]
) -> SharedVariance | None:
    """What means over windows have in common: their mean is that of all positions."""
    shared, incoming = x.shared, _incoming(x, dims)
    few, count = at.sampled(variance.detach(), dims), at.count_of(variance.shape, dims)
    if shared is None or count < 2:
        return None

    def make() -> PooledVariance | None:
        pooled, whole = shared.pooled(), incoming()
        if pooled is None or pooled.dims != dims or whole is None:
            return None
        return at.pooled(whole * inside**2, few, dims, count)

    return SharedVariance(make)


def _of_layer(
    map: Linear | Convolution,
    x: Operand,
    w: Operand,
    b: Operand | None,
    variance: Tensor,
    dims: tuple[int, ...],
) -> SharedVariance | None:
    """Of variances only some are kept: waiting with all of them would cost memory, and time."""
    shape, count = variance.shape, at.count_of(variance.shape, dims)
    uncertain = isinstance(w, Gaussian) or isinstance(b, Gaussian)
    if count < 2 or not (uncertain or (isinstance(x, Gaussian) and x.shared)):
        return None
    incoming, loc = _incoming(x, dims), _loc(x)
    (mu_w, var_w), var_b = (_loc(w), _variance(w)), _variance(b)
    made_state = _made(variance, dims)

    def make() -> PooledVariance | None:
        inward = incoming()
        if isinstance(map, Convolution):
            found = ConvolutionSharedVariance.apply(
                map, loc.detach(), inward, mu_w.detach(), var_w, var_b, shape
            )
        else:
            with torch.no_grad():
                mean = loc.mean(dims, keepdim=True)
            found = at.linear(mean, inward, mu_w, var_w, var_b)
        return made_state(found, dims)

    return SharedVariance(make, variance, dims)


def _of_scale(
    map: Scale, x: Operand, w: Operand, b: Operand | None, variance: Tensor
) -> SharedVariance | None:
    """Of a factor and an offset for each channel, which all its positions share."""
    if not isinstance(x, Gaussian) or x.shared is None:
        return None
    whole, loc = _whole(x), x.loc.detach()
    (mu_w, var_w), var_b = (_loc(w), _variance(w)), _variance(b)
    var_w, var_b = (None if v is None else map.beside(v) for v in (var_w, var_b))

    def make() -> PooledVariance | None:
        pooled, found = whole()
        if pooled is None or found is None or any(map.shape[d] > 1 for d in pooled.dims):
            return None
        dims = pooled.dims
        mean = at.sampled(loc, dims).mean(dims, keepdim=True)
        found = at.scaled(mean, found, map.beside(mu_w), var_w, var_b)
        return state(found, variance, dims)

    return SharedVariance(make, variance)


def _whole(x: Gaussian) -> Callable[[], tuple[PooledVariance | None, Tensor | None]]:
    """What is known of a state as it is now, and its V, when they are asked for."""
    shared = x.shared
    assert shared is not None
    kept = None if shared.is_current_for(x.variance) else _as_is(x)

    def make() -> tuple[PooledVariance | None, Tensor | None]:
        pooled = shared.pooled()
        if pooled is None:
            return None, None
        return pooled, pooled.variance if kept is None else variance_of_mean(kept, pooled.dims)

    return make


def _incoming(x: Operand, dims: tuple[int, ...]) -> Callable[[], Tensor | None]:
    """V of an input, when it is asked for."""
    if not isinstance(x, Gaussian):
        return lambda: None
    shared, count, variance = x.shared, at.count_of(x.shape, dims), x.variance
    if shared is None:
        return lambda: at.independent(variance, dims)
    few, told = at.sampled(variance.detach(), dims), shared.is_current_for(variance)

    def make() -> Tensor:
        pooled = shared.pooled()
        if pooled is not None and pooled.dims == dims:
            return pooled.variance if told else at.mean_variance(few, pooled, count)
        return few.mean(dims, keepdim=True) / count

    return make


def _of_multiply(x: Gaussian, w: Gaussian, variance: Tensor) -> PooledVariance | None:
    """Two loadings and their product: ``mu_w sd_x``, ``mu_x sd_w`` and ``sd_x sd_w``."""
    first = x if pooled_of(x) is not None else w
    known = pooled_of(first)
    if known is None:
        return None
    dims = _aligned(known, first, variance)
    (mu_x, v_x, rho_x, from_x), (mu_w, v_w, rho_w, from_w) = (
        _loading(_raised(g, variance.ndim), dims) for g in (x, w)
    )
    with torch.no_grad():
        sd_x, sd_w = at.deviation(v_x), at.deviation(v_w)
        count = at.count_of(variance.shape, dims)
        of_x = at.loaded(mu_w * sd_x, rho_x, dims, count)
        of_w = at.loaded(mu_x * sd_w, rho_w, dims, count)
        both = at.loaded(sd_x * sd_w, rho_x * rho_w, dims, count)
    total = at.valued(of_x, from_x) + at.valued(of_w, from_w) + both
    return state(total, variance, dims)


def _loading(g: Gaussian, dims: tuple[int, ...]) -> tuple[Tensor, Tensor, Any, Tensor]:
    """Mean, variance, common share, and V, through which messages go back."""
    known = pooled_of(g)
    found = variance_of_mean(g, dims)
    loc, variance = (at.sampled(m.detach(), dims) for m in (g.loc, g.variance))
    if known is not None and known.dims == dims:
        return loc, variance, known.share, found
    alone = any(g.shape[dim] > 1 for dim in dims)
    return loc, variance, 0.0 if alone else 1.0, found


def _as_is(g: Gaussian) -> Gaussian:
    """The same as it is now, whatever a function in place makes of it before it is asked for."""
    return Gaussian.wrap(g.loc, g.variance, g.shared)


def _raised(g: Gaussian, ndim: int) -> Gaussian:
    """The same with dimensions of size one in front, as broadcasting would add them."""
    missing = ndim - g.ndim
    if not missing:
        return g
    shape = (*[1] * missing, *g.shape)
    return Gaussian.wrap(g.loc.reshape(shape), g.variance.reshape(shape))


def _aligned(pooled: PooledVariance, x: Tensor, z: Tensor) -> tuple[int, ...]:
    """The positions' dimensions, counted in a result that may have more in front."""
    return tuple(dim + z.ndim - x.ndim for dim in pooled.dims)


def _moved(
    pooled: PooledVariance | None, shape: torch.Size, function: Callable[[Tensor], Tensor]
) -> PooledVariance | None:
    """Where the positions are after a move: their copies have no stride, if it is a view."""
    if pooled is None:
        return None
    try:
        looked = function(torch.empty_strided(shape, _strides(shape, pooled.dims), device="meta"))
    except RuntimeError:  # a view that mixes positions with others
        return None
    dims = tuple(d for d in range(looked.ndim) if looked.shape[d] > 1 and not looked.stride(d))
    if not dims:
        return None
    first = tuple(slice(0, 1) if d in dims else slice(None) for d in range(looked.ndim))
    once = [1 if d in pooled.dims else size for d, size in enumerate(shape)]

    def taken(numbers: Tensor) -> Tensor:
        # Laid out as what was looked at: an earlier move may have left them in another order.
        return function(numbers.expand(once).contiguous().expand(shape))[first]

    return PooledVariance(taken(pooled.variance), dims, lambda: taken(pooled.share))


def _strides(shape: torch.Size, free: tuple[int, ...]) -> list[int]:
    """Those of a state whose positions are copies."""
    strides, step = [0] * len(shape), 1
    for dim in reversed(range(len(shape))):
        if dim not in free:
            strides[dim] = step
            step *= shape[dim]
    return strides


def _loc(x: Operand) -> Tensor:
    return x.loc if isinstance(x, Gaussian) else x


def _variance(x: Operand | None) -> Tensor | None:
    return x.variance if isinstance(x, Gaussian) else None
