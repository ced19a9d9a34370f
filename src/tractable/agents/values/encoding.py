"""Encoding of observations as network inputs, and checks of the action space."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = NDArray[Any]


class Encoding:
    """Encoding of an environment's observations as rows of network inputs.

    A ``Box`` is flattened.  A ``Discrete`` state becomes a one-hot row, or its index for a network
    with an embedding (``nn.Embedding``).

    Args:
        space: observation space of the environment.
        integers: whether the network takes indices of states.

    Attributes:
        width: number of entries of a row.
        discrete: whether the observations are ``Discrete`` states.
    """

    def __init__(self, space: Any, *, integers: bool = False) -> None:
        self.space, self.discrete = space, isinstance(space, spaces.Discrete)
        if isinstance(space, spaces.Discrete):
            self.width = 1 if integers else int(space.n)
            self.first = int(space.start)
            self.one_hot = np.eye(int(space.n), dtype=np.float32)
        elif isinstance(space, spaces.Box):
            self.width = int(np.prod(space.shape))
        else:
            raise TypeError(
                f"observations must be a Box of numbers or Discrete states, got {space}: wrap the "
                "environment, for example in gymnasium.wrappers.FlattenObservation"
            )
        if integers and not self.discrete:
            raise TypeError(f"a network of embeddings needs Discrete states, got {space}")
        self.integers = integers

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one observation, as returned by the environment."""
        return () if self.discrete else tuple(self.space.shape)

    def flat(self, observations: Any) -> tuple[Array, bool]:
        """Return observations as flat rows, and whether a single observation was given.

        Raises:
            ValueError: the observations have a wrong shape, are not finite, or are unknown states.
        """
        try:
            raw = np.asarray(observations, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"observations must be arrays of numbers: {error}") from error
        single = raw.shape == self.shape
        if not single and raw.shape[1:] != self.shape:
            raise ValueError(f"observations must have shape {self.shape}, got {raw.shape}")
        rows = raw.reshape(1 if single else len(raw), -1)
        if not np.isfinite(rows).all():
            raise ValueError("the observation has NaN or infinite entries")
        if self.discrete:
            off = (rows < self.first) | (rows >= self.first + self.space.n) | (rows % 1 != 0)
            if off.any():
                raise ValueError(f"there is no state {rows[off][0]:g}: the space is {self.space}")
        return rows, single

    def inputs(self, rows: Array, scaled: Any) -> Rows:
        """Return rows of network inputs from flat observations.

        Args:
            rows: flat observations, as returned by ``flat``.
            scaled: function that scales the entries of ``Box`` observations.
        """
        if not self.discrete:
            numbers: Array = scaled(rows)
            return numbers.astype(np.float32)
        states = rows[:, 0].astype(np.int64) - self.first
        return states if self.integers else self.one_hot[states]


def discrete_actions(env: Any, who: str) -> int:
    """Return the number of actions; raise unless they are ``Discrete`` and start at 0."""
    space = env.action_space
    if not isinstance(space, spaces.Discrete):
        more = ": see tractable.agents.TAGIControl for continuous actions"
        raise TypeError(
            f"{who} needs Discrete actions, the environment has {space}"
            f"{more if isinstance(space, spaces.Box) else ''}"
        )
    if int(space.start) != 0:
        raise TypeError(f"actions must be numbered from 0, the environment has {space}")
    return int(space.n)
