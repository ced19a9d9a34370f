"""Settings of continuous control; the defaults were chosen on all tested environments."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ControlSettings:
    """Settings of ``TAGIControl`` (table 9; the defaults are the same for all environments).

    Attributes:
        horizon: number of steps between two updates.
        batch_size: rows per update.
        epochs: number of passes over each horizon.
        gamma: discount factor.
        lam: lambda of the returns; 1 is the printed full-horizon return.
        sigma_v: initial standard deviation of the value targets.
        sigma_decay: factor applied to it after each horizon.
        sigma_min: minimum of the standard deviation of the value targets.
        policy_hidden: units of the policy's hidden layers, all ReLU.
        value_hidden: units of the value network's hidden layers; the first is tanh, the others
            ReLU.
        gain: factor on the prior variances 1/fan_in.
        scale_observations: whether to scale observations by running statistics.
        scale_rewards: whether to scale rewards by running statistics.
        memory: for environments that change: approximate number of past rows that both networks
            depend on (``Learner.update``); None: nothing is forgotten.
        pull: precision, before it is multiplied by the certainty, with which every row observes
            that the policy's output is zero, so that actions do not saturate (``advice``);
            0 disables it.
        forgetting: share, before it is multiplied by the certainty, of the weights' information
            that the policy discards after each horizon, so that it keeps learning
            (``restraint``); 0 disables it.
        max_step: maximum change of the policy's means in one horizon, in half squared standard
            deviations of its outputs (``restraint``); None: no limit.
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
    pull: float = 0.2
    forgetting: float = 0.06
    max_step: float | None = 0.1

    def __post_init__(self) -> None:
        """Raise if a setting is outside its domain."""
        for wanted, (holds, names) in _DOMAINS.items():
            for name in names:
                value = getattr(self, name)
                if not holds(value):
                    raise ValueError(f"{name} must {wanted}, got {value!r}")


def _none_or_above(least: float) -> Callable[[Any], bool]:
    return lambda value: value is None or least < value < math.inf


_DOMAINS: dict[str, tuple[Callable[[Any], bool], tuple[str, ...]]] = {
    "be at least 1": (lambda value: value >= 1, ("horizon", "batch_size", "epochs")),
    "lie between 0 and 1": (lambda value: 0 <= value <= 1, ("gamma", "lam", "sigma_decay")),
    "be positive": (lambda value: value > 0, ("sigma_v", "sigma_min", "gain")),
    "be a number of rows above 1, or None": (_none_or_above(1), ("memory",)),
    "be at least 0 and finite": (lambda value: 0 <= value < math.inf, ("pull",)),
    "be at least 0 and below 1": (lambda value: 0 <= value < 1, ("forgetting",)),
    "be positive and finite, or None": (_none_or_above(0), ("max_step",)),
    "name at least one layer of at least one unit": (
        lambda value: len(value) > 0 and min(value) >= 1,
        ("policy_hidden", "value_hidden"),
    ),
}
