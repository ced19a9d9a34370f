"""Transitions that are learnt again: the latest of them, or those that surprised most."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass
class Transitions:
    """Steps, one a row, as the environment gave them.

    Attributes:
        observations: before the step.
        actions: what was done.
        rewards: what it gave; the discounted sum, where several steps are one row.
        reached: the observation that it led to.
        factors: on the value of what was reached: gamma to the number of steps, 0 at an end.
    """

    observations: Array
    actions: NDArray[np.int64]
    rewards: Array
    reached: Array
    factors: Array

    @classmethod
    def empty(cls, size: int, width: int) -> Transitions:
        """Room for so many, all zeros."""
        shape = (size, width)
        return cls(
            np.zeros(shape), np.zeros(size, dtype=np.int64), np.zeros(size), np.zeros(shape),
            np.zeros(size),
        )  # fmt: skip

    def __len__(self) -> int:
        """How many."""
        return len(self.rewards)

    def __getitem__(self, chosen: NDArray[np.int64] | slice) -> Transitions:
        """Some of them."""
        return Transitions(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def put(self, places: NDArray[np.int64], rows: Transitions) -> None:
        """Write rows over those in these places."""
        for field in fields(self):
            getattr(self, field.name)[places] = getattr(rows, field.name)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """By name, to be saved."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


class Latest:
    """The latest transitions; the oldest is overwritten."""

    def __init__(self, capacity: int, width: int) -> None:
        self.rows = Transitions.empty(capacity, width)
        self.held = self.next = 0

    def add(self, rows: Transitions) -> None:
        """Keep these."""
        rows = rows[-len(self.rows) :] if len(rows) > len(self.rows) else rows
        self.rows.put((self.next + np.arange(len(rows))) % len(self.rows), rows)
        self.next = (self.next + len(rows)) % len(self.rows)
        self.held = min(self.held + len(rows), len(self.rows))

    def draw(self, size: int, rng: np.random.Generator) -> Transitions:
        """Some of those held, evenly, with replacement."""
        return self.rows[rng.integers(self.held, size=min(size, self.held))]


class Surprising:
    """The transitions whose rewards were farthest from what was expected, in deviations."""

    def __init__(self, capacity: int, width: int) -> None:
        self.rows = Transitions.empty(capacity, width)
        self.surprise = np.zeros(capacity)
        self.held = 0

    def add(self, rows: Transitions, surprise: Array) -> None:
        """Keep those of these and of the held ones that surprise most."""
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
        """Those held."""
        return self.rows[: self.held]

    def judge(self, surprise: Array) -> None:
        """Take over how much those held surprise now."""
        self.surprise[: self.held] = surprise
