"""Episodes: checked, seeded, and able to be taken up again.

Gymnasium environments cannot be saved in general, but they are deterministic given the seed of
their reset and the actions since.  So an episode keeps both, and one that was interrupted is
played again up to the point where it stopped.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from tractable.errors import EnvironmentFault

Array = NDArray[np.float64]

_USERS: WeakKeyDictionary[Any, object] = WeakKeyDictionary()
"""By environment (without its wrappers), the token of the episode that reset it last."""


def mark_used(env: Any, token: object = None) -> None:
    """Record who resets and steps an environment, so that any other episode in it is replayed.

    Args:
        env: the environment, or a wrapper around it.
        token: token of the episode; None for one that no agent learns from, as in an evaluation.
    """
    _USERS[getattr(env, "unwrapped", env)] = token


class Episode:
    """The episode under way.

    Several agents, or an agent and ``evaluate``, may use one environment in turn: ``take_up``
    replays the episode if the environment was reset by somebody else since.

    Attributes:
        observation: what was last seen, flat.
        total: sum of the rewards.
        length: number of steps.
    """

    def __init__(self, env: Any, rng: np.random.Generator) -> None:
        self.env, self.rng = env, rng
        self._token = object()  # not the episode, whose reference to env would keep the key alive
        self.observation: Array = np.zeros(0)
        self.reset()

    def reset(self) -> None:
        """Begin a new episode, with a seed of its own."""
        self._begin(int(self.rng.integers(2**31)))

    def _begin(self, seed: int) -> None:
        mark_used(self.env, self._token)
        self.seed = seed
        self.actions: list[Array] = []
        self.total, self.length = 0.0, 0
        observation, _ = self.env.reset(seed=seed)
        self.observation = _copied(observation)

    def step(self, action: Array, number: int) -> tuple[float, bool, bool]:
        """Take an action; reward, whether the state is terminal, whether time is up."""
        try:
            observation, reward, terminal, truncated, _ = self.env.step(action)
            seen = _copied(observation)
            if not np.isfinite(reward):
                raise EnvironmentFault(f"a reward of {reward}", number)
            if not np.isfinite(seen).all():
                raise EnvironmentFault("an observation with NaN or infinite entries", number)
        except BaseException:
            mark_used(self.env)  # its state is not that of the last observation: replay
            raise
        self.observation = seen
        self.actions.append(action)
        self.total += float(reward)
        self.length += 1
        return float(reward), bool(terminal), bool(truncated) and not terminal

    def resume(self, seed: int, actions: Any, observation: Array) -> bool:
        """Replay an episode; return whether it comes to the same observation and has not ended.

        Args:
            seed: seed of the reset.
            actions: all actions since.
            observation: the flat observation that the last of them led to.
        """
        self._begin(seed)
        for k, action in enumerate(actions):
            _, terminal, truncated = self.step(action, k)
            if terminal or truncated:
                return False
        return np.array_equal(self.observation, observation)

    def take_up(self) -> bool:
        """Continue the episode if somebody else has reset the environment since the last step.

        Returns:
            Whether a new episode had to begin, because the environment does not repeat itself
            from the same seed and actions.
        """
        if _USERS.get(getattr(self.env, "unwrapped", self.env)) is self._token:
            return False
        if self.resume(self.seed, self.actions, self.observation):
            return False
        self.reset()
        return True


def _copied(observation: Any) -> Array:
    """Return an observation as a flat array of its own: some environments reuse theirs."""
    return np.array(observation, dtype=np.float64).reshape(-1)
