"""Stored transitions for repeated training: the latest ones, or those with the largest errors."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass
class Transitions:
    """Transitions, one per row, as returned by the environment.

    Attributes:
        observations: observations before the step, ``[rows, entries]``.
        actions: actions taken.
        rewards: rewards received; their discounted sum, where a row covers several steps.
        reached: observations after the step.
        factors: factor on the value of the observation after the step: gamma to the power of the
            number of steps, 0 if that is terminal.
    """

    observations: Array
    actions: NDArray[np.int64]
    rewards: Array
    reached: Array
    factors: Array

    @classmethod
    def empty(cls, size: int, width: int) -> Transitions:
        """Return ``size`` transitions of zeros."""
        shape = (size, width)
        return cls(
            np.zeros(shape), np.zeros(size, dtype=np.int64), np.zeros(size), np.zeros(shape),
            np.zeros(size),
        )  # fmt: skip

    def __len__(self) -> int:
        """Return the number of transitions."""
        return len(self.rewards)

    def __getitem__(self, chosen: NDArray[np.int64] | slice) -> Transitions:
        """Return the chosen transitions."""
        return Transitions(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def put(self, places: NDArray[np.int64], rows: Transitions) -> None:
        """Overwrite the transitions at these indices."""
        for field in fields(self):
            getattr(self, field.name)[places] = getattr(rows, field.name)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the arrays by name, to be saved."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


class Latest:
    """Ring buffer of the latest transitions, sampled uniformly; the oldest is overwritten."""

    def __init__(self, capacity: int, width: int) -> None:
        self.rows = Transitions.empty(capacity, width)
        self.held = self.next = 0

    def add(self, rows: Transitions) -> None:
        """Append transitions."""
        rows = rows[-len(self.rows) :] if len(rows) > len(self.rows) else rows
        self.rows.put((self.next + np.arange(len(rows))) % len(self.rows), rows)
        self.next = (self.next + len(rows)) % len(self.rows)
        self.held = min(self.held + len(rows), len(self.rows))

    def draw(self, size: int, rng: np.random.Generator) -> Transitions:
        """Return up to ``size`` transitions drawn uniformly with replacement."""
        return self.rows[rng.integers(self.held, size=min(size, self.held))]


class Surprising:
    """Buffer of the transitions with the largest standardized errors.

    All of them are learned again after each horizon; they are not sampled with priorities.
    """

    def __init__(self, capacity: int, width: int) -> None:
        self.rows = Transitions.empty(capacity, width)
        self.surprise = np.zeros(capacity)
        self.held = 0

    def add(self, rows: Transitions, surprise: Array) -> None:
        """Keep the transitions with the largest errors among the new ones and the stored ones."""
        room = len(self.rows)
        order = np.argsort(-surprise, kind="stable")[:room]
        for k in order.tolist():
            if self.held < room:
                place, self.held = self.held, self.held + 1
            else:
                place = int(self.surprise.argmin())
                if self.surprise[place] >= surprise[k]:
                    break
            self.rows.put(np.array([place]), rows[np.array([k])])
            self.surprise[place] = surprise[k]

    def all(self) -> Transitions:
        """Return the stored transitions."""
        return self.rows[: self.held]

    def judge(self, surprise: Array) -> None:
        """Replace the errors of the stored transitions by their current values."""
        self.surprise[: self.held] = surprise
