"""Record of the actions, rewards and regrets of a bandit agent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_UNKNOWN = -1


class BanditHistory:
    """Record of the steps of one run.

    Attributes:
        actions: action of each step.
        rewards: reward of each step.
        regrets: expected reward of the best action minus that of the action taken; NaN where the
            environment does not report it.
        oracle: best action of each step; -1 where the environment does not report it.
        seconds: processor time used for acting and learning, summed over all steps.
    """

    def __init__(self) -> None:
        self.actions: list[int] = []
        self.rewards: list[float] = []
        self.regrets: list[float] = []
        self.oracle: list[int] = []
        self.seconds = 0.0

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.actions)

    def add(self, action: int, reward: float, info: Mapping[str, Any]) -> None:
        """Append a step; ``info`` may hold ``"regret"`` and ``"oracle"``."""
        self.actions.append(action)
        self.rewards.append(reward)
        self.regrets.append(float(info.get("regret", math.nan)))
        self.oracle.append(int(info.get("oracle", _UNKNOWN)))

    def last_record(self) -> dict[str, float]:
        """Return number, reward and regret of the last step, for callbacks."""
        return {
            "steps": float(len(self)),
            "reward": self.rewards[-1],
            "regret": self.regrets[-1],
        }

    @property
    def cumulative_regret(self) -> NDArray[np.float64]:
        """Sum of the regrets up to and including each step."""
        return np.cumsum(np.array(self.regrets, dtype=np.float64))

    def mistakes(self, action: int) -> NDArray[np.bool_]:
        """Return whether each step took this action although another was best (false positive)."""
        done, best = np.array(self.actions, dtype=int), np.array(self.oracle, dtype=int)
        return (done == action) & (best != action) & (best != _UNKNOWN)

    def state(self) -> dict[str, Tensor]:
        """Return named tensors for ``restore``."""
        return {
            "actions": torch.tensor(self.actions, dtype=torch.int64),
            "rewards": torch.tensor(self.rewards, dtype=torch.float64),
            "regrets": torch.tensor(self.regrets, dtype=torch.float64),
            "oracle": torch.tensor(self.oracle, dtype=torch.int64),
            "seconds": torch.tensor(self.seconds, dtype=torch.float64),
        }

    @classmethod
    def restore(cls, tensors: Mapping[str, Tensor]) -> BanditHistory:
        """Return the history whose ``state`` is given."""
        self = cls()
        for name in ("actions", "rewards", "regrets", "oracle"):
            if tensors[name].shape != (len(tensors["actions"]),):
                raise ValueError(
                    f"the history has {name} of shape {tuple(tensors[name].shape)}, expected one "
                    f"for each of {len(tensors['actions'])} steps"
                )
            setattr(self, name, tensors[name].tolist())
        self.seconds = float(tensors["seconds"])
        if not (math.isfinite(self.seconds + sum(self.rewards)) and self.seconds >= 0):
            raise ValueError("the history has rewards that are not finite, or an invalid time")
        return self
