"""Returns and variance-minimizing baselines for policy gradients.

With ``g`` the derivative of the log-probability of an action and ``r`` the return after it, the
mean of ``g (r - b)`` is the gradient of the expected return for every baseline ``b`` that does not
depend on the action (E 19.26 to 19.34).  This module computes the baselines with the smallest
variance.

Errata of the book that matter here: the reward to go of step t begins with the reward of step t
(E 19.30 counts it twice, E 19.32 omits it); the best baseline is ``E[g^2 r] / E[g^2]`` with the
expectation around the product (E 19.53), one ratio of sums over all trajectories (E 19.36).
"""

from __future__ import annotations

import torch
from torch import Tensor


def best_coefficient(a: Tensor, b: Tensor) -> Tensor:
    """Return the optimal coefficient of a control variate: ``c = cov(a, b) / var(b)`` (B 19.7).

    ``a - c (b - E[b])`` has the mean of a, and its variance is smaller by the factor
    ``1 - corr(a, b)^2``.

    >>> best_coefficient(torch.tensor([1.0, 2, 4, 7]), torch.tensor([0.0, 1, 1, 3]))
    tensor(2.)
    """
    off = b - b.mean()
    power = off.square().sum()
    return (off * (a - a.mean())).sum() / power if power > 0 else torch.zeros_like(power)


def best_baseline(
    scores: Tensor, returns: Tensor, weights: Tensor | None = None, *, per_component: bool = True
) -> Tensor:
    """Return the baseline with the smallest variance: ``E[g^2 r] / E[g^2]`` (E 19.53, 19.36).

    Args:
        scores: derivatives g of log-probabilities, ``[steps, parameters]``.
        returns: return r after each step, ``[steps]``.
        weights: weight of each row, ``[steps]``; default: equal weights.
        per_component: whether to compute one baseline for each parameter instead of a single one.

    Returns:
        One number per parameter, or one number; 0 where all scores are zero.
    """
    power = scores.square()
    if weights is not None:
        power = power * weights.unsqueeze(1)
    above, below = returns @ power, power.sum(0)
    if not per_component:
        above, below = above.sum(), below.sum()
    return torch.where(below > 0, above / below.clamp_min(torch.finfo(below.dtype).tiny), 0.0)


def returns_to_go(rewards: Tensor, ends: Tensor, gamma: float) -> Tensor:
    """Return the discounted sum of future rewards at each step of several episodes (E 19.1, 19.31).

    >>> returns_to_go(torch.tensor([1.0, 2, 4]), torch.tensor([False, True, True]), 0.5)
    tensor([2., 2., 4.])
    """
    found, rest = [], 0.0
    for reward, end in zip(reversed(rewards.tolist()), reversed(ends.tolist()), strict=True):
        rest = reward + (0.0 if end else gamma * rest)
        found.append(rest)
    return torch.tensor(found[::-1], dtype=rewards.dtype, device=rewards.device)
