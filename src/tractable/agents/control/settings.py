"""What is chosen about continuous control, with the defaults that suit all tried environments."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class ControlSettings:
    """Everything that is chosen (table 9; the same for all environments).

    Attributes:
        horizon: steps between two updates.
        batch_size: rows per update.
        epochs: times each horizon is learnt.
        gamma: discount.
        lam: mixing of returns; 1 is the printed full-horizon return.
        sigma_v: first standard deviation of the value targets.
        sigma_decay: factor on it after each horizon.
        sigma_min: its least value.
        policy_hidden: units of the policy's hidden layers, all ReLU.
        value_hidden: units of the value network's; the first is tanh, the others ReLU.
        gain: factor on the prior variances 1/fan_in.
        scale_observations: whether observations are scaled by what was seen.
        scale_rewards: whether rewards are.
        memory: for a world that changes: about how many of the last rows both networks remember
            (``Learner.update``); by default they forget nothing.
    """

    horizon: int = 1024
    batch_size: int = 16
    epochs: int = 1
    gamma: float = 0.99
    lam: float = 0.95
    sigma_v: float = 2.0
    sigma_decay: float = 0.98
    sigma_min: float = 0.3
    policy_hidden: tuple[int, ...] = (128, 128)
    value_hidden: tuple[int, ...] = (128, 128, 128)
    gain: float = 1.0
    scale_observations: bool = True
    scale_rewards: bool = True
    memory: float | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for name in ("horizon", "batch_size", "epochs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("gamma", "lam", "sigma_decay"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie between 0 and 1, got {getattr(self, name)}")
        for name in ("sigma_v", "sigma_min", "gain"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if self.memory is not None and not 1 < self.memory < math.inf:
            raise ValueError(
                f"memory must be a number of rows above 1, or None; got {self.memory!r}"
            )
        for name in ("policy_hidden", "value_hidden"):
            if not getattr(self, name) or min(getattr(self, name)) < 1:
                raise ValueError(f"{name} must name at least one layer of at least one unit")
