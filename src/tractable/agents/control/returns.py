"""Targets of the value network: n-step returns with their variance (algorithm 2, lines 15 to 19).

With the bootstrap value ``q ~ N(mean, variance)`` of the next state,

    G_t = r_t + gamma [(1 - lambda) q_{t+1} + lambda G_{t+1}]

where the bracket is ``q_{t+1}`` alone at the end of a segment (a time limit, or the end of the
horizon) and zero at a terminal state.  ``lambda = 1`` is the printed recursion, with the
bootstrap after the last reward.

Exact: the mean.  Approximate: the variance
``gamma^2 [(1 - lambda)^2 var q_{t+1} + lambda^2 var G_{t+1}]`` treats the values of different
steps as independent.  The noise sigma_V^2 of eq. (5) is added once, by the value network's
likelihood, and not at every step of the recursion, where it would dominate the first targets of
the horizon.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def n_step_targets(
    rewards: Array,
    next_mean: Array,
    next_variance: Array,
    terminal: NDArray[np.bool_],
    ends: NDArray[np.bool_],
    *,
    gamma: float,
    td_lambda: float,
) -> tuple[Array, Array]:
    """Return mean and variance of the target of every step of a horizon.

    Args:
        rewards: r_t, ``[steps]``.
        next_mean: mean of q at the state and action after step t.
        next_variance: variance of q at the state and action after step t.
        terminal: whether step t ended in a terminal state, which has value zero.
        ends: whether the segment ends with step t without a terminal state: later steps do not
            belong to it.  The last step always ends its segment.
        gamma: discount factor.
        td_lambda: weight of the longer return, from 0 to 1.

    Returns:
        Mean and variance, ``[steps]`` each.

    >>> one = np.ones(2)
    >>> yes, no = np.array([False, True]), np.array([False, False])
    >>> n_step_targets(one, 4 * one, one, no, no, gamma=0.5, td_lambda=1.0)  # 1 + 4/2, then 1 + 3/2
    (array([2.5, 3. ]), array([0.0625, 0.25  ]))
    """
    mean, variance = np.empty(len(rewards)), np.empty(len(rewards))
    after_mean = after_variance = 0.0
    last = len(rewards) - 1
    for t in range(last, -1, -1):
        if terminal[t]:
            ahead, ahead_variance = 0.0, 0.0
        elif ends[t] or t == last:
            ahead, ahead_variance = next_mean[t], next_variance[t]
        else:
            ahead = (1 - td_lambda) * next_mean[t] + td_lambda * after_mean
            ahead_variance = (1 - td_lambda) ** 2 * next_variance[t] + td_lambda**2 * after_variance
        mean[t] = after_mean = rewards[t] + gamma * ahead
        variance[t] = after_variance = gamma**2 * ahead_variance
    return mean, variance
