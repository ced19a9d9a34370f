"""Propagation of the variance that the positions of a state share.

``Gaussian.shared`` is None or a ``SharedVariance``, which computes a
``moments.shared_variance.PooledVariance`` when a mean over positions needs it.  Networks that never
average over positions therefore pay nothing.  If no graph is recorded, it is computed immediately,
because waiting would keep the states of all layers in memory.

Elementwise rules keep it by ``Gaussian.with_moments``.  A rule that does not pass it on loses it:
positions are then treated as independent.  The
functions ``of_...`` return the shared variance of a result, those of products are in
``rules.shared_variance_products``.  ``V`` is the variance of the mean over positions.

Exact: one layer with constant inputs, and functions that only move its entries.
Approximate: all others; see ``tractable.moments.shared_variance``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tractable.gaussian import Gaussian
from tractable.moments import shared_variance as formulas
from tractable.moments.shared_variance import PooledVariance

Operand = Gaussian | Tensor
Compute = Callable[[], PooledVariance | None]


class SharedVariance:
    """The variance that the positions of a state share, computed when it is first needed.

    Args:
        compute: function that computes it; it may return None.
        of: the variances of the state that it describes, if known.
        dims: dimensions that will be found to contain positions, if known.
    """

    __slots__ = ("_compute", "_of", "_result", "dims")

    def __init__(
        self, compute: Compute, of: Tensor | None = None, dims: tuple[int, ...] | None = None
    ) -> None:
        self.dims = dims
        self._compute: Compute | None = compute
        self._result: PooledVariance | None = None
        self._of = None if of is None else weakref.ref(of)
        if not torch.is_grad_enabled():
            self.pooled()

    def pooled(self) -> PooledVariance | None:
        """Return the variance of the mean over positions, or None if it could not be propagated."""
        if self._compute is not None:
            self._result = self._compute()
            self._compute = None  # releases the states that it refers to
        return self._result

    def is_current_for(self, variance: Tensor) -> bool:
        """Return whether V was computed for these very variances."""
        return self._of is not None and self._of() is variance

    def moved(self, shape: torch.Size, function: Callable[[Tensor], Tensor]) -> SharedVariance:
        """Return the shared variance after a function that only moves entries.

        Args:
            shape: shape of the state.
            function: the move.
        """
        return SharedVariance(lambda: _moved(self.pooled(), shape, function))


def pooled_variance(x: Any) -> PooledVariance | None:
    """Return the variance of the mean over positions; None if it is not tracked."""
    shared = x.shared if isinstance(x, Gaussian) else None
    return None if shared is None else shared.pooled()


def variance_of_mean(x: Gaussian, dims: tuple[int, ...]) -> Tensor:
    """Return V, the variance of the mean over the given dimensions."""
    pooled = pooled_variance(x)
    if pooled is not None and pooled.dims == dims:
        if x.shared is not None and x.shared.is_current_for(x.variance):
            return pooled.variance
        sampled_variances = formulas.sampled(x.variance.detach(), dims)
        return formulas.mean_variance(
            sampled_variances, pooled, formulas.n_positions(x.shape, dims)
        )
    return formulas.independent(x.variance, dims)


def pooled_state(
    variance_of_mean: Tensor, z: Tensor, dims: tuple[int, ...]
) -> PooledVariance | None:
    """Return the pooled variance of a state with variances ``z``, None for a single position."""
    count = formulas.n_positions(z.shape, dims)
    if count < 2:
        return None
    return formulas.pooled(variance_of_mean, formulas.sampled(z.detach(), dims), dims, count)


def state_factory(
    z: Tensor, dims: tuple[int, ...] | None
) -> Callable[[Tensor, Any], PooledVariance | None]:
    """Return ``pooled_state`` as a function of V and of dimensions that may be known only then.

    If the dimensions are known already, only a sample of the variances stays in memory.
    """
    if dims is None:
        return lambda found, then: pooled_state(found, z, then)
    sampled_variances, count = (
        formulas.sampled(z.detach(), dims),
        formulas.n_positions(z.shape, dims),
    )
    return lambda found, _: (
        formulas.pooled(found, sampled_variances, dims, count) if count > 1 else None
    )


def of_sum(x: Gaussian, y: Gaussian, factor: float, variance: Tensor) -> SharedVariance | None:
    """Return the variance that the positions of ``x + y`` share.

    Args:
        x: the first summand.
        y: the second summand.
        factor: factor of the variance of y.
        variance: variances of the sum.
    """
    if x.shared is None and y.shared is None:
        return None
    if x.shared is not None and y.shared is not None and x.shape == y.shape:
        dims = x.shared.dims
        if dims is not None and dims == y.shared.dims:
            return _of_aligned_sum(x, y, factor, variance, dims)
    x, y = snapshot(x), snapshot(y)

    def compute() -> PooledVariance | None:
        known = pooled_variance(x) or pooled_variance(y)
        if known is None:
            return None
        dims = aligned_dims(known, x if pooled_variance(x) is not None else y, variance)
        parts = [variance_of_mean(with_leading_dims(g, variance.ndim), dims) for g in (x, y)]
        return pooled_state(parts[0] + parts[1] * factor, variance, dims)

    return SharedVariance(compute, variance)


def _of_aligned_sum(
    x: Gaussian, y: Gaussian, factor: float, variance: Tensor, dims: tuple[int, ...]
) -> SharedVariance:
    """Return the same for positions in the same dimensions, without keeping the states."""
    parts, finish = (input_v_of(x, dims), input_v_of(y, dims)), state_factory(variance, dims)

    def compute() -> PooledVariance | None:
        first, second = parts[0](), parts[1]()
        assert first is not None
        assert second is not None
        return finish(first + second * factor, dims)

    return SharedVariance(compute, variance, dims)


def resized(x: Gaussian, shape: torch.Size) -> SharedVariance | None:
    """Return the variance that positions share when some are added or removed, as by padding."""
    shared = x.shared
    if shared is None:
        return None

    def compute() -> PooledVariance | None:
        pooled = shared.pooled()
        if pooled is None:
            return None
        rest = (d for d in range(x.ndim) if d not in pooled.dims)
        return pooled if all(x.shape[d] == shape[d] for d in rest) else None

    return SharedVariance(compute)


def of_parts(parts: Sequence[Gaussian], dim: int, variance: Tensor) -> SharedVariance | None:
    """Return the variance that positions share after parts are joined along ``dim``."""
    if all(part.shared is None for part in parts):
        return None
    parts = [
        snapshot(part) for part in parts if part.numel()
    ]  # torch allows empty parts of another shape

    def compute() -> PooledVariance | None:
        known = next((p for p in map(pooled_variance, parts) if p is not None), None)
        if known is None:
            return None
        along = dim % variance.ndim
        pieces = [variance_of_mean(part, known.dims) for part in parts]
        if along not in known.dims:
            return pooled_state(torch.cat(pieces, along), variance, known.dims)
        total = variance.shape[along]
        weighted = [
            v * (part.shape[along] / total) ** 2 for v, part in zip(pieces, parts, strict=True)
        ]
        return pooled_state(torch.stack(weighted).sum(0), variance, known.dims)

    return SharedVariance(compute)


def window_means(
    x: Gaussian,
    pooled: PooledVariance,
    average: Tensor,
    inside: Tensor | float,
    weight: Tensor | float,
) -> tuple[Tensor, Tensor]:
    """Return the variances of means over windows of positions, and V of the input."""
    whole = variance_of_mean(x, pooled.dims)
    count = formulas.n_positions(x.shape, pooled.dims)
    found = formulas.window_variance(average, inside, weight, whole, pooled.dims, count)
    return found, whole


def of_windows(
    x: Gaussian, variance: Tensor, inside: Tensor | float, dims: tuple[int, ...]
) -> SharedVariance | None:
    """Return the variance that means over windows share: their mean is that of all positions."""
    shared, input_v = x.shared, input_v_of(x, dims)
    sampled_variances, count = (
        formulas.sampled(variance.detach(), dims),
        formulas.n_positions(variance.shape, dims),
    )
    if shared is None or count < 2:
        return None

    def compute() -> PooledVariance | None:
        pooled, v = shared.pooled(), input_v()
        if pooled is None or pooled.dims != dims or v is None:
            return None
        return formulas.pooled(v * inside**2, sampled_variances, dims, count)

    return SharedVariance(compute)


def input_v_of(x: Operand, dims: tuple[int, ...]) -> Callable[[], Tensor | None]:
    """Return a function that returns V of an input over the given dimensions."""
    if not isinstance(x, Gaussian):
        return lambda: None
    shared, count, variance = x.shared, formulas.n_positions(x.shape, dims), x.variance
    if shared is None:
        return lambda: formulas.independent(variance, dims)
    sampled_variances, is_current = (
        formulas.sampled(variance.detach(), dims),
        shared.is_current_for(variance),
    )

    def compute() -> Tensor:
        pooled = shared.pooled()
        if pooled is not None and pooled.dims == dims:
            return (
                pooled.variance
                if is_current
                else formulas.mean_variance(sampled_variances, pooled, count)
            )
        return sampled_variances.mean(dims, keepdim=True) / count

    return compute


def snapshot(g: Gaussian) -> Gaussian:
    """Return the Gaussian as it is now, before later in-place functions change it."""
    return Gaussian.wrap(g.loc, g.variance, g.shared)


def with_leading_dims(g: Gaussian, ndim: int) -> Gaussian:
    """Return the Gaussian with dimensions of size one in front, as broadcasting adds them."""
    missing = ndim - g.ndim
    if not missing:
        return g
    shape = (*[1] * missing, *g.shape)
    return Gaussian.wrap(g.loc.reshape(shape), g.variance.reshape(shape))


def aligned_dims(pooled: PooledVariance, x: Tensor, z: Tensor) -> tuple[int, ...]:
    """Return the dimensions of positions in a result that may have more dimensions in front."""
    return tuple(dim + z.ndim - x.ndim for dim in pooled.dims)


def _moved(
    pooled: PooledVariance | None, shape: torch.Size, function: Callable[[Tensor], Tensor]
) -> PooledVariance | None:
    """Return the pooled variance after a move.

    The dimensions of positions are found by moving a tensor whose positions are copies without a
    stride: they are the dimensions without a stride afterwards.
    """
    if pooled is None:
        return None
    try:
        probe = function(torch.empty_strided(shape, _strides(shape, pooled.dims), device="meta"))
    except RuntimeError:  # a view that mixes positions with other dimensions
        return None
    dims = tuple(d for d in range(probe.ndim) if probe.shape[d] > 1 and not probe.stride(d))
    if not dims:
        return None
    first = tuple(slice(0, 1) if d in dims else slice(None) for d in range(probe.ndim))
    once = [1 if d in pooled.dims else size for d, size in enumerate(shape)]

    def moved(numbers: Tensor) -> Tensor:
        # Laid out as what was looked at: an earlier move may have left them in another order.
        return function(numbers.expand(once).contiguous().expand(shape))[first]

    return PooledVariance(moved(pooled.variance), dims, lambda: moved(pooled.share))


def _strides(shape: torch.Size, free: tuple[int, ...]) -> list[int]:
    """Return the strides of a state whose positions are copies."""
    strides, step = [0] * len(shape), 1
    for dim in reversed(range(len(shape))):
        if dim not in free:
            strides[dim] = step
            step *= shape[dim]
    return strides
