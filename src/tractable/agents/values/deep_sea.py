"""Deep sea: a treasure that only a long run of the right actions finds.

A diver starts at the top left of a grid and sinks one row a step; one of the two actions moves
left, the other right, and which is which is drawn for every cell.  Going right costs
``0.01 / size``; only whoever goes right at every step is at the bottom right corner in the end,
where 1 waits.  Chance finds it once in ``2^size`` episodes, so an agent has to want to know.

Source: Osband, Van Roy, Russo & Wen, "Deep exploration via randomized value functions" (2019);
the task of that name in bsuite.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class DeepSea(gymnasium.Env[NDArray[np.float32], int]):
    """The grid, as a Gymnasium environment.

    Args:
        size: rows and columns.
        seed: of which action moves right in which cell; the same in every episode.
        one_hot: observations are all cells with a one where the diver is; else the number of
            the cell (``Discrete``).

    >>> env = DeepSea(3)
    >>> env.reset(seed=0)[0].reshape(3, 3)
    array([[1., 0., 0.],
           [0., 0., 0.],
           [0., 0., 0.]], dtype=float32)
    """

    def __init__(self, size: int = 10, *, seed: int = 0, one_hot: bool = True) -> None:
        if size < 2:
            raise ValueError(f"size must be at least 2, got {size}")
        self.size, self.one_hot = size, one_hot
        self.right = np.random.default_rng(seed).integers(2, size=(size, size))
        self.action_space: Any = spaces.Discrete(2)
        cells = size * size
        shape = (cells,)
        self.observation_space: Any = (
            spaces.Box(0.0, 1.0, shape, np.float32) if one_hot else spaces.Discrete(cells)
        )
        self.row = self.column = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Back to the top left."""
        super().reset(seed=seed)
        self.row = self.column = 0
        return self._seen(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Sink one row, to the left or to the right."""
        reward = 0.0
        if int(action) == self.right[self.row, self.column]:
            reward -= 0.01 / self.size
            if self.row == self.column == self.size - 1:
                reward += 1.0
            self.column = min(self.column + 1, self.size - 1)
        else:
            self.column = max(self.column - 1, 0)
        self.row += 1
        done = self.row == self.size
        self.row = min(self.row, self.size - 1)
        return self._seen(), reward, done, False, {}

    def _seen(self) -> Any:
        cell = self.row * self.size + self.column
        if not self.one_hot:
            return cell
        seen = np.zeros(self.size * self.size, dtype=np.float32)
        seen[cell] = 1
        return seen
