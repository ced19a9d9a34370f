"""Settings of Q-learning with a network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

Hold = Literal["step", "episode"]


@dataclass(frozen=True)
class QSettings:
    """Settings of ``QAgent``; the defaults are the same for all environments.

    Attributes:
        gamma: discount factor.
        lam: weight of longer returns: 0 bootstraps after one step, 1 at the end of the horizon.
        n_step: number of rewards before bootstrapping.  None: returns are mixed by ``lam``
            without a replay buffer, and bootstrapped after one reward with it.
        hold: how long Thompson sampling uses a draw: ``"episode"`` draws all weights at the
            beginning of an episode, ``"step"`` draws the values of all actions at every step.
        temper: factor on the standard deviations of Thompson sampling; 1 is Thompson's rule.
        horizon: number of steps between two updates.
        batch_size: rows per update.
        epochs: number of passes over each horizon.
        hidden: units of the hidden layers, all ReLU.
        gain: factor on the prior variances of TAGI's weights.
        sigma: initial standard deviation of the targets' noise.
        sigma_decay: factor applied to it after each horizon.
        sigma_min: minimum of the standard deviation of the targets' noise.
        memory: effective number of past rows in TAGI's posterior; None: nothing is forgotten.
            Forgetting removes targets that were computed from outdated values.  Other learners
            ignore it.
        scale_observations: whether to scale observations by running statistics.
        scale_rewards: whether to scale rewards by the standard deviation of their discounted sum.
        heads: number of networks, each trained on targets from its own values; a draw uses one of
            them.
        double: whether the next action is chosen by the trained network and evaluated by the
            target network (by the next head, if there is no target network).
        target_every: number of horizons between two updates of the target network; None: there is
            no target network.
        replay: capacity of the replay buffer, sampled uniformly; 0: each horizon is learned when
            it ends.
        replays: number of batches drawn from the replay buffer after each horizon.
        surprising: number of stored transitions with the largest standardized errors, which are
            learned again after each horizon.
    """

    gamma: float = 0.99
    lam: float = 0.95
    n_step: int | None = 5
    hold: Hold = "episode"
    temper: float = 1.0
    horizon: int = 128
    batch_size: int = 16
    epochs: int = 1
    hidden: tuple[int, ...] = (64, 64)
    gain: float = 1.0
    sigma: float = 1.0
    sigma_decay: float = 0.98
    sigma_min: float = 0.1
    memory: float | None = 50_000
    scale_observations: bool = True
    scale_rewards: bool = True
    heads: int = 1
    double: bool = False
    target_every: int | None = None
    replay: int = 50_000
    replays: int = 16
    surprising: int = 0

    def __post_init__(self) -> None:
        """Raise if a setting is outside its domain."""
        _check_numbers(self)
        if self.hold not in get_args(Hold):
            raise ValueError(f"hold must be one of {', '.join(get_args(Hold))}; got {self.hold!r}")
        if self.memory is not None and not 1 < self.memory < math.inf:
            raise ValueError(
                f"memory must be a number of rows above 1, or None; got {self.memory!r}"
            )
        if self.double and self.target_every is None and self.heads < 2:
            raise ValueError(
                "double=True needs a second network to evaluate actions: set target_every= or "
                "heads= to at least 2"
            )


def _check_numbers(settings: QSettings) -> None:
    for name in ("horizon", "batch_size", "epochs", "heads", "replays", "n_step", "target_every"):
        value = getattr(settings, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    for name in ("replay", "surprising"):
        if getattr(settings, name) < 0:
            raise ValueError(f"{name} must not be negative, got {getattr(settings, name)}")
    for name in ("gamma", "lam", "sigma_decay"):
        if not 0 <= getattr(settings, name) <= 1:
            raise ValueError(f"{name} must lie between 0 and 1, got {getattr(settings, name)}")
    for name in ("sigma", "sigma_min", "gain", "temper"):
        if not getattr(settings, name) > 0:
            raise ValueError(f"{name} must be positive, got {getattr(settings, name)}")
    if min(settings.hidden, default=1) < 1:
        raise ValueError(f"hidden layers must have at least one unit, got {settings.hidden}")
