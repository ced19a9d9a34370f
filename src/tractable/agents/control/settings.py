"""What is chosen about continuous control, with the defaults that suit all tried environments."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


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
        pull: precision, before it is faded, with which every row observes that the policy's
            output is zero, so that actions do not saturate (``advice``); 0: none.
        forgetting: share, before it is faded, of what its weights know that the policy forgets
            after each horizon, so that it does not freeze (``restraint``); 0: nothing.
        max_step: most that one horizon may move the policy's means, in half squared deviations of
            its outputs (``restraint``); None: no limit.
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
        """Refuse what cannot be meant."""
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
