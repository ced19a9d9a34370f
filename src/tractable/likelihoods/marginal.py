"""Distribution functions and samples of targets with Gaussian outputs.

With ``z = mean + std e`` the distribution function of the target is

    F(y) = integral of F(y | z) N(e; 0, 1) de

If the noise is at least about half as wide as the standard deviation of the expected target,
``F(y | z)`` is smooth in e, and equidistant nodes half a standard deviation apart are exact to
seven digits; for a noise half as wide the distance is halved.  For a narrower noise ``F(y | z)``
falls from 1 to 0 between two such nodes.  Then the location c and the width w of the step are found
first, and nodes are equidistant in t with ``e = c + w sinh(t)``: dense at the step, and with
distances that grow by a constant factor away from it.

Exact: to about six digits for distributions that shift in one direction as the output grows.
Approximate: a distribution function that changes quickly at several far apart values of the output.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.distributions import Distribution

from tractable.predictive import cdfs
from tractable.predictive.sampling import chunk_sizes, seeded

Conditional = Callable[[Tensor], Distribution]
Share = Callable[[Tensor], Tensor]

_REACH = 7.0
"""Standard deviations of the output on either side of its mean that are integrated over."""
_EVEN = 29
"""Equidistant nodes, half a standard deviation apart; a quarter, if that does not suffice."""
_RESOLVED = 0.35
"""Change of ``F(y | z)`` between even nodes up to which they suffice; of a normal noise whose
standard deviation is the distance of nodes it is 0.38."""
_ZOOMS = 7
"""Each divides the interval with the step by 16; the last is 2e-8 standard deviations wide."""
_DENSE = 151
_THRESHOLDS = 60
_MAX_DISTANCE, _MAX_DISTANCE_STD = 0.7, 1.25
"""Largest distance of thresholds: absolute, and in standard deviations of the output."""
_OUTER, _OUTER_REACH = 25, 6.0
"""Number and reach of the nodes of the output with the smaller effect."""


def expected_share(share: Share, like: Tensor) -> Tensor:
    """Return the mean of ``share(e)`` over standard normal e, for every entry.

    Args:
        share: a distribution function at outputs ``e`` standard deviations off, with nodes in
            front of the entries.
        like: a tensor in the shape of the entries, in double precision.
    """
    shape = (-1, *[1] * like.ndim)
    e = torch.linspace(-_REACH, _REACH, _EVEN, dtype=like.dtype, device=like.device).reshape(shape)
    found = share(e.expand(_EVEN, *like.shape))
    total = ((-0.5 * e * e).softmax(0) * found).sum(0)
    if not bool((found.diff(dim=0).abs().amax(0) > _RESOLVED).any()):
        return total
    halfway = 0.5 * (e[1:] + e[:-1])
    between = share(halfway.expand(_EVEN - 1, *like.shape))
    total = 0.5 * (total + ((-0.5 * halfway * halfway).softmax(0) * between).sum(0))
    found = torch.cat([torch.stack([found[:-1], between], 1).flatten(0, 1), found[-1:]])
    narrow = found.diff(dim=0).abs().amax(0) > _RESOLVED
    if not bool(narrow.any()):
        return total
    center, width = _fall(share, found)
    reach = torch.asinh((_REACH + center.abs()) / width)
    t = torch.linspace(-1, 1, _DENSE, dtype=like.dtype, device=like.device).reshape(shape) * reach
    e = center + width * torch.sinh(t)
    weight = torch.exp(-0.5 * e * e) * torch.cosh(t)
    dense = (weight * share(e)).sum(0) / weight.sum(0)
    return torch.where(narrow, dense, total)


def _fall(share: Share, found: Tensor) -> tuple[Tensor, Tensor]:
    """Return where ``share`` changes most, and a width in which it changes by at most a third."""
    nodes = 17
    step = torch.full_like(found[0], 2 * _REACH / (len(found) - 1))
    center = torch.zeros_like(step)
    low = torch.full_like(step, -_REACH)
    line = torch.linspace(0, 1, nodes, dtype=found.dtype, device=found.device)
    line = line.reshape(-1, *[1] * step.ndim)
    for _ in range(_ZOOMS):
        change = found.diff(dim=0).abs()
        greatest, cell = change.max(0)
        low = low + cell * step
        center = low + 0.5 * step
        if not bool((greatest > _RESOLVED).any()):
            break
        # entries that are resolved continue as well; their interval only becomes narrower
        found = share(low + step * line)
        step = step / (nodes - 1)
    return center, step


def cumulative(conditional: Conditional, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """Return ``P(Y <= y)`` of every target; each target has one output.

    Args:
        conditional: distribution of the numbers, given their outputs.
        y: numbers, in double precision.
        mean: mean of the outputs.
        variance: variance of the outputs.
    """
    if not bool(variance.any()):
        return cdfs.cdf(conditional(mean), y)
    std = variance.sqrt()
    return expected_share(lambda e: cdfs.cdf(conditional(mean + std * e), y), y)


def cumulative_of_counts(
    log_density: Share,
    low: Tensor,
    high: Tensor,
    mean: Tensor,
    variance: Tensor,
    otherwise: Callable[[], Tensor],
) -> Tensor:
    """Return ``P(Y <= k) = P(z <= U)`` of counts that grow with z, by the distribution of U.

    A Poisson process has at most k events before the time of event k + 1, whose log is U.  Given U
    the integral over z has a closed form, so that no special function is needed.

    Args:
        log_density: log density of U at its nodes, up to a constant.
        low: where it is negligible below its peak.
        high: where it is negligible above its peak.
        mean: mean of the outputs.
        variance: variance of the outputs.
        otherwise: computes the same for outputs with a variance that is too small for this.
    """
    share = torch.linspace(0, 1, _THRESHOLDS, dtype=low.dtype, device=low.device)
    apart = (high - low) / (_THRESHOLDS - 1)
    std = variance.sqrt()
    fine = apart <= (_MAX_DISTANCE_STD * std).clamp(max=_MAX_DISTANCE)
    if not bool(fine.any()):
        return otherwise()
    u = low + (high - low) * share.reshape(-1, *[1] * low.ndim)
    score = (u - mean) / std.clamp_min(torch.finfo(std.dtype).tiny)
    found = (log_density(u).softmax(0) * torch.special.ndtr(score)).sum(0)
    return found if bool(fine.all()) else torch.where(fine, found, otherwise())


def cumulative_of_two(
    conditional: Conditional, y: Tensor, mean: Tensor, variance: Tensor
) -> Tensor:
    """Return ``P(Y <= y)`` of every number, with two outputs for each.

    The output with the larger effect on the expected number is integrated as above, the other by
    nodes half a standard deviation apart, because the result of the first integral is smooth.

    Args:
        conditional: distribution of the numbers, given their outputs.
        y: numbers, in double precision.
        mean: mean of the outputs; the first outputs of all targets come first.
        variance: variance of the outputs.
    """
    if not bool(variance.any()):
        return cdfs.cdf(conditional(mean), y)
    means, stds = mean.chunk(2, -1), variance.sqrt().chunk(2, -1)

    def given(first: Tensor, second: Tensor) -> Distribution:
        first, second = torch.broadcast_tensors(first, second)
        scores = (means[0] + stds[0] * first, means[1] + stds[1] * second)
        return conditional(torch.cat(scores, -1))

    one, zero = torch.ones_like(y), torch.zeros_like(y)
    moved = [
        (given(*(sign * t for t in pair)).mean - given(zero, zero).mean).abs().nan_to_num(0.0)
        for pair in ((one, zero), (zero, one))
        for sign in (1, -1)
    ]
    swapped = torch.maximum(*moved[2:]) > torch.maximum(*moved[:2])
    outer, weight = normal_scores(y, _OUTER, _OUTER_REACH)

    def share(inner: Tensor, other: Tensor) -> Tensor:
        scores = (torch.where(swapped, other, inner), torch.where(swapped, inner, other))
        return cdfs.cdf(given(*scores), y)

    total = torch.zeros_like(y)
    for at, part in zip(outer, weight, strict=True):  # one at a time, for memory
        total = total + part * expected_share(partial(share, other=at.expand_as(y)), y)
    return total


def sample(
    conditional: Conditional,
    mean: Tensor,
    variance: Tensor,
    n: int,
    generator: torch.Generator | None,
) -> Tensor:
    """Return ``n`` samples of the targets: sample outputs, then targets given the outputs."""
    std, found = variance.sqrt(), []
    for few in chunk_sizes(n, mean.numel()):
        scores = torch.randn(few, *mean.shape, generator=generator, dtype=mean.dtype)
        z = mean + std * scores.to(mean.device)
        with seeded(generator, mean.device):
            found.append(conditional(z).sample())
    return torch.cat(found)


def has_cdf(conditional: Conditional, mean: Tensor) -> bool:
    """Return whether the distribution given the outputs has a distribution function."""
    return cdfs.has_cdf(conditional(mean))


def normal_scores(like: Tensor, number: int, reach: float) -> tuple[Tensor, Tensor]:
    """Return equidistant nodes of a standard normal variable, in dimension 0, and weights."""
    shape = (-1, *[1] * like.ndim)
    e = torch.linspace(-reach, reach, number, dtype=like.dtype, device=like.device).reshape(shape)
    return e, (-0.5 * e * e - 0.5 * math.log(2 * math.pi)).softmax(0)
