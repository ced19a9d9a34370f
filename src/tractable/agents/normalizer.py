"""Running normalization of observations and rewards.

Observations are centered and divided by their running standard deviation.  Rewards are divided by
the running standard deviation of the discounted return and not centered, because a shift of all
rewards would change which episodes should be ended.  Both are clipped.  Statistics are updated once
per update of the agent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class RunningMoments:
    """Running mean and variance, updated batch by batch (Chan, Golub & LeVeque 1983).

    ``gymnasium.wrappers.utils.RunningMeanStd`` is not used: it starts from an artificial row of
    weight 1e-4, and without that row it divides by zero for empty batches; it also rounds
    differently, so that earlier runs could not be reproduced.

    >>> moments = RunningMoments(1)
    >>> moments.update(np.array([[1.0], [2.0]])).update(np.array([[6.0]]))
    RunningMoments(count=3, mean=[3.], variance=[4.66666667])
    """

    def __init__(self, size: int) -> None:
        self.count = 0
        self.mean = np.zeros(size)
        self.variance = np.ones(size)

    @property
    def variance(self) -> Array:
        """Variance of all rows, by entry."""
        return self._variance

    @variance.setter
    def variance(self, variance: Array) -> None:
        # The standard deviation is used at every step but changes only once per update.
        self._variance = variance
        self.std = np.where(variance > 1e-12, np.sqrt(variance), 1.0)
        """Standard deviation; 1 for entries that are constant."""

    def update(self, rows: Array) -> RunningMoments:
        """Update the moments with a batch of rows and return self."""
        n = len(rows)
        if n == 0:
            return self
        mean, variance = rows.mean(0), rows.var(0)
        if self.count == 0:
            self.count, self.mean, self.variance = n, mean, variance
            return self
        total = self.count + n
        shift = mean - self.mean
        self.variance = (
            self.count * self.variance + n * variance + shift**2 * (self.count * n / total)
        ) / total
        self.mean = self.mean + shift * (n / total)
        self.count = total
        return self

    def __repr__(self) -> str:
        """Return count, mean and variance as text."""
        return f"RunningMoments(count={self.count}, mean={self.mean}, variance={self.variance})"


class Normalizer:
    """Normalizer of observations and rewards; ``clip`` bounds both.

    Args:
        n_entries: number of entries of an observation.
        gamma: discount factor of the return whose standard deviation scales the rewards.
        clip: bound of the absolute value of scaled observations and rewards.
        scale_observations: whether to scale observations.
        scale_rewards: whether to scale rewards.
    """

    def __init__(
        self,
        n_entries: int,
        *,
        gamma: float,
        clip: float = 10.0,
        scale_observations: bool = True,
        scale_rewards: bool = True,
    ) -> None:
        self.moments = RunningMoments(n_entries)
        self.returns = RunningMoments(1)
        self.gamma, self.clip = gamma, clip
        self.scale_observations, self.scale_rewards = scale_observations, scale_rewards
        self.running_return = 0.0

    def update(self, observations: Array, rewards: Array, done: NDArray[np.bool_]) -> None:
        """Update the statistics with the raw steps of a rollout."""
        if self.scale_observations:
            self.moments.update(observations)
        if self.scale_rewards:
            discounted = np.empty((len(rewards), 1))
            value = self.running_return
            for t, (reward, end) in enumerate(zip(rewards.tolist(), done.tolist(), strict=True)):
                value = reward + self.gamma * value
                discounted[t] = value
                if end:
                    value = 0.0
            self.running_return = value
            self.returns.update(discounted)

    def observation(self, raw: Array) -> Array:
        """Return scaled and clipped observations."""
        if self.scale_observations and self.moments.count > 0:
            raw = (raw - self.moments.mean) / self.moments.std
        # Called once per step: np.clip takes several times as long.
        return np.minimum(np.maximum(raw, -self.clip), self.clip)

    def reward(self, raw: Array) -> Array:
        """Return scaled and clipped rewards."""
        if not self.scale_rewards or self.returns.count == 0:
            return np.clip(raw, -self.clip, self.clip)
        return np.clip(raw / self.returns.std[0], -self.clip, self.clip)

    def arrays(self) -> dict[str, Array]:
        """Return the statistics as named arrays, to be saved."""
        return {
            "observation_mean": self.moments.mean,
            "observation_variance": self.moments.variance,
            "return_mean": self.returns.mean,
            "return_variance": self.returns.variance,
            "counts": np.array([self.moments.count, self.returns.count], dtype=np.float64),
            "running_return": np.array([self.running_return]),
        }

    def restore(self, arrays: dict[str, Array]) -> None:
        """Restore saved statistics."""
        self.moments.mean = arrays["observation_mean"]
        self.moments.variance = arrays["observation_variance"]
        self.returns.mean = arrays["return_mean"]
        self.returns.variance = arrays["return_variance"]
        self.moments.count, self.returns.count = (int(c) for c in arrays["counts"])
        self.running_return = float(arrays["running_return"][0])
