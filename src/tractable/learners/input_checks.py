"""What users hand over to a learner, checked against its network and its likelihood."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from tractable.errors import InvalidInput
from tractable.learners.holder import Holder
from tractable.learners.off_data.reservoir import ReservoirLoader
from tractable.training import holdout
from tractable.training.data import ArrayData, LoaderData
from tractable.training.inputs import Inputs, input_signature, tensors_of

_FEW = 2  # rows: enough to see that there is an output for each


class Checking(Holder):
    """A holder that knows what its network takes; ``Learner`` adds how it learns."""

    def checked(self, X: Any, y: Any) -> tuple[Inputs, Tensor]:
        """Inputs the network takes and targets the likelihood may have produced."""
        x, targets = self.inputs(X), self.format.targets(y)
        if targets.shape[:1] != (len(x),):
            raise InvalidInput(
                f"inputs have {len(x)} rows and targets "
                f"{targets.shape[0] if targets.ndim else 'none'}"
            )
        outputs = self.output_shape(x)
        checked = self.state.likelihood.targets(targets, outputs)
        if self.flat_targets is None:
            self.flat_targets = targets.ndim == 1
        return x, checked

    def inputs(self, X: Any) -> Inputs:
        """Inputs that the network takes, as tensors, or an error that says why it does not.

        Floating point inputs get the learner's precision.  Integers and truth values stay what
        they are for a network with embeddings; else they become floating point numbers, if the
        network takes them so, and stay what they are if that is what it takes.  A network that
        looks something up may have a method ``check_rows``, which refuses rows that are not there.
        """
        x = self.format.inputs(X)
        check = getattr(self.net, "check_rows", None)
        if check is not None:
            check(x)
        try:
            self.output_shape(x)
        except InvalidInput:
            whole = replace(self.format, integers=True)
            again = whole.inputs(X)
            if (
                self.format.integers
                or input_signature(again) == input_signature(x)
                or not self._takes(again)
            ):
                raise
            self.format = whole
            return again
        return x

    def _takes(self, x: Inputs) -> bool:
        try:
            self.output_shape(x)
        except InvalidInput:
            return False
        return True

    def output_shape(self, x: Inputs) -> torch.Size:
        """Shape of the network's output for these rows; says so if it cannot take them."""
        kind = self._form(x)
        if kind not in self.shapes_known:
            try:
                with self.lock:
                    shape = self._probe(x)
            except (RuntimeError, IndexError, InvalidInput) as error:
                shapes = ", ".join(str(tuple(part.shape)) for part in tensors_of(x))
                raise InvalidInput(
                    f"the network cannot take inputs of shape {shapes}: {error}"
                ) from error
            kind = self._form(x)  # the network may have turned out to need rows together
            self.shapes_known[kind] = shape[1:]
        return torch.Size([len(x), *self.shapes_known[kind]])

    def _form(self, x: Inputs) -> tuple[Any, ...]:
        return input_signature(x) if self.rows_apart else (len(x), *input_signature(x))

    def _probe(self, x: Inputs) -> torch.Size:
        """Run the network on two rows; on all of them, if it needs them together."""
        try:
            shape: torch.Size = self.method.output_shape(self.state, x[:_FEW])
        except (RuntimeError, IndexError, InvalidInput) as error:
            if len(x) > _FEW and self.method.by_rows:
                raise InvalidInput(f"one row at a time, as this learner needs, {error}") from error
            if len(x) <= _FEW:
                raise
            try:
                shape = self.method.output_shape(self.state, x)
            except (RuntimeError, IndexError, InvalidInput):
                raise error from None
            self.rows_apart = False
        return shape

    def check_hold_out(self, source: ArrayData | LoaderData) -> None:
        """Refuse what cannot be calibrated on rows held out, before anything is learnt."""
        holdout.check_can_calibrate(self.likelihood, source)
        if not self.rows_apart:
            raise InvalidInput("calibrate holds rows out, and the network needs all of them")

    def source(
        self, X: Any, y: Any, batch_size: int | None, *, watch: bool = False
    ) -> ArrayData | LoaderData:
        """The rows of a fit; ``watch`` keeps some of those that a loader brings."""
        if isinstance(X, DataLoader):
            if y is not None or batch_size is not None:
                raise ValueError("a DataLoader brings its own targets and batches")
            loader = LoaderData(X, self.inputs, self.format)
            return ReservoirLoader(loader, self.seed) if watch else loader
        if y is None:
            raise ValueError("fit needs targets: fit(X, y)")
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise ValueError(f"batch_size must be a whole number from 1, got {batch_size!r}")
        x, targets = self.checked(X, y)
        if batch_size is None:
            batch_size = min(max(len(x) // 100, 1), 32) if self.rows_apart else len(x)
        return ArrayData(x, targets, batch_size)
