"""The bilinear maps of torch: linear, convolution, matrix product, elementwise product."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tractable.moments.bilinear import BackwardParts, Needs


@dataclass(frozen=True)
class Linear:
    """``z = x w^T + b`` over the last dimension, as ``F.linear``."""

    def apply(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        """See ``BilinearMap``."""
        return F.linear(x, w, b)

    def pull(self, d: Tensor, x: Tensor, w: Tensor, needs: Needs) -> BackwardParts:
        """See ``BilinearMap``."""
        to_x = d @ w if needs[0] else None
        if d.ndim != 2:
            d, x = d.reshape(-1, d.shape[-1]), x.reshape(-1, x.shape[-1])
        to_w = d.t() @ x if needs[1] else None
        return to_x, to_w, d.sum(0) if needs[2] else None


@dataclass(frozen=True)
class Convolution:
    """``F.conv1d/2d/3d`` and their transposes, on batched input."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    transposed: bool = False
    output_padding: tuple[int, ...] = ()

    def _geometry(self) -> tuple[list[int], list[int], list[int], bool, list[int], int]:
        output_padding = list(self.output_padding) or [0] * len(self.stride)
        return (
            list(self.stride),
            list(self.padding),
            list(self.dilation),
            self.transposed,
            output_padding,
            self.groups,
        )

    def apply(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        """See ``BilinearMap``."""
        return torch.ops.aten.convolution(x, w, b, *self._geometry())

    def pull(self, d: Tensor, x: Tensor, w: Tensor, needs: Needs) -> BackwardParts:
        """See ``BilinearMap``."""
        channels = d.shape[1]
        to_x, to_w, to_b = torch.ops.aten.convolution_backward(
            d, x, w, [channels], *self._geometry(), list(needs)
        )
        return (
            to_x if needs[0] else None,
            to_w if needs[1] else None,
            to_b if needs[2] else None,
        )


@dataclass(frozen=True)
class MatMul:
    """``x @ w`` with broadcasting over the leading dimensions; both at least matrices."""

    def apply(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        """See ``BilinearMap``."""
        z = x @ w
        return z if b is None else z + b

    def pull(self, d: Tensor, x: Tensor, w: Tensor, needs: Needs) -> BackwardParts:
        """See ``BilinearMap``."""
        to_x = (d @ w.mT).sum_to_size(x.shape) if needs[0] else None
        to_w = (x.mT @ d).sum_to_size(w.shape) if needs[1] else None
        return to_x, to_w, d if needs[2] else None


@dataclass(frozen=True)
class Multiply:
    """``x * w`` entry by entry, with broadcasting."""

    def apply(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        """See ``BilinearMap``."""
        z = x * w
        return z if b is None else z + b

    def pull(self, d: Tensor, x: Tensor, w: Tensor, needs: Needs) -> BackwardParts:
        """See ``BilinearMap``."""
        to_x = (d * w).sum_to_size(x.shape) if needs[0] else None
        to_w = (d * x).sum_to_size(w.shape) if needs[1] else None
        return to_x, to_w, d if needs[2] else None


@dataclass(frozen=True)
class Scale:
    """``x * w + b``, where w and b have one number for each channel (or feature) of x.

    Attributes:
        shape: that of w and b beside x, of size one where they are the same for all.
    """

    shape: tuple[int, ...]

    def beside(self, w: Tensor) -> Tensor:
        """A weight or bias in its shape beside x."""
        return w.reshape(self.shape)

    def apply(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        """See ``BilinearMap``."""
        z = x * self.beside(w)
        return z if b is None else z.add_(self.beside(b))

    def pull(self, d: Tensor, x: Tensor, w: Tensor, needs: Needs) -> BackwardParts:
        """See ``BilinearMap``."""
        to_x = d * self.beside(w) if needs[0] else None
        to_w = (d * x).sum_to_size(self.shape).reshape(w.shape) if needs[1] else None
        to_b = d.sum_to_size(self.shape).reshape(w.shape) if needs[2] else None
        return to_x, to_w, to_b
