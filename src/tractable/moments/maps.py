"""The bilinear maps of torch: linear layer, convolution, matrix product, elementwise product."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import override

from tractable.moments.bilinear import BackwardParts, BilinearMap, Needs


@dataclass(frozen=True)
class LinearMap(BilinearMap):
    """``z = x w^T + b`` over the last dimension, as ``F.linear``."""

    @override
    def apply(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        return F.linear(x, w, b)

    @override
    def pull(self, d: Tensor, x: Tensor, w: Tensor, needs: Needs) -> BackwardParts:
        to_x = d @ w if needs[0] else None
        if d.ndim != 2:
            d, x = d.reshape(-1, d.shape[-1]), x.reshape(-1, x.shape[-1])
        to_w = d.t() @ x if needs[1] else None
        return to_x, to_w, d.sum(0) if needs[2] else None


@dataclass(frozen=True)
class Convolution(BilinearMap):
    """``F.conv1d/2d/3d`` and their transposes, for batched inputs.

    Attributes:
        stride: stride of each dimension.
        padding: padding of each dimension.
        dilation: dilation of each dimension.
        groups: number of groups.
        transposed: whether it is a transposed convolution.
        output_padding: output padding of each dimension, of a transposed one.
    """

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

    @override
    def apply(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        return torch.ops.aten.convolution(x, w, b, *self._geometry())

    @override
    def pull(self, d: Tensor, x: Tensor, w: Tensor, needs: Needs) -> BackwardParts:
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
class MatMul(BilinearMap):
    """``x @ w`` with broadcasting over the leading dimensions; both are at least matrices."""

    @override
    def apply(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        z = x @ w
        return z if b is None else z + b

    @override
    def pull(self, d: Tensor, x: Tensor, w: Tensor, needs: Needs) -> BackwardParts:
        to_x = (d @ w.mT).sum_to_size(x.shape) if needs[0] else None
        to_w = (x.mT @ d).sum_to_size(w.shape) if needs[1] else None
        return to_x, to_w, d if needs[2] else None


@dataclass(frozen=True)
class Multiply(BilinearMap):
    """``x * w`` entry by entry, with broadcasting."""

    @override
    def apply(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        z = x * w
        return z if b is None else z + b

    @override
    def pull(self, d: Tensor, x: Tensor, w: Tensor, needs: Needs) -> BackwardParts:
        to_x = (d * w).sum_to_size(x.shape) if needs[0] else None
        to_w = (d * x).sum_to_size(w.shape) if needs[1] else None
        return to_x, to_w, d if needs[2] else None


@dataclass(frozen=True)
class Scale(BilinearMap):
    """``x * w + b``, where w and b have one number for each channel or feature of x.

    Attributes:
        shape: shape of w and b that broadcasts to x, for example ``[1, channels, 1, 1]``.
    """

    shape: tuple[int, ...]

    def broadcastable(self, w: Tensor) -> Tensor:
        """Return a weight or bias in the shape that broadcasts to x."""
        return w.reshape(self.shape)

    @override
    def apply(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        z = x * self.broadcastable(w)
        return z if b is None else z.add_(self.broadcastable(b))

    @override
    def pull(self, d: Tensor, x: Tensor, w: Tensor, needs: Needs) -> BackwardParts:
        to_x = d * self.broadcastable(w) if needs[0] else None
        to_w = (d * x).sum_to_size(self.shape).reshape(w.shape) if needs[1] else None
        to_b = d.sum_to_size(self.shape).reshape(w.shape) if needs[2] else None
        return to_x, to_w, to_b
