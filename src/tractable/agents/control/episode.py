"""Episodes: checked, seeded, and able to be taken up again.

Gymnasium environments cannot be saved in general, but they are deterministic given the seed of
their reset and the actions since.  So an episode keeps both, and one that was interrupted is
played again up to the point where it stopped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tractable.errors import EnvironmentFault

Array = NDArray[np.float64]


class Episode:
    """The episode under way.

    Attributes:
        observation: what was last seen, flat.
        total: sum of the rewards.
        length: number of steps.
    """

    def __init__(self, env: Any, rng: np.random.Generator) -> None:
        self.env, self.rng = env, rng
        self.observation: Array = np.zeros(0)
        self.reset()

    def reset(self) -> None:
        """Begin a new episode, with a seed of its own."""
        self._begin(int(self.rng.integers(2**31)))

    def _begin(self, seed: int) -> None:
        self.seed = seed
        self.actions: list[Array] = []
        self.total, self.length = 0.0, 0
        observation, _ = self.env.reset(seed=seed)
        self.observation = np.asarray(observation, dtype=np.float64).reshape(-1)

    def step(self, action: Array, number: int) -> tuple[float, bool, bool]:
        """Take an action; reward, whether the state is terminal, whether time is up."""
        observation, reward, terminal, truncated, _ = self.env.step(action)
        seen = np.asarray(observation, dtype=np.float64).reshape(-1)
        if not np.isfinite(reward):
            raise EnvironmentFault(f"a reward of {reward}", number)
        if not np.isfinite(seen).all():
            raise EnvironmentFault("an observation with NaN or infinite entries", number)
        self.observation = seen
        self.actions.append(action)
        self.total += float(reward)
        self.length += 1
        return float(reward), bool(terminal), bool(truncated) and not terminal

    def resume(self, seed: int, actions: Array) -> None:
        """Play an episode again, up to the last of these actions."""
        self._begin(seed)
        for k, action in enumerate(actions):
            self.step(action, k)
