"""Observations as rows of inputs, and the actions there are."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = NDArray[Any]


class Encoding:
    """What an environment shows, as rows that a network takes.

    A ``Box`` becomes its numbers in a row; a ``Discrete`` state becomes a row with a single one,
    or its number, for a network that looks it up (``nn.Embedding``).

    Args:
        space: observations of the environment.
        integers: whether the network takes numbers of states.

    Attributes:
        width: numbers in a row.
        discrete: whether states are numbered.
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
        """Of one observation, as the environment gives it."""
        return () if self.discrete else tuple(self.space.shape)

    def flat(self, observations: Any) -> tuple[Array, bool]:
        """Observations in rows of their own numbers, and whether only one was given.

        Raises:
            ValueError: of another shape, not finite, or a state that there is not.
        """
        try:
            raw = np.asarray(observations, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"observations are arrays of numbers: {error}") from error
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
        """Rows of the network's inputs from rows of an observation's numbers.

        Args:
            rows: as ``flat`` gives them.
            scaled: what scales numbers that are not states.
        """
        if not self.discrete:
            numbers: Array = scaled(rows)
            return numbers.astype(np.float32)
        states = rows[:, 0].astype(np.int64) - self.first
        return states if self.integers else self.one_hot[states]


def discrete_actions(env: Any, who: str) -> int:
    """How many actions there are, if they are numbered from 0."""
    space = env.action_space
    if not isinstance(space, spaces.Discrete):
        more = ": see tractable.agents.TAGIControl for continuous actions"
        raise TypeError(
            f"{who} needs numbered actions (Discrete), the environment has {space}"
            f"{more if isinstance(space, spaces.Box) else ''}"
        )
    if int(space.start) != 0:
        raise TypeError(f"actions must be numbered from 0, the environment has {space}")
    return int(space.n)
