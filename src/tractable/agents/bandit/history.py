"""What an agent did and what it cost: actions, rewards and regrets, step by step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_UNKNOWN = -1


class History:
    """The steps of one run.

    Attributes:
        actions: what was done.
        rewards: what was received.
        regrets: the oracle's expected reward less that of the action done; NaN where the
            environment does not say.
        oracle: the best action; -1 where the environment does not say.
        seconds: processor time of acting and learning, over all steps.
    """

    def __init__(self) -> None:
        self.actions: list[int] = []
        self.rewards: list[float] = []
        self.regrets: list[float] = []
        self.oracle: list[int] = []
        self.seconds = 0.0

    def __len__(self) -> int:
        """Number of steps."""
        return len(self.actions)

    def add(self, action: int, reward: float, info: Mapping[str, Any]) -> None:
        """Keep a step; ``info`` may hold ``"regret"`` and ``"oracle"``."""
        self.actions.append(action)
        self.rewards.append(reward)
        self.regrets.append(float(info.get("regret", math.nan)))
        self.oracle.append(int(info.get("oracle", _UNKNOWN)))

    @property
    def cumulative_regret(self) -> NDArray[np.float64]:
        """Regret up to and with each step."""
        return np.cumsum(np.array(self.regrets, dtype=np.float64))

    def mistakes(self, action: int) -> NDArray[np.bool_]:
        """Steps where this action was done and was not the best: its false positives."""
        done, best = np.array(self.actions, dtype=int), np.array(self.oracle, dtype=int)
        return (done == action) & (best != action) & (best != _UNKNOWN)

    def state(self) -> dict[str, Tensor]:
        """Named tensors that ``restore`` takes."""
        return {
            "actions": torch.tensor(self.actions, dtype=torch.int64),
            "rewards": torch.tensor(self.rewards, dtype=torch.float64),
            "regrets": torch.tensor(self.regrets, dtype=torch.float64),
            "oracle": torch.tensor(self.oracle, dtype=torch.int64),
            "seconds": torch.tensor(self.seconds, dtype=torch.float64),
        }

    @classmethod
    def restore(cls, tensors: Mapping[str, Tensor]) -> History:
        """The history that ``state`` was taken of."""
        self = cls()
        for name in ("actions", "rewards", "regrets", "oracle"):
            if tensors[name].shape != (len(tensors["actions"]),):
                raise ValueError(f"the history has {name} of another number of steps")
            setattr(self, name, tensors[name].tolist())
        self.seconds = float(tensors["seconds"])
        if not (math.isfinite(self.seconds + sum(self.rewards)) and self.seconds >= 0):
            raise ValueError("the history has rewards or a time that are not numbers")
        return self
