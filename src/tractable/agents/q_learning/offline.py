"""Offline training from logged transitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tractable.agents.buffers import Transitions
from tractable.agents.envs import ObservationEncoder
from tractable.errors import InvalidInput
from tractable.training import Progress

if TYPE_CHECKING:
    from tractable.agents.q_learning.agent import QAgent

_MEMORY_EPOCHS = 5.0
"""Memory of TAGI, in epochs of the log: targets of earlier epochs used outdated values."""

NAMES = ("observations", "actions", "rewards", "next_observations", "terminals")


def to_transitions(
    encoder: ObservationEncoder, n_actions: int, logged: Any, gamma: float
) -> Transitions:
    """Return a log as transitions; raise an error that names the first invalid entry.

    Raises:
        InvalidInput: the log is empty, lacks one of ``NAMES``, has arrays of different lengths, an
            unknown action, or numbers that are not finite.
    """
    if not isinstance(logged, Mapping):
        raise InvalidInput(
            f"a log is a mapping with the keys {', '.join(NAMES)}; got {type(logged).__name__}"
        )
    missing = [name for name in NAMES if name not in logged]
    if missing:
        raise InvalidInput(f"the log has no {missing[0]}: it needs {', '.join(NAMES)}")
    sizes = {name: len(logged[name]) for name in NAMES}
    if len(set(sizes.values())) > 1:
        raise InvalidInput(f"the arrays of a log must have one row per step, got lengths {sizes}")
    if not sizes["rewards"]:
        raise InvalidInput("the log is empty: there is nothing to learn from")
    rewards = np.asarray(logged["rewards"], dtype=np.float64).reshape(-1)
    if not np.isfinite(rewards).all():
        row = int((~np.isfinite(rewards)).argmax())
        raise InvalidInput(f"the reward of row {row} is {rewards[row]}")
    actions = np.asarray(logged["actions"]).reshape(-1)
    unknown = ~np.isin(actions, np.arange(n_actions))
    if unknown.any():
        row = int(unknown.argmax())
        raise InvalidInput(
            f"unknown action {actions[row]!r} in row {row}: actions are whole numbers from 0 to "
            f"{n_actions - 1}"
        )
    try:
        before, _ = encoder.to_rows(logged["observations"])
        after, _ = encoder.to_rows(logged["next_observations"])
    except ValueError as error:
        raise InvalidInput(f"in the log, {error}") from error
    ended = np.asarray(logged["terminals"]).reshape(-1).astype(bool)
    discounts = np.where(ended, 0.0, gamma)
    return Transitions(before, actions.astype(np.int64), rewards, after, discounts)


def fit(
    agent: QAgent, rows: Transitions, pessimism: float, epochs: int, progress: bool | None
) -> None:
    """Train on a log; see ``QAgent.fit``."""
    is_terminal = rows.discounts == 0
    agent.normalizer.update(rows.observations, rows.rewards, is_terminal)
    trainer = agent.trainer
    is_online = all(critic.learner.method.online for critic in agent.critics)
    trainer.pessimism = pessimism
    memory_rows = _MEMORY_EPOCHS * max(len(rows), 2) if is_online else None
    with Progress(epochs, f"{type(agent).__name__}.fit", progress) as bar:
        for _ in range(epochs):
            info, _errors = trainer.train_on(rows, memory_rows)
            trainer.on_update_end()
            bar.advance()
            bar.report({"value_error": info.error, "value_std": info.std})
