"""Targets of value networks: observed rewards plus a Gaussian bootstrap value.

With the value ``q ~ N(mean, variance)`` of the best next action, a target after n rewards is

    r_t + gamma r_{t+1} + ... + gamma^n q_{t+n},   of variance gamma^{2n} var q_{t+n};

``tractable.agents.control.returns`` mixes them by lambda.  A terminal state has the value zero,
with variance zero; a truncated episode is bootstrapped.  (The book's eq. 19.32 omits the first
reward: its sum starts one step late.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tractable.agents.control.returns import n_step_targets as mixed_targets

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

__all__ = ["after_n", "mixed_targets", "n_step_rows"]


def n_step_rows(
    rewards: Array, terminal: Flags, ends: Flags, *, gamma: float, n: int
) -> tuple[Array, NDArray[np.int64], Array]:
    """Return the sum of the next n rewards of every step, the last step in it, and its discount.

    Args:
        rewards: r_t, ``[steps]``.
        terminal: whether step t ended in a terminal state.
        ends: whether the segment ends with step t without a terminal state.
        gamma: discount factor.
        n: maximum number of rewards; there are fewer at the end of an episode or of the horizon.

    Returns:
        The discounted sum, the index of the last step in it, and the factor on the value after it
        (0 after a terminal state).

    >>> no = np.zeros(3, dtype=bool)
    >>> n_step_rows(np.array([1.0, 2.0, 4.0]), no, no, gamma=0.5, n=2)
    (array([2., 4., 4.]), array([1, 2, 2]), array([0.25, 0.25, 0.5 ]))
    """
    size = len(rewards)
    total, last, factor = np.empty(size), np.empty(size, dtype=np.int64), np.empty(size)
    for t in range(size):
        value, k, weight = rewards[t], t, gamma
        while k - t < n - 1 and k < size - 1 and not (terminal[k] or ends[k]):
            k += 1
            value += weight * rewards[k]
            weight *= gamma
        total[t], last[t], factor[t] = value, k, 0.0 if terminal[k] else weight
    return total, last, factor


def after_n(
    rewards: Array,
    next_mean: Array,
    next_variance: Array,
    terminal: Flags,
    ends: Flags,
    *,
    gamma: float,
    n: int,
) -> tuple[Array, Array]:
    """Return mean and variance of targets that bootstrap after n rewards; see ``n_step_rows``."""
    total, last, factor = n_step_rows(rewards, terminal, ends, gamma=gamma, n=n)
    return total + factor * next_mean[last], factor**2 * next_variance[last]
