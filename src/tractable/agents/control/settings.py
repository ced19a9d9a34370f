"""Settings of continuous control; the defaults were chosen on all tested environments."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tractable.agents.settings_validation import (
    COUNT,
    MEMORY_ROWS,
    NON_NEGATIVE,
    POSITIVE,
    SHARE,
    Domain,
    check_domains,
)


@dataclass(frozen=True)
class ControlSettings:
    """Settings of ``TAGIControl`` (table 9; the defaults are the same for all environments).

    Attributes:
        n_steps: number of environment steps between two updates.
        batch_size: rows per TAGI update.
        epochs: number of passes over the collected steps.
        gamma: discount factor.
        td_lambda: lambda of the returns; 1 is the printed return over all collected steps.
        target_std: initial standard deviation of the value targets.
        target_std_decay: factor applied to it after each update.
        min_target_std: minimum of the standard deviation of the value targets.
        policy_hidden_layer_sizes: units of the policy's hidden layers, all ReLU.
        value_hidden_layer_sizes: units of the value network's hidden layers; the first is tanh,
            the others ReLU.
        gain: factor on the prior variances 1/fan_in.
        scale_observations: whether to scale observations by running statistics.
        scale_rewards: whether to scale rewards by running statistics.
        memory_rows: for environments that change: approximate number of past rows that both
            networks depend on (``Learner.update``); None: nothing is forgotten.
        saturation_penalty: precision, before it is multiplied by the certainty, with which every
            row observes that the policy's output is zero, so that actions do not saturate
            (``policy_update``); 0 disables it.
        forget_rate: share, before it is multiplied by the certainty, of the weights' information
            that the policy discards at each update, so that it keeps learning (``policy_update``);
            0 disables it.
        max_kl: maximum Kullback-Leibler divergence of the policies before and after an update
            (``policy_update``); None: no limit.
    """

    n_steps: int = 1024
    batch_size: int = 16
    epochs: int = 1
    gamma: float = 0.99
    td_lambda: float = 0.95
    target_std: float = 2.0
    target_std_decay: float = 0.98
    min_target_std: float = 0.3
    policy_hidden_layer_sizes: tuple[int, ...] = (128, 128)
    value_hidden_layer_sizes: tuple[int, ...] = (128, 128, 128)
    gain: float = 1.0
    scale_observations: bool = True
    scale_rewards: bool = True
    memory_rows: float | None = None
    saturation_penalty: float = 0.2
    forget_rate: float = 0.06
    max_kl: float | None = 0.1

    def __post_init__(self) -> None:
        """Raise if a setting is outside its domain."""
        check_domains(self, _DOMAINS)


_DOMAINS: dict[Domain, tuple[str, ...]] = {
    COUNT: ("n_steps", "batch_size", "epochs"),
    SHARE: ("gamma", "td_lambda", "target_std_decay"),
    POSITIVE: ("target_std", "min_target_std", "gain"),
    MEMORY_ROWS: ("memory_rows",),
    NON_NEGATIVE: ("saturation_penalty",),
    ("be at least 0 and below 1", lambda value: 0 <= value < 1): ("forget_rate",),
    ("be positive and finite, or None", lambda value: value is None or 0 < value < math.inf): (
        "max_kl",
    ),
    ("name at least one layer of at least one unit", lambda value: min(value, default=0) >= 1): (
        "policy_hidden_layer_sizes",
        "value_hidden_layer_sizes",
    ),
}
