"""Gymnasium environments: lookup, checks, observation encoding, replayable episodes, evaluation.

Gymnasium environments cannot be saved in general, but they are deterministic given the seed of
their reset and the actions since.  An episode therefore stores both, and an interrupted episode is
replayed up to the step where it stopped.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, overload
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from tractable.errors import EnvironmentFault, InvalidModelFile, MissingExtra

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as error:
    raise MissingExtra(
        "tractable.agents needs gymnasium: pip install 'tractable[agents]'"
    ) from error

Array = NDArray[np.float64]
Rows = NDArray[Any]


# --- environments and their spaces ---------------------------------------------------------------


def open_environment(env: Any) -> Any:
    """Return the environment itself, or create the one with the given name.

    Raises:
        TypeError: it is neither, or it is a vector of environments.
    """
    env = gymnasium.make(env) if isinstance(env, str) else env
    if hasattr(env, "num_envs"):
        raise TypeError(
            f"a single environment is needed, got {env.num_envs} environments in {env}: pass one "
            "of them, or its name"
        )
    if not hasattr(env, "action_space") or not hasattr(env, "observation_space"):
        raise TypeError(
            f"env must be a Gymnasium environment or its name, got {type(env).__name__}"
        )
    return env


def registered_env_id(name: Any) -> str:
    """Return the environment name from a file; raise if it is not registered.

    Gymnasium imports the module before a colon in a name, so such names are refused.
    """
    if name is None:
        raise InvalidModelFile(
            "the file does not name its environment: pass it with load(path, env=...)"
        )
    if not isinstance(name, str) or ":" in name or gymnasium.registry.get(name) is None:
        raise InvalidModelFile(
            f"the environment {name!r} in the file is not registered: pass it with "
            "load(path, env=...)"
        )
    return name


def max_episode_steps(env: Any) -> int | None:
    """Return the time limit of an environment or of a registered name; None if it has none."""
    spec = gymnasium.registry.get(env) if isinstance(env, str) else getattr(env, "spec", None)
    limit = getattr(spec, "max_episode_steps", None)
    return None if limit is None else int(limit)


def box_action_space(env: Any) -> tuple[Array, Array]:
    """Return the bounds of the actions; raise unless they form a bounded box."""
    space = env.action_space
    if not isinstance(space, spaces.Box):
        raise TypeError(
            f"TAGIControl needs continuous actions, a bounded Box; the environment has {space}. "
            "For discrete actions, see tractable.agents.QAgent; if rewards are immediate, see "
            "tractable.agents.Bandit"
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


def n_discrete_actions(env: Any, agent: str) -> int:
    """Return the number of actions; raise unless they are ``Discrete`` and start at 0."""
    space = env.action_space
    if not isinstance(space, spaces.Discrete):
        hint = ": see tractable.agents.TAGIControl for continuous actions"
        raise TypeError(
            f"{agent} needs Discrete actions, the environment has {space}"
            f"{hint if isinstance(space, spaces.Box) else ''}"
        )
    if int(space.start) != 0:
        raise TypeError(f"actions must be numbered from 0, the environment has {space}")
    return int(space.n)


class ObservationEncoder:
    """Encoder of an environment's observations as rows of network inputs.

    A ``Box`` is flattened.  A ``Discrete`` state becomes a one-hot row, or its index for a network
    with an embedding (``nn.Embedding``).

    Args:
        space: observation space of the environment.
        as_indices: whether the network takes indices of states.

    Attributes:
        n_inputs: number of entries of a row of network inputs.
        n_entries: number of entries of an observation.
        is_discrete: whether the observations are ``Discrete`` states.
    """

    def __init__(self, space: Any, *, as_indices: bool = False) -> None:
        self.space, self.is_discrete = space, isinstance(space, spaces.Discrete)
        self.as_indices = as_indices
        if isinstance(space, spaces.Discrete):
            self.n_inputs, self.n_entries = (1 if as_indices else int(space.n)), 1
            self._first = int(space.start)
            self._one_hot = np.eye(int(space.n), dtype=np.float32)
        elif isinstance(space, spaces.Box):
            self.n_inputs = self.n_entries = int(np.prod(space.shape))
        else:
            raise TypeError(
                f"observations must be a Box of numbers or Discrete states, got {space}: wrap the "
                "environment, for example in gymnasium.wrappers.FlattenObservation"
            )
        if as_indices and not self.is_discrete:
            raise TypeError(f"a network of embeddings needs Discrete states, got {space}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one observation, as returned by the environment."""
        return () if self.is_discrete else tuple(self.space.shape)

    def to_rows(self, observations: Any) -> tuple[Array, bool]:
        """Return observations as flat rows, and whether a single observation was given.

        Raises:
            ValueError: the observations have a wrong shape, are not finite, or are unknown states.
        """
        try:
            raw = np.asarray(observations, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"observations must be arrays of numbers: {error}") from error
        is_single = raw.shape == self.shape
        if not is_single and raw.shape[1:] != self.shape:
            raise ValueError(f"observations must have shape {self.shape}, got {raw.shape}")
        rows = raw.reshape(-1, self.n_entries)
        if not np.isfinite(rows).all():
            raise ValueError("the observation has NaN or infinite entries")
        if self.is_discrete:
            last = self._first + self.space.n
            unknown = (rows < self._first) | (rows >= last) | (rows % 1 != 0)
            if unknown.any():
                raise ValueError(
                    f"there is no state {rows[unknown][0]:g}: the space is {self.space}"
                )
        return rows, is_single

    def inputs(self, rows: Array, scale: Any) -> Rows:
        """Return rows of network inputs from flat observations.

        Args:
            rows: flat observations, as returned by ``to_rows``.
            scale: function that scales the entries of ``Box`` observations.
        """
        if not self.is_discrete:
            scaled: Array = scale(rows)
            return scaled.astype(np.float32)
        states = rows[:, 0].astype(np.int64) - self._first
        return states if self.as_indices else self._one_hot[states]


