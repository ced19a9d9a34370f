"""Receptive field of each layer, computed from the executed operations.

The network is run once.  Every torch function that mixes positions (convolutions, pooling) or keeps
them (activations, sums, concatenations of channels) sets the receptive field of its output: the
size of a window of positions and the stride between windows.  A sum of branches has the largest
window.  The field is unknown after any other function.

Exact: for the functions named, away from the border, where padding truncates windows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


@dataclass(frozen=True)
class ReceptiveField:
    """Receptive field of a position of a layer, by spatial dimension.

    Attributes:
        size: number of input positions in the window.
        stride: number of input positions between the windows of adjacent outputs.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]

    def after(
        self, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
    ) -> ReceptiveField:
        """Return the receptive field after a window with these parameters."""
        size = tuple(
            s + (k - 1) * d * j
            for s, j, k, d in zip(self.size, self.stride, kernel, dilation, strict=True)
        )
        return ReceptiveField(size, tuple(j * s for j, s in zip(self.stride, stride, strict=True)))

    @classmethod
    def widest(cls, fields: Sequence[ReceptiveField]) -> ReceptiveField | None:
        """Return the receptive field of a sum of branches; None if their strides differ."""
        if len({field.stride for field in fields}) != 1:
            return None
        sizes = zip(*(field.size for field in fields), strict=True)
        return cls(tuple(max(group) for group in sizes), fields[0].stride)


_CONVOLUTIONS: dict[Any, int] = {F.conv1d: 1, F.conv2d: 2, F.conv3d: 3}
_POOLS: dict[Any, int] = {
    F.max_pool1d: 1, F.max_pool2d: 2, F.max_pool3d: 3,
    F.avg_pool1d: 1, F.avg_pool2d: 2, F.avg_pool3d: 3,
}  # fmt: skip
_POSITIONWISE = set(
    "relu relu_ leaky_relu leaky_relu_ elu elu_ selu celu gelu silu mish hardswish hardsigmoid "
    "hardtanh relu6 softplus softsign tanh sigmoid logsigmoid prelu threshold dropout dropout1d "
    "dropout2d alpha_dropout batch_norm add sub mul div add_ sub_ mul_ div_ __add__ __radd__ "
    "__iadd__ __mul__ __rmul__ __sub__ __truediv__ clamp abs neg exp cat contiguous clone "
    "identity square sqrt pow".split()
)
"""Names of functions that keep every position where it is."""


class ReceptiveFieldMode(TorchFunctionMode):
    """Mode that tracks the receptive field of every tensor created inside the block.

    Args:
        x: the input, ``[rows, channels, positions...]``.
    """

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        ones = (1,) * (x.ndim - 2)
        self.known: dict[int, tuple[Tensor, ReceptiveField]] = {
            id(x): (x, ReceptiveField(ones, ones))
        }

    def field_of(self, tensor: Any) -> ReceptiveField | None:
        """Return the receptive field of a tensor, or None if it is unknown."""
        found = self.known.get(id(tensor))
        return None if found is None else found[1]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function, and record the receptive field of its output."""
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        field = self._after(func, args, kwargs, out)
        if field is not None and isinstance(out, Tensor) and out.ndim == 2 + len(field.size):
            self.known[id(out)] = (out, field)  # keep the tensor, so that its id is not reused
        return out

    def _after(self, func: Any, args: Any, kwargs: Any, out: Any) -> ReceptiveField | None:
        dims = _CONVOLUTIONS.get(func) or _POOLS.get(func)
        if dims is not None:
            before = self.field_of(args[0])
            return None if before is None else before.after(*_window(func, dims, args, kwargs))
        if getattr(func, "__name__", "") not in _POSITIONWISE or not isinstance(out, Tensor):
            return None
        if func is torch.cat and kwargs.get("dim", args[1] if len(args) > 1 else 0) not in (1,):
            return None
        parts = args[0] if func is torch.cat else args
        tensors = [part for part in parts if isinstance(part, Tensor) and part.ndim == out.ndim]
        fields = [self.field_of(part) for part in tensors]
        known = [field for field in fields if field is not None]
        return ReceptiveField.widest(known) if known and len(known) == len(fields) else None


def _window(
    func: Callable[..., Any], dims: int, args: Any, kwargs: Any
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return kernel size, stride and dilation of a call."""
    if func in _CONVOLUTIONS:
        names = ["input", "weight", "bias", "stride", "padding", "dilation", "groups"]
    elif "max" in func.__name__:
        names = ["input", "kernel_size", "stride", "padding", "dilation", "ceil_mode"]
    else:
        names = ["input", "kernel_size", "stride", "padding", "ceil_mode"]
    given = dict(zip(names, args, strict=False)) | kwargs
    if func in _CONVOLUTIONS:
        kernel = tuple(given["weight"].shape[2:])
        stride = given.get("stride", 1)
    else:
        kernel = _each(given["kernel_size"], dims)
        stride = given.get("stride") or kernel
    return kernel, _each(stride, dims), _each(given.get("dilation", 1), dims)


def _each(value: Any, dims: int) -> tuple[int, ...]:
    found = tuple(value) if isinstance(value, list | tuple) else (value,)
    return found * dims if len(found) == 1 else found
