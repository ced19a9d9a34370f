"""Where a distribution function reaches a share, and where a density is greatest."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Function = Callable[[Tensor], Tensor]

_DOUBLINGS = 60
_HALVINGS = 200


def check_share(q: float) -> None:
    """Refuse what is no share of the probability."""
    if not 0 < q < 1:
        raise ValueError(f"q must lie between 0 and 1, got {q}")


def invert(cdf: Function, q: float, start: Tensor, step: Tensor, *, whole: bool) -> Tensor:
    """The least value at which ``cdf`` is at least ``q``, for every entry, by bisection.

    Args:
        cdf: an increasing function of every entry.
        q: the share.
        start: where to begin, in double precision.
        step: how far the first guesses lie from there.
        whole: whether only whole numbers count.
    """
    if whole:
        start, step = start.floor(), step.ceil().clamp_min(1)
    low, high = start - step, start + step
    for _ in range(_DOUBLINGS):
        late, early = cdf(low) >= q, cdf(high) < q
        if not bool((late | early).any()):
            break
        step = 2 * step
        low, high = torch.where(late, low - step, low), torch.where(early, high + step, high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        middle = middle.floor() if whole else middle
        enough = cdf(middle) >= q
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
        width = high - low
        if bool((width <= (1 if whole else 1e-14 * (1 + high.abs()))).all()):
            break
    return high


def climb(
    density: Function, starts: Tensor, step: Tensor, *, whole: bool, alone: bool = True
) -> Tensor:
    """The best of several starts, and from there uphill with ever smaller steps.

    Args:
        density: log density of each row.
        starts: candidates, stacked in front of the rows.
        step: first step, in the shape of a candidate.
        whole: whether only whole numbers count.
        alone: whether a row is one number; otherwise the best of the starts is the answer.
    """
    starts = starts.round() if whole else starts
    best, height = starts[0], density(starts[0])
    for candidate in starts[1:]:
        best, height = _better(best, height, candidate, density(candidate))
    if not alone:
        return best
    step = step.ceil().clamp_min(1) if whole else step
    for _ in range(_DOUBLINGS):
        before = height
        for way in (step, -step):
            best, height = _better(best, height, best + way, density(best + way))
        moved = (height > before).reshape(best.shape)
        step = torch.where(moved, step, (step / 2).ceil() if whole else step / 2)
    return best


def _better(
    best: Tensor, height: Tensor, other: Tensor, its_height: Tensor
) -> tuple[Tensor, Tensor]:
    higher = its_height > height
    chosen = higher.reshape(*higher.shape, *[1] * (best.ndim - higher.ndim))
    return torch.where(chosen, other, best), torch.where(higher, its_height, height)