# --- episodes ------------------------------------------------------------------------------------

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
    if isinstance(space, spaces.Discrete) and not space.contains(int(flat[0])):
        raise EnvironmentFault(f"a state of {flat[0]:g}, which is not in {space},{source}", number)
    return flat


def _count(result: Any) -> str:
    return f"{len(result)} values" if isinstance(result, tuple) else f"a {type(result).__name__}"


# --- evaluation ----------------------------------------------------------------------------------


@overload
def evaluate_policy(
    model: Any,
    env: Any,
    n_eval_episodes: int = ...,
    deterministic: bool = ...,
    *,
    return_episode_rewards: Literal[False] = ...,
    warn: bool = ...,
    seed: int = ...,
) -> tuple[float, float]: ...


@overload
def evaluate_policy(
    model: Any,
    env: Any,
    n_eval_episodes: int = ...,
    deterministic: bool = ...,
    *,
    return_episode_rewards: Literal[True],
    warn: bool = ...,
    seed: int = ...,
) -> tuple[list[float], list[int]]: ...


def evaluate_policy(
    model: Any,
    env: Any,
    n_eval_episodes: int = 10,
    deterministic: bool = True,
    *,
    return_episode_rewards: bool = False,
    warn: bool = True,
    seed: int = 0,
) -> tuple[float, float] | tuple[list[float], list[int]]:
    """Return mean and standard deviation of the returns of an agent, as in Stable-Baselines3.

    Args:
        model: any agent with ``predict``.
        env: a Gymnasium environment, or its name.  It may be the one that the agent is trained in:
            the agent then replays its interrupted episode before it continues training.  Returns
            are those that ``gymnasium.wrappers.RecordEpisodeStatistics`` records, if the
            environment has this wrapper.
        n_eval_episodes: number of episodes.
        deterministic: whether the agent acts without exploration.
        return_episode_rewards: whether to return the return and the length of every episode
            instead.
        warn: whether to warn if a wrapper changes the rewards.
        seed: seed of the first episode; episode k uses ``seed + k``.

    Returns:
        Mean and standard deviation of the returns, or the list of returns and that of lengths.
    """
    if n_eval_episodes < 1:
        raise ValueError(f"n_eval_episodes must be at least 1, got {n_eval_episodes}")
    env = open_environment(env)
    is_recorded, reward_wrapper = _wrappers(env)
    if warn and reward_wrapper and not is_recorded:
        warnings.warn(
            f"the environment is wrapped in {reward_wrapper}, so that returns are not those of the "
            "environment itself: wrap it in gymnasium.wrappers.RecordEpisodeStatistics before, or "
            "pass warn=False",
            UserWarning,
            stacklevel=2,
        )
    mark_used(env)
    returns, lengths = [], []
    for k in range(n_eval_episodes):
        observation, _ = checked_reset(env, seed + k, 0)
        total, length, done = 0.0, 0, False
        while not done:
            action, _ = model.predict(observation, deterministic=deterministic)
            observation, reward, terminated, truncated, info = checked_step(env, action, length)
            total, length = total + reward, length + 1
            done = terminated or truncated
        if is_recorded:
            total, length = float(info["episode"]["r"]), int(info["episode"]["l"])
        returns.append(total)
        lengths.append(length)
    if return_episode_rewards:
        return returns, lengths
    return float(np.mean(returns)), float(np.std(returns))


def _wrappers(env: Any) -> tuple[bool, str | None]:
    """Return whether a wrapper records returns, and the name of a wrapper that changes rewards."""
    is_recorded, reward_wrapper = False, None
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.RecordEpisodeStatistics):
            is_recorded = True
        if isinstance(env, gymnasium.RewardWrapper | gymnasium.wrappers.NormalizeReward):
            reward_wrapper = type(env).__name__
        env = env.env
    return is_recorded, reward_wrapper
