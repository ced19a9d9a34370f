"""Returns with their variance, and variance-minimizing baselines for policy gradients.

With the bootstrap value ``q ~ N(mean, variance)`` of the next state, the lambda-return is

    G_t = r_t + gamma [(1 - lambda) q_{t+1} + lambda G_{t+1}]

where the bracket is ``q_{t+1}`` alone at the end of a segment (a time limit, or the end of the
collected steps) and zero at a terminal state.  ``lambda = 1`` is the recursion printed in
algorithm 2, lines 15 to 19, of Nguyen & Goulet, with the bootstrap after the last reward.  The
return after n rewards is

    r_t + gamma r_{t+1} + ... + gamma^n q_{t+n},   of variance gamma^{2n} var q_{t+n}.

Exact: the means.  Approximate: the variance of the lambda-return,
``gamma^2 [(1 - lambda)^2 var q_{t+1} + lambda^2 var G_{t+1}]``, treats the values of different
steps as independent.  The noise sigma_V^2 of eq. (5) is added once, by the value network's
likelihood, and not at every step of the recursion, where it would dominate the first targets.

Errata of the book (Prince, "Understanding Deep Learning", 2023) that matter here: the reward to go
of step t begins with the reward of step t (E 19.30 counts it twice, E 19.32 omits it); the best
baseline is ``E[g^2 r] / E[g^2]`` with the expectation around the product (E 19.53), one ratio of
sums over all trajectories (E 19.36).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


def lambda_returns(
    rewards: Array,
    next_mean: Array,
    next_variance: Array,
    terminated: Flags,
    segment_ends: Flags,
    *,
    gamma: float,
    td_lambda: float,
) -> tuple[Array, Array]:
    """Return mean and variance of the lambda-return of every step.

    Args:
        rewards: r_t, ``[steps]``.
        next_mean: mean of q at the state and action after step t.
        next_variance: variance of q at the state and action after step t.
        terminated: whether step t ended in a terminal state, which has value zero.
        segment_ends: whether the segment ends with step t without a terminal state: later steps
            do not belong to it.  The last step always ends its segment.
        gamma: discount factor.
        td_lambda: weight of the longer return, from 0 to 1.

    Returns:
        Mean and variance, ``[steps]`` each.

    >>> one = np.ones(2)
    >>> yes, no = np.array([False, True]), np.array([False, False])
    >>> lambda_returns(one, 4 * one, one, no, no, gamma=0.5, td_lambda=1.0)  # 1 + 4/2, then 1 + 3/2
    (array([2.5, 3. ]), array([0.0625, 0.25  ]))
    """
    mean, variance = np.empty(len(rewards)), np.empty(len(rewards))
    later_mean = later_variance = 0.0
    last = len(rewards) - 1
    for t in range(last, -1, -1):
        if terminated[t]:
            value, value_variance = 0.0, 0.0
        elif segment_ends[t] or t == last:
            value, value_variance = next_mean[t], next_variance[t]
        else:
            value = (1 - td_lambda) * next_mean[t] + td_lambda * later_mean
            value_variance = (1 - td_lambda) ** 2 * next_variance[t] + td_lambda**2 * later_variance
        mean[t] = later_mean = rewards[t] + gamma * value
        variance[t] = later_variance = gamma**2 * value_variance
    return mean, variance


def n_step_sums(
    rewards: Array, terminated: Flags, segment_ends: Flags, *, gamma: float, n: int
) -> tuple[Array, NDArray[np.int64], Array]:
    """Return the sum of the next n rewards of every step, the last step in it, and its discount.

    Args:
        rewards: r_t, ``[steps]``.
        terminated: whether step t ended in a terminal state.
        segment_ends: whether the segment ends with step t without a terminal state.
        gamma: discount factor.
        n: maximum number of rewards; there are fewer at the end of an episode or of the steps.

    Returns:
        The discounted sum, the index of the last step in it, and the factor on the value after it
        (0 after a terminal state).

    >>> no = np.zeros(3, dtype=bool)
    >>> n_step_sums(np.array([1.0, 2.0, 4.0]), no, no, gamma=0.5, n=2)
    (array([2., 4., 4.]), array([1, 2, 2]), array([0.25, 0.25, 0.5 ]))
    """
    size = len(rewards)
    total, last, discount = np.empty(size), np.empty(size, dtype=np.int64), np.empty(size)
    for t in range(size):
        value, k, weight = rewards[t], t, gamma
        while k - t < n - 1 and k < size - 1 and not (terminated[k] or segment_ends[k]):
            k += 1
            value += weight * rewards[k]
            weight *= gamma
        total[t], last[t], discount[t] = value, k, 0.0 if terminated[k] else weight
    return total, last, discount


def n_step_returns(
    rewards: Array,
    next_mean: Array,
    next_variance: Array,
    terminated: Flags,
    segment_ends: Flags,
    *,
    gamma: float,
    n: int,
) -> tuple[Array, Array]:
    """Return mean and variance of returns that bootstrap after n rewards; see ``n_step_sums``."""
    total, last, discount = n_step_sums(rewards, terminated, segment_ends, gamma=gamma, n=n)
    return total + discount * next_mean[last], discount**2 * next_variance[last]


def discounted_returns(
    rewards: Sequence[float], gamma: float, done: Sequence[bool] | None = None
) -> list[float]:
    """Return the discounted sum of future rewards at each step (E 19.1, 19.31).

    Args:
        rewards: rewards in temporal order.
        gamma: discount factor.
        done: whether an episode ended with the step; default: all steps are of one episode.

    >>> [round(value, 4) for value in discounted_returns([0, 0, 1, 0, 2], 0.9)]
    [2.1222, 2.358, 2.62, 1.8, 2.0]
    >>> discounted_returns([1.0, 2.0, 4.0], 0.5, [False, True, True])
    [2.0, 2.0, 4.0]
    """
    returns, later = [], 0.0
    ends = [False] * len(rewards) if done is None else list(done)
    for reward, end in zip(reversed(list(rewards)), reversed(ends), strict=True):
        later = reward + (0.0 if end else gamma * later)
        returns.append(later)
    return returns[::-1]


def control_variate_coefficient(a: Tensor, b: Tensor) -> Tensor:
    """Return the optimal coefficient of a control variate: ``c = cov(a, b) / var(b)`` (B 19.7).

    ``a - c (b - E[b])`` has the mean of a, and its variance is smaller by the factor
    ``1 - corr(a, b)^2``.

    >>> control_variate_coefficient(torch.tensor([1.0, 2, 4, 7]), torch.tensor([0.0, 1, 1, 3]))
    tensor(2.)
    """
    deviation = b - b.mean()
    power = deviation.square().sum()
    return (deviation * (a - a.mean())).sum() / power if power > 0 else torch.zeros_like(power)


def min_variance_baseline(
    scores: Tensor, returns: Tensor, weights: Tensor | None = None, *, per_component: bool = True
) -> Tensor:
    """Return the baseline with the smallest variance: ``E[g^2 r] / E[g^2]`` (E 19.53, 19.36).

    With ``g`` the derivative of the log-probability of an action and ``r`` the return after it,
    the mean of ``g (r - b)`` is the gradient of the expected return for every baseline ``b`` that
    does not depend on the action (E 19.26 to 19.34).

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
