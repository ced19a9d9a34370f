"""Conversion of arrays, Gaussians and data loaders of users to checked tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from tractable.errors import InvalidInput
from tractable.gaussian import Gaussian
from tractable.likelihoods.targets import count_non_finite
from tractable.training.inputs import Inputs, MultiInput, map_inputs, multi_input_parts, tensors_of


@dataclass(frozen=True)
class TensorFormat:
    """The dtype and device of tensors; ``integers`` keeps integer inputs as integers."""

    dtype: torch.dtype
    device: torch.device
    integers: bool

    @classmethod
    def of(cls, net: nn.Module, dtype: torch.dtype, device: torch.device) -> TensorFormat:
        """Return the format for a network; integer inputs are indices for a network with
        embeddings.

        A network that uses integer inputs in another way sets ``integer_inputs = True``.  A network
        without embeddings that accepts only integers receives integers too; see
        ``InputChecks.inputs``.
        """
        embeds = any(isinstance(m, nn.Embedding | nn.EmbeddingBag) for m in net.modules())
        return cls(dtype, device, embeds or bool(getattr(net, "integer_inputs", False)))

    def inputs(self, x: Any) -> Inputs:
        """Return inputs as finite tensors on the device, or raise ``InvalidInput``."""
        taken = map_inputs(self._input, as_inputs(x))
        if len({len(part) for part in tensors_of(taken)}) != 1:
            raise InvalidInput(f"several inputs need the same number of rows each: got {taken}")
        return taken

    def _input(self, tensor: Tensor) -> Tensor:
        if isinstance(tensor, Gaussian):
            return tensor.to(device=self.device, dtype=self.dtype)
        if tensor.is_complex():
            raise InvalidInput(f"inputs must be real numbers, got {tensor.dtype}")
        if tensor.ndim == 0 or tensor.shape[0] == 0:
            raise InvalidInput(f"inputs need at least one row, got shape {tuple(tensor.shape)}")
        if tensor.is_floating_point() or not self.integers:
            tensor = tensor.to(self.device, self.dtype)
            if count_non_finite(tensor):
                bad = torch.nonzero(~torch.isfinite(tensor.reshape(tensor.shape[0], -1)))
                raise InvalidInput(
                    f"inputs have {len(bad)} NaN or infinite values, the first in row "
                    f"{int(bad[0, 0])}; TAGI takes missing values as a Gaussian with their mean "
                    f"and variance, and the estimators of tractable.sklearn infer them"
                )
            return tensor
        return tensor.to(self.device)

    def targets(self, y: Any) -> Tensor:
        """Return targets as a tensor on the device; floating-point targets get the learner's
        dtype.
        """
        if isinstance(y, Gaussian):
            return y.to(device=self.device, dtype=self.dtype)
        tensor = as_tensor(y, "targets")
        dtype = self.dtype if tensor.is_floating_point() else tensor.dtype
        return tensor.to(self.device, dtype)


def as_inputs(values: Any) -> Inputs:
    """Return inputs as a tensor, or as ``MultiInput`` for a tuple of arrays or a mapping."""
    parts = multi_input_parts(values)
    if parts is None:
        return as_tensor(values, "inputs")
    if isinstance(parts, dict):
        return MultiInput({str(k): as_tensor(v, f"inputs {k!r}") for k, v in parts.items()})
    return MultiInput(tuple(as_tensor(v, f"inputs {i}") for i, v in enumerate(parts)))


def as_tensor(values: Any, what: str) -> Tensor:
    """Return an array as a dense tensor; a ``Gaussian`` is returned unchanged."""
    if isinstance(values, Gaussian):
        return values
    if isinstance(values, Tensor):
        if values.layout != torch.strided:
            raise InvalidInput(f"{what} must be dense, got a tensor of layout {values.layout}")
        return values.detach()
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        raise InvalidInput(f"{what} have masked values: fill them in or leave such rows out")
    try:
        array = np.asarray(values)
        if array.dtype == object:
            raise TypeError("mixed or non-numeric entries")
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        return torch.from_numpy(np.ascontiguousarray(array).copy()).reshape(array.shape)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{what} must be a tensor or an array of numbers, got {type(values).__name__}: {error}"
        ) from error


class ArrayData:
    """Inputs and targets in memory, in batches."""

    def __init__(self, x: Inputs, y: Tensor, batch_size: int) -> None:
        self.x, self.y, self.batch_size = x, y, batch_size

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.x)

    @property
    def batches(self) -> int:
        """Number of batches per epoch."""
        return -(-len(self) // self.batch_size)

    def epoch(self, order: Tensor | None) -> Iterator[tuple[Inputs, Tensor]]:
        """Yield the batches of one epoch, with rows in the given order."""
        for start in range(0, len(self), self.batch_size):
            if order is None:
                chosen: Any = slice(start, start + self.batch_size)
            else:
                chosen = order[start : start + self.batch_size]
            yield self.x[chosen], self.y[chosen]


class LoaderData:
    """The batches of a torch ``DataLoader``, which determines their size and order.

    Args:
        loader: yields inputs and targets. Several inputs are a tuple, a list or a mapping, or are
            listed one after the other before the targets.
        taken: converts inputs to those of the network.
        format: converts targets to tensors.
    """

    def __init__(
        self, loader: DataLoader[Any], taken: Callable[[Any], Inputs], format: TensorFormat
    ) -> None:
        self.loader, self.taken, self.format = loader, taken, format

    def __len__(self) -> int:
        """Return the number of rows of the loader's data set."""
        try:
            return len(self.loader.dataset)  # type: ignore[arg-type]
        except TypeError as error:
            raise InvalidInput("the data loader must know the length of its data set") from error

    @property
    def batches(self) -> int:
        """Number of batches per epoch."""
        return len(self.loader)

    def epoch(self, order: Tensor | None) -> Iterator[tuple[Inputs, Tensor]]:
        """Yield the batches of one epoch."""
        for batch in self.loader:
            if not isinstance(batch, list | tuple) or len(batch) < 2:
                raise InvalidInput("the data loader must yield pairs (inputs, targets)")
            *given, y = batch
            x = tuple(given) if len(given) > 1 else given[0]
            if isinstance(x, list) and all(isinstance(part, Tensor) for part in x):
                x = tuple(x)  # torch collates tuples to lists
            yield self.taken(x), self.format.targets(y)
