"""What summed messages do to the state that receives them.

With ``q = -var * d_var``, one observed value gives the published ``var_post = var (1 - q)``,
which is exact.  Messages of ``n`` observed values add up to a ``q`` that may pass one, although
each part stays below: along any path of the rules the variance of an output is at least the sum
of what its ancestors contribute, so every part is at most ``var_z / (var_z + noise) < 1``.
Summing the *information* each observed value holds beyond the state itself,
``q_i / (1 - q_i)``, with equal parts ``q_i = q / n``, gives

    var_post = var * (1 - q/n) / (1 - q/n + q)

Exact: for ``n = 1``, and for ``n`` observations of one state that are alike.
Approximate: equal parts; by convexity this never claims more information than unequal ones.
It is positive for every ``n`` and tends to the information form ``var / (1 + q)``.

Messages of correlated observations overshoot: each answers the whole residual.  ``damping`` looks
at the step as a whole, along its own direction, and gives it the gain that one observation along
it would have.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def shrinkage(q: Tensor, n: Tensor | float) -> Tensor:
    """``var_post / var`` after messages of ``n`` observed values with total ``q``."""
    rest = 1 - q / n
    return rest / (rest + q)


def published_shrinkage(q: Tensor) -> Tensor:
    """``1 - q`` up to q = 1/2 and ``1 / (4 q)`` beyond: the same value and slope, but positive."""
    return torch.where(q <= 0.5, 1 - q, 0.25 / q.clamp_min(0.5))


def observed_power(d_mu: Tensor, d_var: Tensor) -> Tensor:
    """``d_mu^2`` of the values that were observed, zero for the others."""
    return torch.where(d_var < 0, d_mu * d_mu, 0)


def damping(
    weight: Tensor,
    d_var: Tensor,
    variance: Tensor,
    power: Tensor,
    total: Callable[[Tensor], Tensor],
) -> Tensor:
    """The gain ``min(1, c / (lambda + s2))`` of a step, free of divisions by zero.

    ``lambda`` is the prior variance of the outputs along the step, ``c`` the variance that the
    messages were divided by and ``s2`` the part of it that is noise.

    Args:
        weight: ``observed_power`` of the messages.
        d_var: second halves of the messages to the outputs.
        variance: variance of the outputs.
        power: ``lambda`` times the sum of ``weight``.
        total: sums what belongs to one step, for example ``torch.sum``.
    """
    divided_by = -1 / torch.where(d_var < 0, d_var, -1)
    c = total(weight * divided_by)
    limit = power + (c - total(weight * variance))  # c and this: times the sum of the weights
    return torch.where(limit > c, c / limit.clamp_min(torch.finfo(c.dtype).tiny), 1)


def condition(
    mu: Tensor, var: Tensor, d_mu: Tensor, d_var: Tensor, n: Tensor | float = 1
) -> tuple[Tensor, Tensor]:
    """Posterior moments of a state from its prior moments and the sum of ``n`` messages.

    ``mu_post = mu + var * d_mu``; for the variance see the module.
    """
    return mu + var * d_mu, var * shrinkage((-var * d_var).clamp(min=0), n).clamp(min=0)
