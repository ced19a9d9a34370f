"""Batch rules: the change of the parameters by the summed messages of a batch.

``damped`` (the default).  The sum of the messages of B correlated observations overshoots, because
each message corrects the whole residual.  The damped rule scales the step as a whole, along its own
direction.  With messages ``d_i`` to the outputs, ``g = sum of messages to a weight`` and
``v`` its variance,

    lambda = sum_w v g^2 / sum_i d_i^2      prior variance of the outputs along the step
    c, s2  = averages of -1/d_var_i and of -1/d_var_i - var_i, weighted by d_i^2
    alpha  = min(1, c / (lambda + s2))      the gain that one observation along it would have
    mu'    = mu + alpha v g
    var'   = var (1 - Q/N) / (1 - Q/N + Q)  with Q = -alpha v sum d_var, N = max(1, alpha n)

where n is the number of observed values (``tractable.moments.conditioning`` explains the last
line).
Exact: one observed value (then alpha = 1, and this is the published update); B alike
observations move the mean as their joint posterior does.  For uncorrelated observations
alpha = 1.  The variance is positive by construction.

``limited`` steps.  A step has the length ``alpha sqrt(sum_w v g^2)`` in prior standard deviations,
about ``|e| / sqrt(S)`` for one value with error e.  Over a long step along one direction, a network
of several layers is far from linear.  With

    n_eff = (sum d^2)^2 / sum d^4           values that share a large error: 1 for one outlier
    L^2   = 3^2 max(1, alpha n_eff)

a longer step is shortened to L, by a smaller alpha for mean and variance.  For one value this is
equivalent to a larger noise with which the step is three standard deviations long.  A network of
one layer has no limit, because its step is exact.

``published``: ``mu + v g`` and ``v + v^2 sum d_var``, for parity.  Where ``q = -v sum d_var``
passes 1/2, the variance continues as ``v / (4 q)`` (same value and slope) and stays positive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from tractable.moments.conditioning import (
    damping,
    observed_power,
    published_shrinkage,
    shrinkage,
)

BatchRule = Literal["damped", "published"]
BATCH_RULES: tuple[BatchRule, ...] = ("damped", "published")

LONGEST = 3.0
"""Maximum length, in prior standard deviations, of a limited step due to one value."""


@dataclass(frozen=True)
class Step:
    """The numbers that scale an update, and whether all its parts are finite.

    ``power`` is the ``sum_w v g^2`` that determines the length of the step.
    """

    alpha: Tensor
    observed: Tensor
    finite: Tensor
    power: Tensor


def plan(
    rule: BatchRule,
    d_mu: Tensor,
    d_var: Tensor,
    output_variance: Tensor,
    shift: list[Tensor],
    g: list[Tensor],
    g_var: list[Tensor],
    *,
    exactly: bool = False,
) -> Step:
    """Return the scale of a step, given the messages to the outputs and to the weights.

    ``shift`` holds ``v g``, the step before scaling.  ``exactly`` computes in double precision.
    """
    power = _sum([torch.dot(h.view(-1), a.view(-1)) for h, a in zip(shift, g, strict=True)])
    finite = torch.isfinite(power + _sum([b.sum() for b in g_var]))
    observed = (d_var < 0).sum().clamp_min(1).to(d_mu.dtype)
    if rule == "published":
        return Step(torch.ones_like(power), observed, finite, power)
    if exactly:
        power, d_mu, d_var = power.double(), d_mu.double(), d_var.double()
    weight = observed_power(d_mu, d_var)
    tiny = torch.finfo(d_mu.dtype).tiny
    along = power * weight.sum() / (d_mu * d_mu).sum().clamp_min(tiny)
    alpha = damping(weight, d_var, output_variance, along, torch.sum)
    return Step(alpha, observed, finite & torch.isfinite(along), power)


def may_be_long(alpha: float, power: float) -> bool:
    """Return whether a step may exceed its limit, which is rare."""
    return not alpha * alpha * power <= LONGEST**2


def limited(step: Step, d_mu: Tensor) -> Step:
    """Return a step that does not exceed the limit.

    Args:
        step: planned in double precision.
        d_mu: messages to the means of the outputs.
    """
    alpha, power = step.alpha, step.power
    squares = d_mu.double().square()
    tiny = torch.finfo(squares.dtype).tiny
    shared = squares.sum().square() / squares.square().sum().clamp_min(tiny)
    longest = LONGEST**2 * (alpha * shared).clamp_min(1)
    length = alpha * alpha * power
    shorter = alpha * (longest / length.clamp_min(tiny)).sqrt()
    return replace(step, alpha=torch.where(length > longest, shorter, alpha))


def updated(
    rule: BatchRule, loc: Tensor, variance: Tensor, shift: Tensor, g_var: Tensor, step: Step
) -> tuple[Tensor, Tensor]:
    """Return new means and variances, as in the equations."""
    q = -step.alpha * variance * g_var
    if rule == "published":
        shrink = published_shrinkage(q)
    else:
        shrink = shrinkage(q, (step.alpha * step.observed).clamp_min(1)).clamp_min(0)
    return loc + step.alpha * shift, variance * shrink


def apply(
    rule: BatchRule,
    loc: Tensor,
    variance: Tensor,
    shift: Tensor,
    g_var: Tensor,
    alpha: float,
    observed: float,
) -> None:
    """Apply the same update in place, without allocating memory.

    ``shift`` and ``g_var`` are overwritten.  With ``w = v sum d_var`` and ``N = max(1, alpha n)``
    the damped variance is ``v (1 + alpha/N w) / (1 + (alpha/N - alpha) w)``.
    """
    loc.add_(shift, alpha=alpha)
    w = g_var.mul_(variance)
    if rule == "published":
        q = w.neg_()
        variance.mul_(published_shrinkage(q))
        return
    one = variance.new_ones(())
    n = max(1.0, alpha * observed)
    if n > 1:
        torch.add(one, w, alpha=alpha / n - alpha, out=shift)
        variance.div_(shift)
    variance.mul_(torch.add(one, w, alpha=alpha / n, out=w)).clamp_min_(0)


def forget(
    variance: Tensor,
    prior_variance: Tensor | float,
    rate: Tensor | float,
    scratch: Tensor | None = None,
) -> None:
    """Move the precision by the share ``rate`` back to that of the prior, in place.

    ``1/v <- 1/v - rate (1/v - 1/v0)``: data of the next epoch must not be counted twice.
    The mean does not change.
    """
    share = torch.mul(variance, rate / prior_variance, out=scratch)
    variance.div_(share.add_(1 - rate))


def _sum(numbers: list[Tensor]) -> Tensor:
    return numbers[0] if len(numbers) == 1 else torch.stack(numbers).sum()
