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
        self.total, self.length = 0.0, 0
        self._before_step = self.observation, self.total
        self.reset()

    def reset(self, number: int = 0) -> None:
        """Begin a new episode with a new seed.

        Args:
            number: number of the environment step, for error messages.

        Raises:
            EnvironmentFault: the environment returned something that is not an observation.  The
                episode is as before its last step, so that it can be continued.
        """
        try:
            self._begin(int(self.rng.integers(2**31)), number)
        except BaseException:
            if self.length:
                self.actions.pop()
                self.observation, self.total = self._before_step
                self.length -= 1
            raise

    def _begin(self, seed: int, number: int = 0) -> None:
        mark_used(self.env)  # no episode until the reset has succeeded
        observation, _ = checked_reset(self.env, seed, number)
        flat = _flat_copy(observation, self.env.observation_space, number, " from reset")
        mark_used(self.env, self._token)
        self.seed, self.observation = seed, flat
        self.actions: list[Any] = []
        self.total, self.length = 0.0, 0

    def step(self, action: Any, number: int) -> tuple[float, bool, bool]:
        """Take an action; return the reward and whether the episode terminated or was truncated.

        Args:
            action: action in the environment's action space.
            number: number of the environment step, for error messages.

        Raises:
            EnvironmentFault: the environment returned something that cannot be learned from.  The
                episode is as before the step, and is replayed when it is continued.
        """
        before = self.observation, self.total
        try:
            observation, reward, terminated, truncated, _ = checked_step(self.env, action, number)
            flat = _flat_copy(observation, self.env.observation_space, number)
        except BaseException:
            mark_used(self.env)  # its state differs from the last observation: replay needed
            raise
        self.observation = flat
        self.actions.append(action)
        self._before_step = before
        self.total += reward
        self.length += 1
        return reward, terminated, truncated and not terminated

    def resume(self, seed: int, actions: Any, observation: Array) -> bool:
        """Replay an episode; return whether it reaches the same observation and has not ended.

        Args:
            seed: seed of the reset.
            actions: all actions since the reset.
            observation: flattened observation after the last action.
        """
        self._begin(seed)
        for k, action in enumerate(actions):
            _, terminated, truncated = self.step(action, k)
            if terminated or truncated:
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


# --- checked steps -------------------------------------------------------------------------------

_STEP = "(observation, reward, terminated, truncated, info)"


def checked_reset(env: Any, seed: int | None, number: int) -> tuple[Any, Any]:
    """Reset an environment; return observation and info.

    Args:
        env: the environment.
        seed: seed of the reset, or None.
        number: number of the environment step, for error messages.

    Raises:
        EnvironmentFault: the environment did not return two values.
    """
    result = env.reset() if seed is None else env.reset(seed=seed)
    if not isinstance(result, tuple) or len(result) != 2:
        raise EnvironmentFault(
            f"{_count(result)} from reset, expected 2 values (observation, info),", number
        )
    return result


def checked_step(env: Any, action: Any, number: int) -> tuple[Any, float, bool, bool, Any]:
    """Take an action; return observation, reward, terminated, truncated and info.

    Args:
        env: the environment.
        action: the action.
        number: number of the environment step, for error messages.

    Raises:
        EnvironmentFault: the environment did not return five values, the reward is not a finite
            number, or it is not clear whether the episode has ended.
    """
    result = env.step(action)
    if not isinstance(result, tuple) or len(result) != 5:
        raise EnvironmentFault(f"{_count(result)} from step, expected 5 values {_STEP},", number)
    observation, reward, terminated, truncated, info = result
    try:
        value = float(reward)
    except (TypeError, ValueError) as error:
        raise EnvironmentFault(f"a reward of {reward!r:.40}, expected a number,", number) from error
    if not np.isfinite(value):
        raise EnvironmentFault(f"a reward of {value}", number)
    try:
        return observation, value, bool(terminated), bool(truncated), info
    except ValueError as error:
        raise EnvironmentFault(
            f"terminated={terminated!r:.40} and truncated={truncated!r:.40}, expected True or "
            "False,",
            number,
        ) from error


def _flat_copy(observation: Any, space: Any, number: int, source: str = "") -> Array:
    """Return an observation as a new flat array: some environments reuse theirs."""
    try:
        array = np.array(observation, dtype=np.float64)
    except (TypeError, ValueError):
        array = None
    if array is None or observation is None:
        raise EnvironmentFault(
            f"an observation of type {type(observation).__name__}, expected an array of numbers,"
            f"{source}",
            number,
        )
    flat, shape = array.reshape(-1), space.shape
    if array.shape != shape and not (flat.size == 1 == np.prod(shape)):
        raise EnvironmentFault(
            f"an observation of shape {array.shape}, expected {shape},{source}", number
        )
    if not np.isfinite(flat).all():
        raise EnvironmentFault(f"an observation with NaN or infinite entries{source}", number)
    if hasattr(space, "n") and (flat[0] % 1 or not space.contains(int(flat[0]))):  # Discrete
        raise EnvironmentFault(f"a state of {flat[0]:g}, which is not in {space},{source}", number)
    return flat


def _count(result: Any) -> str:
    return f"{len(result)} values" if isinstance(result, tuple) else f"a {type(result).__name__}"
