"""The mushroom bandit as a Gymnasium environment with the actions eat and leave.

Importing this module registers it as ``tractable/Mushroom-v0``.

At each step the agent sees a mushroom, drawn evenly and with replacement from the 8,124 of the UCI
Mushroom data.  Leaving it gives 0, eating an edible one +5, eating a poisonous one +5 or -35 with
even chances.

The 95 features are a one-hot code without the first level of each of the 22 columns: 117 levels
occur, counting the ``?`` of stalk-root as a level and the single level of veil-type, and
117 - 22 = 95.

*Regret* is the oracle's expected reward less the expected reward of what was done: 5 for an edible
mushroom left, 15 for a poisonous one eaten, whether or not the bite was lucky.  Its sum has the
same expectation as the oracle's reward less the one received, with less noise.

The mushrooms and the luck of every step come from the seed of ``reset`` and not from what the
agent does: agents with the same seed meet the same mushrooms with the same luck.

Source: "Weight uncertainty in neural networks" (a replication of Bayes by Backprop), section 4.3;
Blundell et al. (2015), section 5.3.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from tractable.data import mushroom

ID = "tractable/Mushroom-v0"
LEAVE, EAT = 0, 1
REWARD, LOSS = 5.0, -35.0
EXPECTED_BITE = (REWARD + LOSS) / 2
"""Expected reward of eating a poisonous mushroom."""

Observation = NDArray[np.float32]
_BLOCK = 1024  # steps whose mushrooms are drawn at once


class Mushroom(gymnasium.Env[Observation, np.int64]):
    """``gymnasium.make("tractable/Mushroom-v0")``: observations of 95 features, two actions.

    An episode has no end.  ``info`` of a step holds, of the mushroom it was about, ``"edible"``,
    the action ``"oracle"`` that is best and the ``"regret"`` of the one taken.

    Args:
        features: 0/1 features of each mushroom; by default those of the UCI data.
        edible: whether each mushroom is.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, features: Any = None, edible: Any = None) -> None:
        if (features is None) != (edible is None):
            raise ValueError("features and edible come together: give both or neither")
        if features is None:
            table = mushroom("drop-first")
            features, edible = table.features, table.labels == 0
        self.features = np.asarray(torch.as_tensor(features), dtype=np.float32)
        self.edible = np.asarray(torch.as_tensor(edible), dtype=bool)
        if self.features.ndim != 2 or self.edible.shape != self.features.shape[:1]:
            raise ValueError(
                f"expected one row of features and one label per mushroom, got features of "
                f"shape {self.features.shape} and edible of shape {self.edible.shape}"
            )
        self.observation_space = spaces.Box(0.0, 1.0, self.features.shape[1:], np.float32)
        self.action_space = spaces.Discrete(2)
        self._step: int | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Return the first mushroom."""
        super().reset(seed=seed)
        self._step = 0
        self._draw()
        return self._seen(), {}

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Leave (0) or eat (1) the current mushroom, and return the next."""
        if self._step is None:
            raise RuntimeError("call reset before step")
        if not self.action_space.contains(action):
            raise ValueError(f"unknown action {action!r}: 0 leaves the mushroom, 1 eats it")
        place = self._step % _BLOCK
        edible, lucky = bool(self.edible[self._which[place]]), bool(self._luck[place])
        eaten = int(action) == EAT
        reward = (REWARD if edible or lucky else LOSS) if eaten else 0.0
        expected = (REWARD if edible else EXPECTED_BITE) if eaten else 0.0
        info = {
            "edible": edible,
            "oracle": EAT if edible else LEAVE,
            "regret": (REWARD if edible else 0.0) - expected,
        }
        self._step += 1
        if self._step % _BLOCK == 0:
            self._draw()
        return self._seen(), reward, False, False, info

    def _draw(self) -> None:
        self._which = self.np_random.integers(len(self.features), size=_BLOCK)
        self._luck = self.np_random.integers(2, size=_BLOCK)

    def _seen(self) -> Observation:
        assert self._step is not None
        return self.features[self._which[self._step % _BLOCK]].copy()


if ID not in gymnasium.registry:
    gymnasium.register(ID, entry_point=f"{__name__}:Mushroom")
