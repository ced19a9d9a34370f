"""Environments as the agents need them: checked, seeded, and able to be taken up again.

Gymnasium environments cannot be saved in general, but they are deterministic given the seed of
their reset and the actions since.  So an episode keeps both, and one that was interrupted is
played again up to the point where it stopped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tractable.errors import EnvironmentFault, InvalidModelFile

Array = NDArray[np.float64]


def open_environment(env: Any) -> Any:
    """The environment itself, or the one of that name."""
    if not isinstance(env, str):
        return env
    gymnasium = _gymnasium()
    return gymnasium.make(env)


def registered(name: str) -> Any:
    """What Gymnasium knows of the environment of that name, or None."""
    return _gymnasium().registry.get(name)


def known_environment(name: Any) -> str:
    """A name from a file, if it is one of an environment that is registered here.

    Gymnasium imports whatever module stands before a colon, so a file may not name one.
    """
    if name is None:
        raise InvalidModelFile("the file does not name its environment: give load(path, env=...)")
    if not isinstance(name, str) or ":" in name or registered(name) is None:
        raise InvalidModelFile(
            f"the environment {name!r} of the file is not registered here: give load(path, env=...)"
        )
    return name


def box_action_space(env: Any) -> tuple[Array, Array]:
    """Bounds of the actions of an environment, if it has a bounded box of them."""
    spaces = _gymnasium().spaces
    space = env.action_space
    if not isinstance(space, spaces.Box):
        raise TypeError(
            f"TAGIControl needs continuous actions, a bounded Box; the environment has {space}. "
            "For discrete actions with rewards at once, see tractable.agents.Bandit"
        )
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError(
            f"the actions must be bounded, the environment has {space}: wrap it, for example in "
            "gymnasium.wrappers.RescaleAction"
        )
    if not isinstance(env.observation_space, spaces.Box):
        raise TypeError(f"observations must be a Box of numbers, got {env.observation_space}")
    return low, high


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


def _gymnasium() -> Any:
    try:
        import gymnasium
    except ImportError as error:
        raise ImportError(
            "agents need gymnasium: install tractable with the extra 'agents'"
        ) from error
    return gymnasium
