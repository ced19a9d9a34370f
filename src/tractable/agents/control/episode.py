"""Episodes of an environment: checked, seeded and replayable.

Gymnasium environments cannot be saved in general, but they are deterministic given the seed of
their reset and the actions since.  An episode therefore stores both, and an interrupted episode is
replayed up to the step where it stopped.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from tractable.errors import EnvironmentFault

Array = NDArray[np.float64]

_USERS: WeakKeyDictionary[Any, object] = WeakKeyDictionary()
"""Token of the episode that reset an environment last, by environment (without its wrappers)."""


def mark_used(env: Any, token: object = None) -> None:
    """Record which episode uses an environment, so that any other episode in it is replayed.

    Args:
        env: the environment, or a wrapper around it.
        token: token of the episode; None for one that no agent learns from, as in an evaluation.
    """
    _USERS[getattr(env, "unwrapped", env)] = token


class Episode:
    """Current episode of an agent in its environment.

    Several agents, or an agent and ``evaluate_policy``, may use one environment alternately:
    ``take_up`` replays the episode if another user has reset the environment since.

    Attributes:
        observation: last observation, flattened.
        total: sum of the rewards.
        length: number of steps.
    """

    def __init__(self, env: Any, rng: np.random.Generator) -> None:
        self.env, self.rng = env, rng
        self._token = object()  # not the episode, whose reference to env would keep the key alive
        self.observation: Array = np.zeros(0)
        self.reset()

    def reset(self) -> None:
        """Begin a new episode with a new seed."""
        self._begin(int(self.rng.integers(2**31)))

    def _begin(self, seed: int) -> None:
        mark_used(self.env, self._token)
        self.seed = seed
        self.actions: list[Array] = []
        self.total, self.length = 0.0, 0
        observation, _ = self.env.reset(seed=seed)
        self.observation = _copied(observation)

    def step(self, action: Array, number: int) -> tuple[float, bool, bool]:
        """Take an action; return the reward and whether the episode terminated or was truncated."""
        try:
            observation, reward, terminal, truncated, _ = self.env.step(action)
            seen = _copied(observation)
            if not np.isfinite(reward):
                raise EnvironmentFault(f"a reward of {reward}", number)
            if not np.isfinite(seen).all():
                raise EnvironmentFault("an observation with NaN or infinite entries", number)
        except BaseException:
            mark_used(self.env)  # its state differs from the last observation: replay needed
            raise
        self.observation = seen
        self.actions.append(action)
        self.total += float(reward)
        self.length += 1
        return float(reward), bool(terminal), bool(truncated) and not terminal

    def resume(self, seed: int, actions: Any, observation: Array) -> bool:
        """Replay an episode; return whether it reaches the same observation and has not ended.

        Args:
            seed: seed of the reset.
            actions: all actions since the reset.
            observation: flattened observation after the last action.
        """
        self._begin(seed)
        for k, action in enumerate(actions):
            _, terminal, truncated = self.step(action, k)
            if terminal or truncated:
                return False
        return np.array_equal(self.observation, observation)

    def take_up(self) -> bool:
        """Replay the episode if another user has reset the environment since the last step.

        Returns:
            Whether a new episode was started, because the environment is not reproducible from the
            same seed and actions.
        """
        if _USERS.get(getattr(self.env, "unwrapped", self.env)) is self._token:
            return False
        if self.resume(self.seed, self.actions, self.observation):
            return False
        self.reset()
        return True


def _copied(observation: Any) -> Array:
    """Return an observation as a new flat array: some environments reuse theirs."""
    return np.array(observation, dtype=np.float64).reshape(-1)
