"""Callbacks between epochs: early stopping, checkpoints, or functions of the user.

A callback **returns True to stop** the training; any other value continues it.  All callbacks of an
epoch are called, also after one that returned True.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tractable.learners.learner import Learner

EpochRecord = dict[str, float]


class Callback(Protocol):
    """A function that is called after every epoch with the learner and the newest record."""

    def __call__(self, learner: Learner, record: EpochRecord) -> bool | None:
        """Return True to stop training."""
        ...


class EarlyStopping:
    """A callback that stops when a metric has not improved for ``patience`` epochs.

    Args:
        patience: epochs to wait for an improvement.
        monitor: key of the record to watch, lower is better.
    """

    def __init__(self, patience: int = 10, monitor: str = "validation_nll") -> None:
        if patience < 1:
            raise ValueError(f"patience must be at least 1, got {patience}")
        self.patience, self.monitor = patience, monitor

    def __call__(self, learner: Learner, record: EpochRecord) -> bool:
        """Return whether to stop."""
        if self.monitor not in record:
            raise KeyError(
                f"EarlyStopping watches {self.monitor!r}, but the record has "
                f"{', '.join(record)}: give fit a validation set"
            )
        return self.stops(learner.history)

    def stops(self, history: list[EpochRecord]) -> bool:
        """Return whether to stop, given the history alone, so that a resumed run stops alike.

        Args:
            history: records of all epochs so far.
        """
        values = [r.get(self.monitor, math.inf) for r in history]
        best = min(range(len(values)), key=values.__getitem__)
        return len(values) - 1 - best >= self.patience


class Checkpoint:
    """A callback that saves the learner every few epochs; ``fit(resume=path)`` continues from
    the file.

    Args:
        path: the file, replaced atomically each time.
        every: epochs between checkpoints.
    """

    def __init__(self, path: str | Path, every: int = 1) -> None:
        if every < 1:
            raise ValueError(f"every must be at least 1, got {every}")
        self.path, self.every = Path(path), every

    def __call__(self, learner: Learner, record: EpochRecord) -> None:
        """Save the learner if a checkpoint is due in this epoch."""
        if int(record["epoch"]) % self.every == 0:
            learner.save(self.path)


def run_callbacks(callbacks: list[Callback], learner: Learner, record: EpochRecord) -> bool:
    """Call all callbacks of an epoch and return whether one of them returned True."""
    answers = [callback(learner, record) for callback in callbacks]
    return any(answers)


def stops_on_history(callbacks: list[Callback], history: list[EpochRecord]) -> bool:
    """Return whether a callback that uses the history alone stops a resumed run."""
    if not history:
        return False
    stop_rules = [getattr(callback, "stops", None) for callback in callbacks]
    return any(stops(history) for stops in stop_rules if stops is not None)
