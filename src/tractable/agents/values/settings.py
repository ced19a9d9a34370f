"""What is chosen about learning values with a network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

Hold = Literal["step", "episode"]


@dataclass(frozen=True)
class QSettings:
    """Everything that is chosen; the defaults are the same for all environments.

    Attributes:
        gamma: discount.
        lam: mixing of longer returns: 0 bootstraps after one step, 1 at the end of the horizon.
        n_step: bootstrap after exactly so many rewards; None mixes by ``lam`` instead, where
            horizons are learnt as they come, and bootstraps after one where there is a replay.
        hold: how long Thompson sampling holds a draw: ``"episode"`` draws all weights at its
            beginning, ``"step"`` the values of all actions at every step.
        temper: factor on the deviations that Thompson sampling draws with; 1 is Thompson's rule.
        horizon: steps between two updates.
        batch_size: rows per update.
        epochs: times each horizon is learnt.
        hidden: units of the hidden layers, all ReLU.
        gain: factor on the prior variances of TAGI's weights.
        sigma: first standard deviation of the targets' noise.
        sigma_decay: factor on it after each horizon.
        sigma_min: its least value.
        memory: rows that TAGI remembers; None forgets nothing.  Targets are made of values that
            are no longer believed a while later.  Other learners have no memory to state.
        scale_observations: whether observations are scaled by running statistics.
        scale_rewards: whether rewards are, by the deviation of their discounted sum.
        heads: networks that learn side by side, each from its own values; a draw is of one.
        double: the next action is chosen by the network that learns and valued by the target
            network (by the next head, where there is no target network).
        target_every: horizons after which the network that values the next step is renewed;
            None: the values are always those of now.
        replay: transitions that are kept and drawn from, evenly; 0 learns each horizon as it comes.
        replays: batches drawn from it after each horizon.
        surprising: transitions that are kept because they surprised most, and learnt again
            after each horizon.
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
        """Check the values, naming the first that cannot be."""
        _check_numbers(self)
        if self.hold not in get_args(Hold):
            raise ValueError(f"hold must be one of {', '.join(get_args(Hold))}; got {self.hold!r}")
        if self.memory is not None and not 1 < self.memory < math.inf:
            raise ValueError(
                f"memory must be a number of rows above 1, or None; got {self.memory!r}"
            )
        if self.double and self.target_every is None and self.heads < 2:
            raise ValueError(
                "double=True needs a second network to value actions: give target_every= or heads="
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
        raise ValueError(f"hidden layers have at least one unit, got {settings.hidden}")
