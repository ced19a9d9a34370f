"""Rollout buffers, and stored transitions for repeated training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]


@dataclass
class RolloutBuffer:
    """Steps that an agent takes between two updates, one row per step, in temporal order.

    Attributes:
        observations: observations before the step, flattened.
        actions: actions as the algorithm uses them (``TAGIControl``: squashed by tanh, not rescaled
            to the environment's box), ``[steps, entries]``.
        rewards: rewards as returned by the environment.
        next_observations: observations after the step, before a reset.
        terminated: whether the step ended in a terminal state.
        truncated: whether the episode was truncated (time limit) at the step.
        episode_stats: for every episode that ended: the step, its return and its length.
    """

    observations: Array
    actions: NDArray[Any]
    rewards: Array
    next_observations: Array
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    episode_stats: list[tuple[int, float, int]]

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.rewards)

    @property
    def done(self) -> NDArray[np.bool_]:
        """Whether the episode ended with each step."""
        return self.terminated | self.truncated

    def segment_ends(self) -> NDArray[np.bool_]:
        """Return at which steps a return is bootstrapped: truncations, and the last step.

        The last step is not included if it ended in a terminal state.
        """
        ends = self.truncated.copy()
        ends[-1] = not self.terminated[-1]
        return ends


@dataclass
class Transitions:
    """Transitions, one per row, as returned by the environment.

    Attributes:
        observations: observations before the step, ``[rows, entries]``.
        actions: actions taken.
        rewards: rewards received; their discounted sum, where a row covers several steps.
        next_observations: observations after the step.
        discounts: factor on the value of the observation after the step: gamma to the power of
            the number of steps, 0 if that is terminal.
    """

    observations: Array
    actions: NDArray[np.int64]
    rewards: Array
    next_observations: Array
    discounts: Array

    @classmethod
    def zeros(cls, size: int, n_entries: int) -> Transitions:
        """Return ``size`` transitions of zeros."""
        shape = (size, n_entries)
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

    def put(self, indices: NDArray[np.int64], rows: Transitions) -> None:
        """Overwrite the transitions at these indices."""
        for field in fields(self):
            getattr(self, field.name)[indices] = getattr(rows, field.name)

    def tensors(self) -> dict[str, Tensor]:
        """Return the columns by name, to be saved."""
        return {field.name: torch.from_numpy(getattr(self, field.name)) for field in fields(self)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the buffer from the tensors that ``state`` returned."""
        for field in fields(self):
            getattr(self, field.name)[...] = tensors[field.name].numpy()


class ReplayBuffer:
    """Ring buffer of the latest transitions, sampled uniformly; the oldest is overwritten.

    Attributes:
        rows: memory of ``buffer_size`` transitions.
        n_stored: number of stored transitions.
        position: index of the next transition to be overwritten.
    """

    def __init__(self, buffer_size: int, n_entries: int) -> None:
        self.rows = Transitions.zeros(buffer_size, n_entries)
        self.n_stored = self.position = 0

    def add(self, rows: Transitions) -> None:
        """Append transitions."""
        rows = rows[-len(self.rows) :] if len(rows) > len(self.rows) else rows
        self.rows.put((self.position + np.arange(len(rows))) % len(self.rows), rows)
        self.position = (self.position + len(rows)) % len(self.rows)
        self.n_stored = min(self.n_stored + len(rows), len(self.rows))

    def sample(self, size: int, rng: np.random.Generator) -> Transitions:
        """Return up to ``size`` transitions drawn uniformly with replacement."""
        return self.rows[rng.integers(self.n_stored, size=min(size, self.n_stored))]


class PriorityBuffer:
    """Buffer of the transitions with the largest standardized errors.

    All of them are learned again at each update.  This is not prioritized sampling (Schaul et al.,
    2016): a rare reward is never dropped by chance.

    Attributes:
        rows: memory of ``buffer_size`` transitions.
        priorities: standardized error of each stored transition.
        n_stored: number of stored transitions.
    """

    def __init__(self, buffer_size: int, n_entries: int) -> None:
        self.rows = Transitions.zeros(buffer_size, n_entries)
        self.priorities = np.zeros(buffer_size)
        self.n_stored = 0

    def add(self, rows: Transitions, priorities: Array) -> None:
        """Keep the transitions with the largest errors among the new ones and the stored ones."""
        buffer_size = len(self.rows)
        order = np.argsort(-priorities, kind="stable")[:buffer_size]
        for k in order.tolist():
            if self.n_stored < buffer_size:
                index, self.n_stored = self.n_stored, self.n_stored + 1
            else:
                index = int(self.priorities.argmin())
                if self.priorities[index] >= priorities[k]:
                    break
            self.rows.put(np.array([index]), rows[np.array([k])])
            self.priorities[index] = priorities[k]

    def all(self) -> Transitions:
        """Return the stored transitions."""
        return self.rows[: self.n_stored]

    def set_priorities(self, priorities: Array) -> None:
        """Replace the errors of the stored transitions by their current values."""
        self.priorities[: self.n_stored] = priorities
