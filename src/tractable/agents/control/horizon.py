"""The steps between two updates of the control agent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass
class Horizon:
    """What was seen in a horizon, a row per step.

    Attributes:
        observations: before the step.
        actions: squashed, before they are stretched to the environment's box.
        rewards: as the environment gave them.
        reached: the observation after the step, before a reset.
        terminal: whether the step ended in a terminal state.
        ends: whether the time was up without one.
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
        """Room for ``size`` steps."""
        no = np.zeros(size, dtype=bool)
        shape = (size, states)
        return cls(
            np.empty(shape), np.empty((size, actions)), np.empty(size), np.empty(shape),
            no, no.copy(), [],
        )  # fmt: skip
