"""Steps that an agent takes between two updates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass
class Horizon:
    """Steps of one horizon, one row per step.

    Attributes:
        observations: observations before the step.
        actions: squashed actions, before they are rescaled to the environment's box.
        rewards: rewards as returned by the environment.
        reached: observations after the step, before a reset.
        terminal: whether the step ended in a terminal state.
        ends: whether the episode was truncated (time limit) at the step.
        finished: for every episode that ended: the step, its return and its length.
    """

    observations: Array
    actions: Array
    rewards: Array
    reached: Array
    terminal: NDArray[np.bool_]
    ends: NDArray[np.bool_]
    finished: list[tuple[int, float, int]]

    @classmethod
    def empty(cls, size: int, states: int, actions: int) -> Horizon:
        """Return a horizon of ``size`` steps with uninitialized entries."""
        no = np.zeros(size, dtype=bool)
        shape = (size, states)
        return cls(
            np.empty(shape), np.empty((size, actions)), np.empty(size), np.empty(shape),
            no, no.copy(), [],
        )  # fmt: skip
