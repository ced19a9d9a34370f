"""Replay buffer: recent experience on which a gradient-based learner is trained repeatedly.

At every step of the agent (or every second, third ... one), ``batches`` gradient steps are made,
each on rows drawn uniformly with replacement from the buffer.  The divergence from the prior (or
the log prior) is divided among the rows of the buffer: a batch of B rows out of N has the share
B/N of it.  The objective is therefore that of the buffer as one data set, however often each row
is drawn.

A learning-rate ``schedule`` of the learner is stepped once per step of the agent.  After every N
rows, learned noise is updated, and what a learner computes at the end of a fit (the curvature of
``Laplace``) is computed on the rows of the buffer.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tractable.learners import Learner, Position
from tractable.persistence.checks import at_most
from tractable.training.batches import Rows

_FIRST_ROWS = 64  # initial size of the buffer, which then doubles up to its capacity


class Replay:
    """Replay buffer with the latest ``capacity`` observations.

    Args:
        capacity: maximum number of observations; the oldest is overwritten.
        batch_size: rows per gradient step (all rows while there are fewer).
        batches: number of gradient steps per training phase.
        every: number of agent steps between two training phases.
    """

    def __init__(
        self, capacity: int = 4096, *, batch_size: int = 64, batches: int = 1, every: int = 1
    ) -> None:
        self.capacity, self.batch_size = capacity, batch_size
        self.batches, self.every = batches, every
        for name, value in self.config().items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.inputs = self.targets = torch.empty(0)
        self._held = self._next = self._seen = self._steps = 0

    def __len__(self) -> int:
        """Return the number of observations in the buffer."""
        return self._held

    def config(self) -> dict[str, Any]:
        """Return the constructor arguments as JSON values."""
        names = ("capacity", "batch_size", "batches", "every")
        return {name: getattr(self, name) for name in names}

    def add(self, x: Tensor, y: Tensor) -> None:
        """Append rows of inputs and their targets, in the order in which they were observed."""
        x, y = x[-self.capacity :], y[-self.capacity :]
        self.inputs, self.targets = self._roomy(self.inputs, x), self._roomy(self.targets, y)
        places = (self._next + torch.arange(len(x))) % self.capacity
        self.inputs[places], self.targets[places] = x, y
        self._next = (self._next + len(x)) % self.capacity
        self._held = min(self._held + len(x), self.capacity)

    def _roomy(self, memory: Tensor, rows: Tensor) -> Tensor:
        """Return a tensor with space for the new rows; its size doubles up to ``capacity``."""
        needed = min(self._held + len(rows), self.capacity)
        if self._held and needed <= len(memory):
            return memory
        size = min(max(needed, 2 * self._held, _FIRST_ROWS), self.capacity)
        larger = rows.new_zeros(size, *rows.shape[1:])
        if self._held:
            larger[: self._held] = memory[: self._held]
        return larger

    def rehearse(self, learner: Learner, generator: torch.Generator) -> None:
        """Count one agent step; in every ``every``-th step, train on ``batches`` batches."""
        self._steps = (self._steps + 1) % self.every
        if self._steps == 0:
            self._learn(learner, generator)
        if learner.fitted:
            learner.method.step_schedule(learner.state)

    def _learn(self, learner: Learner, generator: torch.Generator) -> None:
        rows, size = self._held, min(self.batch_size, self._held)
        batches = -(-rows // size)
        for _ in range(self.batches):
            chosen = torch.randint(rows, (size,), generator=generator)
            number = self._seen // size % batches
            position = Position(size / rows, 0.0, number, batches)
            learner.learn_batch(self.inputs[chosen], self.targets[chosen], position)
            self._seen += size
            if self._seen >= rows:
                self._seen = 0
                learner.method.renew_noise(learner.state)
                held = Rows(self.inputs[:rows], self.targets[:rows], size)
                learner.method.end_fit(learner.state, held)

    # --- state -----------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """Return named tensors and JSON values for ``restore``."""
        if not self._held:
            return {}, {}
        tensors = {"inputs": self.inputs[: self._held], "targets": self.targets[: self._held]}
        return tensors, {"next": self._next, "seen": self._seen, "steps": self._steps}

    def restore(self, tensors: dict[str, Tensor], values: dict[str, int]) -> None:
        """Restore the buffer from the return values of ``state``."""
        self._held = self._next = self._seen = self._steps = 0
        if tensors:
            rows, last = len(tensors["inputs"]), self.capacity - 1
            self.add(tensors["inputs"], tensors["targets"])
            self._next = at_most(values["next"], last if rows > last else rows, "next")
            self._seen = at_most(values["seen"], rows, "seen")
            self._steps = at_most(values["steps"], self.every - 1, "steps")
