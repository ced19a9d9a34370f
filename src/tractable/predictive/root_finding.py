"""Quantiles by inverting distribution functions, and modes by hill climbing."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Function = Callable[[Tensor], Tensor]

_DOUBLINGS = 60
_HALVINGS = 200
_SMALLEST = 1e-300
_NEVER_ZERO = 1e-300
"""Stands for a share that is reached exactly where it must be exceeded."""


def check_probability(q: float) -> None:
    """Raise ``ValueError`` unless 0 < q < 1."""
    if not 0 < q < 1:
        raise ValueError(f"q must lie between 0 and 1, got {q}")


def invert(
    cdf: Function,
    q: float | Tensor,
    start: Tensor,
    step: Tensor,
    *,
    is_discrete: bool,
    strict: bool | Tensor = False,
    eps: float = 1e-15,
) -> Tensor:
    """Return the least value at which ``cdf`` is at least ``q``, for every entry.

    Args:
        cdf: an increasing function of every entry.
        q: the share, one for all entries or one for each.
        start: first guess, in double precision.
        step: how far the first bracket reaches to either side of it.
        is_discrete: whether only integers are allowed.
        strict: where True, ``cdf`` must be greater than ``q``.
        eps: precision of the result, relative to its size and to ``step``.
    """
    share = torch.as_tensor(q, dtype=start.dtype, device=start.device).expand_as(start)
    beyond = torch.as_tensor(strict, device=start.device).expand_as(start)

    def miss(y: Tensor) -> Tensor:
        """Return the distribution function minus the share; never zero below the quantile."""
        above = cdf(y).to(start.dtype) - share
        return torch.where(beyond & (above == 0), torch.full_like(above, -_NEVER_ZERO), above)

    if is_discrete:
        start, step = start.floor(), step.ceil().clamp_min(1)
    ends = _bracket(miss, start, step)
    return _halve(miss, *ends[:2]) if is_discrete else _interpolate(miss, *ends, eps * step, eps)


def _bracket(miss: Function, start: Tensor, step: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return ends with the quantile between them, and ``miss`` there: below and above zero."""
    low, high = start - step, start + step
    at_low, at_high = miss(low), miss(high)
    for _ in range(_DOUBLINGS):
        late, early = at_low >= 0, at_high < 0
        if not bool((late | early).any()):
            break
        step = 2 * step
        # the end that was too far in becomes the other end
        low, high = (
            torch.where(late, low - step, torch.where(early, high, low)),
            torch.where(early, high + step, torch.where(late, low, high)),
        )
        at_low, at_high = miss(low), miss(high)
    return low, high, at_low, at_high


def _halve(miss: Function, low: Tensor, high: Tensor) -> Tensor:
    """Return the smallest integer that is not below the quantile, by bisection."""
    for _ in range(_HALVINGS):
        if bool((high - low <= 1).all()):
            break
        middle = ((low + high) / 2).floor()
        enough = miss(middle) >= 0
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    return high


def _interpolate(
    miss: Function,
    low: Tensor,
    high: Tensor,
    at_low: Tensor,
    at_high: Tensor,
    least: Tensor,
    eps: float,
) -> Tensor:
    """Return a root between two ends to ``least + eps |root|``, by quadratic steps or bisection.

    T. R. Chandrupatla, "A new hybrid quadratic/bisection algorithm for finding the zero of a
    nonlinear function without using derivatives", 1997.
    """
    a, b, f_a, f_b = high, low, at_high, at_low
    t = torch.full_like(a, 0.5)
    for _ in range(_HALVINGS):
        at = a + t * (b - a)
        f = miss(at)
        same = (f >= 0) == (f_a >= 0)
        c, f_c = torch.where(same, a, b), torch.where(same, f_a, f_b)
        b, f_b = torch.where(same, b, a), torch.where(same, f_b, f_a)
        a, f_a = at, f
        nearest = torch.where(f_a.abs() < f_b.abs(), a, b)
        limit = (2 * eps * nearest.abs() + least) / (b - a).abs().clamp_min(_SMALLEST)
        if bool(((limit > 0.5) | (f_a == 0) | (f_b == 0)).all()):
            break
        xi, phi = (a - b) / (c - b), (f_a - f_b) / (f_c - f_b)
        fits = (phi * phi < xi) & ((1 - phi) ** 2 < 1 - xi)
        step = f_a / (f_b - f_a) * f_c / (f_b - f_c)
        step = step + (c - a) / (b - a) * f_a / (f_c - f_a) * f_b / (f_c - f_b)
        t = torch.where(fits, step, 0.5)
        t = torch.minimum(torch.maximum(t, limit), 1 - limit).clamp(0, 1)
    return torch.where(f_a.abs() < f_b.abs(), a, b)


def climb(
    density: Function, starts: Tensor, step: Tensor, *, is_discrete: bool, alone: bool = True
) -> Tensor:
    """Return the best of several starts, improved by hill climbing with decreasing steps.

    Args:
        density: log density of each row.
        starts: candidates, stacked in front of the rows.
        step: first step, in the shape of a candidate.
        is_discrete: whether only integers are allowed.
        alone: whether a row is one number; otherwise the best of the starts is the answer.
    """
    starts = starts.round() if is_discrete else starts
    best, height = starts[0], density(starts[0])
    for candidate in starts[1:]:
        best, height = _better(best, height, candidate, density(candidate))
    if not alone:
        return best
    step = step.ceil().clamp_min(1) if is_discrete else step
    for _ in range(_DOUBLINGS):
        before = height
        for move in (step, -step):
            best, height = _better(best, height, best + move, density(best + move))
        moved = (height > before).reshape(best.shape)
        step = torch.where(moved, step, (step / 2).ceil() if is_discrete else step / 2)
    return best


def _better(
    best: Tensor, height: Tensor, other: Tensor, its_height: Tensor
) -> tuple[Tensor, Tensor]:
    higher = its_height > height
    chosen = higher.reshape(*higher.shape, *[1] * (best.ndim - higher.ndim))
    return torch.where(chosen, other, best), torch.where(higher, its_height, height)
