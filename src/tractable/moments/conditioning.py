"""The posterior moments of a state that has received messages.

With ``q = -var * d_var``, one observed value gives the published ``var_post = var (1 - q)``, which
is exact.  The messages of ``n`` observed values add up to a ``q`` that may exceed one, although
each part is below one: along any path of the rules the variance of an output is at least the sum of
the contributions of its ancestors, so each part is at most ``var_z / (var_z + noise) < 1``.
Summing the *information* of each observed value beyond the state itself, ``q_i / (1 - q_i)``, with
equal parts ``q_i = q / n``, gives

    var_post = var * (1 - q/n) / (1 - q/n + q)

Exact: for ``n = 1``, and for ``n`` equal observations of one state.
Approximate: equal parts; by convexity this never claims more information than unequal parts do.
It is positive for each ``n`` and tends to the information form ``var / (1 + q)``.

The messages of correlated observations overshoot, because each corrects the whole residual.
``damping`` considers the whole step along its direction and gives it the gain of one observation
along it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def shrinkage(q: Tensor, n: Tensor | float) -> Tensor:
    """Return ``var_post / var`` after messages of ``n`` observed values.

    Args:
        q: ``-var * d_var``, summed over the values.
        n: number of observed values.
    """
    rest = 1 - q / n
    return rest / (rest + q)


def published_shrinkage(q: Tensor) -> Tensor:
    """Return ``1 - q`` up to q = 1/2 and ``1 / (4 q)`` beyond, which is positive and smooth."""
    return torch.where(q <= 0.5, 1 - q, 0.25 / q.clamp_min(0.5))


def observed_power(d_mu: Tensor, d_var: Tensor) -> Tensor:
    """Return ``d_mu^2`` of the values that were observed, zero for the others."""
    return torch.where(d_var < 0, d_mu * d_mu, 0)


def damping(
    weight: Tensor,
    d_var: Tensor,
    variance: Tensor,
    power: Tensor,
    total: Callable[[Tensor], Tensor],
) -> Tensor:
    """Return the gain ``min(1, c / (lambda + s2))`` of a step, without divisions by zero.

    ``lambda`` is the prior variance of the outputs along the step, ``c`` the variance that the
    messages were divided by and ``s2`` its part due to noise.

    Args:
        weight: ``observed_power`` of the messages.
        d_var: variance messages to the outputs.
        variance: variances of the outputs.
        power: ``lambda`` times the sum of ``weight``.
        total: sums the values of one step, for example ``torch.sum``.
    """
    divided_by = -1 / torch.where(d_var < 0, d_var, -1)
    c = total(weight * divided_by)
    limit = power + (c - total(weight * variance))  # c and this: times the sum of the weights
    return torch.where(limit > c, c / limit.clamp_min(torch.finfo(c.dtype).tiny), 1)


def condition(
    mu: Tensor, var: Tensor, d_mu: Tensor, d_var: Tensor, n: Tensor | float = 1
) -> tuple[Tensor, Tensor]:
    """Return the posterior moments of a state.

    ``mu_post = mu + var * d_mu``; for the variance see the module.

    Args:
        mu: prior mean.
        var: prior variance.
        d_mu: sum of the messages to the mean.
        d_var: sum of the messages to the variance.
        n: number of observed values.
    """
    return mu + var * d_mu, var * shrinkage((-var * d_var).clamp(min=0), n).clamp(min=0)
