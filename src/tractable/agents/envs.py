"""Gymnasium environments: lookup, checks of their spaces, and encoding of observations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tractable.errors import InvalidModelFile, MissingExtra

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
