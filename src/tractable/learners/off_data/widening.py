"""Wider predictions away from the training rows, and the rows that a learner keeps for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tractable.learners.off_data.reservoir import kept_rows
from tractable.learners.off_data.support import (
    MAX_LABEL_COLUMNS,
    TrainingSupport,
    max_kept_rows,
)
from tractable.learners.outputs import Outputs
from tractable.predictive import Predictive
from tractable.training.data import ArrayData, LoaderData
from tractable.training.inputs import Inputs, distance_input

if TYPE_CHECKING:
    from tractable.learners.learner import Learner


class OffData:
    """What a learner keeps of its training rows, and how it widens predictions away from them.

    Args:
        learner: the learner.
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self._support: TrainingSupport | None = None
        self._later: list[Tensor] = []  # batches of updates since the support was read last
        self._waiting = 0  # rows in them

    @property
    def support(self) -> TrainingSupport | None:
        """Rows of the last ``fit`` and of later updates; None without a fit."""
        with self.learner.lock:
            if self._support is not None and self._later:
                self._support = self._support.joined(torch.cat(self._later))
            self._clear_later()
            return self._support

    @support.setter
    def support(self, found: TrainingSupport | None) -> None:
        with self.learner.lock:
            self._clear_later()
            self._support = found

    def _clear_later(self) -> None:
        self._later.clear()
        self._waiting = 0

    def remember(self, x: Inputs) -> None:
        """Note the rows of an update; they are compared with the kept rows when these are read.

        No more rows wait than a support keeps, which bounds the memory.
        """
        with self.learner.lock:
            at = None if self._support is None else distance_input(x)
            if self._support is None or at is None or not self._support.takes(at):
                return
            self._later.append(at.clone())
            self._waiting += len(at)
            if self._waiting >= max_kept_rows(self._support.event):
                self.support = self.support

    def fit(self, source: ArrayData | LoaderData) -> None:
        """Keep rows of a fit, with the slopes of the fitted function at them."""
        learner = self.learner
        kept = kept_rows(source, learner.seed) if learner.checks.rows_apart else None
        found = None if kept is None else TrainingSupport.from_rows(kept)
        labels = learner.likelihood.traits.has_labels
        many = labels and found is not None and found.rows.shape[1] > MAX_LABEL_COLUMNS
        if (
            found is not None
            and (learner.likelihood.traits.supports_extra_variance or labels)
            and not many
        ):
            found = found.with_slope(self.widened_function, learner.seed)
        self.support = found

    def widened_function(self, x: Tensor) -> Tensor:
        """Return what is widened: the predicted mean, or the mean output for labels."""
        outputs = self.learner.outputs(x)
        widens = self.learner.likelihood.traits.supports_extra_variance
        return outputs.predictive().mean if widens else outputs.moments()[0]

    def predictive(self, outputs: Outputs, x: Inputs) -> Predictive:
        """Return the predictive distribution of ``outputs``, wider away from the training rows."""
        at, known = distance_input(x), self.support
        if known is None or at is None or not known.takes(at):
            return outputs.predictive()
        novelty, extra = known.distance(at)
        if extra is None:
            return outputs.predictive().with_novelty(novelty)
        if self.learner.likelihood.traits.supports_extra_variance:
            return outputs.predictive().with_extra_variance(extra).with_novelty(novelty)
        return outputs.with_extra_variance(extra).predictive().with_novelty(novelty)
