"""Settings of Q-learning with a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tractable.agents.settings_validation import (
    COUNT,
    LAYER_SIZES,
    MEMORY_ROWS,
    OPTIONAL_COUNT,
    POSITIVE,
    SHARE,
    SIZE,
    Domain,
    check_domains,
)

ThompsonInterval = Literal["step", "episode"]


@dataclass(frozen=True)
class QSettings:
    """Settings of ``QAgent``; the defaults are the same for all environments.

    Attributes:
        gamma: discount factor.
        td_lambda: weight of longer returns: 0 bootstraps after one step, 1 at the end of the
            collected steps.
        n_step: number of rewards before bootstrapping.  None: returns are mixed by ``td_lambda``
            without a replay buffer, and bootstrapped after one reward with it.
        thompson_interval: how long Thompson sampling uses a sample: ``"episode"`` samples all
            weights at the beginning of an episode, ``"step"`` samples the values of all actions
            at every step.
        thompson_scale: factor on the standard deviations of Thompson sampling; 1 is Thompson's
            rule.
        train_freq: number of environment steps between two updates.
        batch_size: rows per gradient step or TAGI update.
        epochs: number of passes over the collected steps, without a replay buffer.
        hidden_layer_sizes: units of the hidden layers, all ReLU.
        gain: factor on the prior variances of TAGI's weights.
        target_std: initial standard deviation of the targets' noise.
        target_std_decay: factor applied to it after each update.
        min_target_std: minimum of the standard deviation of the targets' noise.
        memory_rows: effective number of past rows in TAGI's posterior; None: nothing is
            forgotten.  Forgetting removes targets that were computed from outdated values.  Other
            learners ignore it.
        scale_observations: whether to scale observations by running statistics.
        scale_rewards: whether to scale rewards by the standard deviation of their discounted sum.
        n_critics: number of networks, each trained on targets from its own values; a sample for
            Thompson sampling is drawn from one of them.
        double_q: whether the next action is chosen by the trained network and evaluated by the
            target network (by the next network, if there is no target network).
        target_update_interval: number of updates between two updates of the target network; None:
            there is no target network.
        buffer_size: capacity of the replay buffer, sampled uniformly; 0: the collected steps are
            learned once, when they are complete.
        gradient_steps: number of batches drawn from the replay buffer at each update.
        priority_buffer_size: number of stored transitions with the largest standardized errors,
            all of which are learned again at each update.
    """

    gamma: float = 0.99
    td_lambda: float = 0.95
    n_step: int | None = 5
    thompson_interval: ThompsonInterval = "episode"
    thompson_scale: float = 1.0
    train_freq: int = 128
    batch_size: int = 16
    epochs: int = 1
    hidden_layer_sizes: tuple[int, ...] = (64, 64)
    gain: float = 1.0
    target_std: float = 1.0
    target_std_decay: float = 0.98
    min_target_std: float = 0.1
    memory_rows: float | None = 50_000
    scale_observations: bool = True
    scale_rewards: bool = True
    n_critics: int = 1
    double_q: bool = False
    target_update_interval: int | None = None
    buffer_size: int = 50_000
    gradient_steps: int = 16
    priority_buffer_size: int = 0

    def __post_init__(self) -> None:
        """Raise if a setting is outside its domain."""
        check_domains(self, _DOMAINS)
        if self.double_q and self.target_update_interval is None and self.n_critics < 2:
            raise ValueError(
                "double_q=True needs a second network to evaluate actions: set "
                "target_update_interval= or n_critics= to at least 2"
            )


_INTERVALS = get_args(ThompsonInterval)
_DOMAINS: dict[Domain, tuple[str, ...]] = {
    COUNT: ("train_freq", "batch_size", "epochs", "n_critics", "gradient_steps"),
    OPTIONAL_COUNT: ("n_step", "target_update_interval"),
    SIZE: ("buffer_size", "priority_buffer_size"),
    SHARE: ("gamma", "td_lambda", "target_std_decay"),
    POSITIVE: ("target_std", "min_target_std", "gain", "thompson_scale"),
    MEMORY_ROWS: ("memory_rows",),
    LAYER_SIZES: ("hidden_layer_sizes",),
    (f"be one of {', '.join(_INTERVALS)}", lambda value: value in _INTERVALS): (
        "thompson_interval",
    ),
}
