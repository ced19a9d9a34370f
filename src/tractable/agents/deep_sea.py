"""Deep sea: an exploration task whose reward requires a long sequence of correct actions.

The agent starts at the top left of a grid and moves down one row per step.  One of the two actions
moves left, the other right; which is which is drawn for every cell.  Moving right costs
``0.01 / size``.  Only moving right at every step leads to the bottom right corner, where the reward
is 1.  Random actions find it once in ``2^size`` episodes, so the task needs directed exploration.

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
    """Deep sea as a Gymnasium environment.

    Args:
        size: number of rows and of columns, at least 2.
        seed: seed of the draw of which action moves right in which cell; it is the same in every
            episode.
        one_hot: whether an observation is the one-hot code of the cell; else it is the number of
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
        """Return to the top left cell.

        Args:
            seed: seed of ``np_random``. It has no effect on episodes, which are deterministic.
            options: ignored.
        """
        super().reset(seed=seed)
        self.row = self.column = 0
        return self._observation(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Move down one row, to the left or to the right."""
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
        return self._observation(), reward, done, False, {}

    def _observation(self) -> Any:
        cell = self.row * self.size + self.column
        if not self.one_hot:
            return cell
        one_hot = np.zeros(self.size * self.size, dtype=np.float32)
        one_hot[cell] = 1
        return one_hot
