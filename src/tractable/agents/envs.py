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
    """Return the environment itself, or create the one with the given name."""
    return gymnasium.make(env) if isinstance(env, str) else env


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
        self.reset()

    def reset(self) -> None:
        """Begin a new episode with a new seed."""
        self._begin(int(self.rng.integers(2**31)))

    def _begin(self, seed: int) -> None:
        mark_used(self.env, self._token)
        self.seed = seed
        self.actions: list[Any] = []
        self.total, self.length = 0.0, 0
        observation, _ = self.env.reset(seed=seed)
        self.observation = _flat_copy(observation)

    def step(self, action: Any, number: int) -> tuple[float, bool, bool]:
        """Take an action; return the reward and whether the episode terminated or was truncated.

        Args:
            action: action in the environment's action space.
            number: number of the environment step, for error messages.
        """
        try:
            observation, reward, terminated, truncated, _ = self.env.step(action)
            flat = _flat_copy(observation)
            if not np.isfinite(reward):
                raise EnvironmentFault(f"a reward of {reward}", number)
            if not np.isfinite(flat).all():
                raise EnvironmentFault("an observation with NaN or infinite entries", number)
        except BaseException:
            mark_used(self.env)  # its state differs from the last observation: replay needed
            raise
        self.observation = flat
        self.actions.append(action)
        self.total += float(reward)
        self.length += 1
        return float(reward), bool(terminated), bool(truncated) and not terminated

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


def _flat_copy(observation: Any) -> Array:
    """Return an observation as a new flat array: some environments reuse theirs."""
    return np.array(observation, dtype=np.float64).reshape(-1)


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
        observation, _ = env.reset(seed=seed + k)
        total, length, done = 0.0, 0, False
        while not done:
            action, _ = model.predict(observation, deterministic=deterministic)
            observation, reward, terminated, truncated, info = env.step(action)
            total, length = total + float(reward), length + 1
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
