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
"""

from __future__ import annotations

from torch import Tensor


def shrinkage(q: Tensor, n: Tensor | float) -> Tensor:
    """``var_post / var`` after messages of ``n`` observed values with total ``q``."""
    rest = 1 - q / n
    return rest / (rest + q)


def condition(
    mu: Tensor, var: Tensor, d_mu: Tensor, d_var: Tensor, n: Tensor | float = 1
) -> tuple[Tensor, Tensor]:
    """Posterior moments of a state from its prior moments and the sum of ``n`` messages.

    ``mu_post = mu + var * d_mu``; for the variance see the module.
    """
    return mu + var * d_mu, var * shrinkage((-var * d_var).clamp(min=0), n).clamp(min=0)
