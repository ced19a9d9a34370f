"""Checks of inputs and targets against the network and the likelihood of a learner."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from tractable.errors import InvalidInput
from tractable.learners.off_data.reservoir import ReservoirLoader
from tractable.training import holdout
from tractable.training.data import ArrayData, LoaderData, TensorFormat
from tractable.training.inputs import Inputs, input_signature, tensors_of

if TYPE_CHECKING:
    from tractable.learners.learner import Learner

_PROBE_ROWS = 2  # the smallest number that shows whether there is one output per row


class InputChecks:
    """The checks of a learner's inputs and targets.

    Args:
        learner: the learner; its network and likelihood determine what is valid.
        format: dtype and device of the tensors.

    Attributes:
        format: dtype, device and the treatment of integers.
        flat_targets: whether targets were passed as a vector; None before the first targets.
        rows_apart: False after the network failed on part of a batch, so that it needs all rows
            of a batch together.
        output_shapes: shape of the output for one row, by signature of the inputs.
    """

    def __init__(self, learner: Learner, format: TensorFormat) -> None:
        self.learner, self.format = learner, format
        self.flat_targets: bool | None = None
        self.rows_apart = True
        self.output_shapes: dict[tuple[Any, ...], torch.Size] = {}

    def data(self, X: Any, y: Any) -> tuple[Inputs, Tensor]:
        """Return inputs and targets as tensors, or raise ``InvalidInput`` or ``InvalidTarget``."""
        x, targets = self.inputs(X), self.format.targets(y)
        if targets.shape[:1] != (len(x),):
            raise InvalidInput(
                f"inputs have {len(x)} rows and targets have "
                f"{targets.shape[0] if targets.ndim else 'none'}: numbers of rows must be equal"
            )
        outputs = self.output_shape(x)
        checked = self.learner.state.likelihood.check_targets(targets, outputs)
        if self.flat_targets is None:
            self.flat_targets = targets.ndim == 1
        return x, checked

    def inputs(self, X: Any) -> Inputs:
        """Return inputs as tensors that the network accepts, or raise ``InvalidInput``.

        Floating-point inputs are converted to the learner's dtype.  Integers and booleans stay as
        they are for a network with embeddings.  For other networks they are converted to floating
        point, unless the network accepts integers only.  A network that uses inputs as indices may
        define ``check_rows(x)``, which raises an error for invalid indices.
        """
        x = self.tensors(X)
        try:
            self.output_shape(x)
        except InvalidInput:
            integer_format = replace(self.format, integers=True)
            unconverted = integer_format.inputs(X)
            if (
                self.format.integers
                or input_signature(unconverted) == input_signature(x)
                or not self._accepts(unconverted)
            ):
                raise
            self.format = integer_format
            return unconverted
        return x

    def _accepts(self, x: Inputs) -> bool:
        try:
            self.output_shape(x)
        except InvalidInput:
            return False
        return True

    def tensors(self, X: Any) -> Inputs:
        """Return inputs as finite tensors, without running the network."""
        x = self.format.inputs(X)
        check = getattr(self.learner.net, "check_rows", None)
        if check is not None:
            check(x)
        return x

    def output_shape(self, x: Inputs) -> torch.Size:
        """Return the shape of the network's output for these rows, or raise ``InvalidInput``."""
        key = self._cache_key(x)
        if key not in self.output_shapes:
            try:
                # The probe gets its own cache, because it must not extend that of a language model.
                cache = getattr(self.learner.net, "kv_cache", nullcontext)
                with self.learner.lock, cache():
                    shape = self._probe(x)
            except (RuntimeError, IndexError, InvalidInput) as error:
                shapes = ", ".join(str(tuple(part.shape)) for part in tensors_of(x))
                raise InvalidInput(
                    f"the network cannot process inputs of shape {shapes}: {error}"
                ) from error
            key = self._cache_key(x)  # the probe may have changed rows_apart
            self.output_shapes[key] = shape[1:]
        return torch.Size([len(x), *self.output_shapes[key]])

    def _cache_key(self, x: Inputs) -> tuple[Any, ...]:
        return input_signature(x) if self.rows_apart else (len(x), *input_signature(x))

    def _probe(self, x: Inputs) -> torch.Size:
        """Run the network on two rows, or on all rows if it needs them together."""
        method, state = self.learner.method, self.learner.state
        try:
            shape: torch.Size = method.output_shape(state, x[:_PROBE_ROWS])
        except (RuntimeError, IndexError, InvalidInput) as error:
            if len(x) > _PROBE_ROWS and method.by_rows:
                raise InvalidInput(
                    f"this learner runs the network on single rows, which failed: {error}"
                ) from error
            if len(x) <= _PROBE_ROWS:
                raise
            try:
                shape = method.output_shape(state, x)
            except (RuntimeError, IndexError, InvalidInput):
                raise error from None
            self.rows_apart = False
        return shape

    def calibration(self, source: ArrayData | LoaderData) -> None:
        """Raise an error if the noise cannot be calibrated on held-out rows."""
        holdout.check_can_calibrate(self.learner.likelihood, source)
        if not self.rows_apart:
            raise InvalidInput(
                "calibrate=True holds out rows, but the network needs all rows of a batch "
                "together: use calibrate=False"
            )

    def batches(
        self, X: Any, y: Any, batch_size: int | None, *, watch: bool = False
    ) -> ArrayData | LoaderData:
        """Return the rows of a fit in batches; with ``watch``, keep a sample of a loader's rows."""
        if isinstance(X, DataLoader):
            if y is not None or batch_size is not None:
                raise ValueError(
                    "a DataLoader yields targets and batches: call fit(loader) without y and "
                    "batch_size"
                )
            loader = LoaderData(X, self.inputs, self.format)
            return ReservoirLoader(loader, self.learner.seed) if watch else loader
        if y is None:
            raise ValueError("y is None, expected targets: call fit(X, y)")
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise ValueError(f"batch_size must be an integer of at least 1, got {batch_size!r}")
        x, targets = self.data(X, y)
        if batch_size is None:
            batch_size = min(max(len(x) // 100, 1), 32) if self.rows_apart else len(x)
        return ArrayData(x, targets, batch_size)
