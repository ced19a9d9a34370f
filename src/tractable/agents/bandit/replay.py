"""Replay buffer: recent experience on which a gradient-based learner is trained repeatedly.

At every step of the agent (or every second, third ... one), ``gradient_steps`` gradient steps are
made, each on rows drawn uniformly with replacement from the buffer.  The divergence from the prior
(or the log prior) is divided among the rows of the buffer: a batch of B rows out of N has the share
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

from tractable.learners import BatchPosition, Learner
from tractable.persistence.validation import require_at_most
from tractable.training.data import ArrayData

_FIRST_ROWS = 64  # initial size of the buffer, which then doubles up to its buffer_size


class BanditReplay:
    """Replay buffer with the latest ``buffer_size`` observations.

    Args:
        buffer_size: maximum number of observations; the oldest is overwritten.
        batch_size: rows per gradient step (all rows while there are fewer).
        gradient_steps: number of gradient steps per training phase.
        train_freq: number of agent steps between two training phases.
    """

    def __init__(
        self,
        buffer_size: int = 4096,
        *,
        batch_size: int = 64,
        gradient_steps: int = 1,
        train_freq: int = 1,
    ) -> None:
        self.buffer_size, self.batch_size = buffer_size, batch_size
        self.gradient_steps, self.train_freq = gradient_steps, train_freq
        for name, value in self.config().items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.inputs = self.targets = torch.empty(0)
        self._n_stored = self._position = self._n_trained = self._steps = 0

    def __len__(self) -> int:
        """Return the number of observations in the buffer."""
        return self._n_stored

    def config(self) -> dict[str, Any]:
        """Return the constructor arguments as JSON values."""
        names = ("buffer_size", "batch_size", "gradient_steps", "train_freq")
        return {name: getattr(self, name) for name in names}

    def add(self, x: Tensor, y: Tensor) -> None:
        """Append rows of inputs and their targets, in the order in which they were observed."""
        x, y = x[-self.buffer_size :], y[-self.buffer_size :]
        self.inputs, self.targets = (
            self._with_space(self.inputs, x),
            self._with_space(self.targets, y),
        )
        indices = (self._position + torch.arange(len(x))) % self.buffer_size
        self.inputs[indices], self.targets[indices] = x, y
        self._position = (self._position + len(x)) % self.buffer_size
        self._n_stored = min(self._n_stored + len(x), self.buffer_size)

    def _with_space(self, buffer: Tensor, rows: Tensor) -> Tensor:
        """Return a tensor with space for the new rows; its size doubles up to ``buffer_size``."""
        needed = min(self._n_stored + len(rows), self.buffer_size)
        if self._n_stored and needed <= len(buffer):
            return buffer
        size = min(max(needed, 2 * self._n_stored, _FIRST_ROWS), self.buffer_size)
        larger = rows.new_zeros(size, *rows.shape[1:])
        if self._n_stored:
            larger[: self._n_stored] = buffer[: self._n_stored]
        return larger

    def train(self, learner: Learner, generator: torch.Generator) -> None:
        """Count one agent step; in every ``train_freq``-th, train on ``gradient_steps`` batches."""
        self._steps = (self._steps + 1) % self.train_freq
        if self._steps == 0:
            self._train(learner, generator)
        if learner.fitted:
            learner.method.step_schedule(learner.state)

    def _train(self, learner: Learner, generator: torch.Generator) -> None:
        rows, size = self._n_stored, min(self.batch_size, self._n_stored)
        batches = -(-rows // size)
        for _ in range(self.gradient_steps):
            chosen = torch.randint(rows, (size,), generator=generator)
            number = self._n_trained // size % batches
            position = BatchPosition(size / rows, 0.0, number, batches)
            learner.learn_batch(self.inputs[chosen], self.targets[chosen], position)
            self._n_trained += size
            if self._n_trained >= rows:
                self._n_trained = 0
                learner.method.update_noise_from_statistics(learner.state)
                stored = ArrayData(self.inputs[:rows], self.targets[:rows], size)
                learner.method.end_fit(learner.state, stored)

    # --- state -----------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """Return named tensors and JSON values for ``restore``."""
        if not self._n_stored:
            return {}, {}
        tensors = {
            "inputs": self.inputs[: self._n_stored],
            "targets": self.targets[: self._n_stored],
        }
        return tensors, {
            "position": self._position,
            "n_trained": self._n_trained,
            "steps": self._steps,
        }

    def restore(self, tensors: dict[str, Tensor], values: dict[str, int]) -> None:
        """Restore the buffer from the return values of ``state``."""
        self._n_stored = self._position = self._n_trained = self._steps = 0
        if tensors:
            rows, last = len(tensors["inputs"]), self.buffer_size - 1
            self.add(tensors["inputs"], tensors["targets"])
            self._position = require_at_most(
                values["position"], last if rows > last else rows, "position"
            )
            self._n_trained = require_at_most(values["n_trained"], rows, "n_trained")
            self._steps = require_at_most(values["steps"], self.train_freq - 1, "steps")
