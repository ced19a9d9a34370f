"""Elementwise transforms: piecewise linear, square-root bins, leaky ReLU."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from typing_extensions import override

from tractable.generative.transforms.base import RowTransform


class PiecewiseLinearTransform(RowTransform):
    """A piecewise linear map of [0, 1] to itself with K even bins (E 16.12).

    ``f(h) = sum of phi_k below bin b, plus (K h - b + 1) phi_b`` with ``b = floor(K h) + 1``, and
    the last bin at ``h = 1``; the slope is ``K phi_b``.  Outside [0, 1] it is the identity.

    Args:
        heights: positive, with sum 1, ``[..., columns, K]`` or ``[K]``.
    """

    def __init__(self, heights: Tensor) -> None:
        super().__init__()
        self.heights = heights

    def _bins(self, shape: torch.Size) -> tuple[Tensor, Tensor]:
        heights = self.heights.expand(*shape, self.heights.shape[-1])
        below = heights.cumsum(-1) - heights
        return heights, below

    @override
    def call_and_ladj(self, x: Tensor) -> tuple[Tensor, Tensor]:
        heights, below = self._bins(x.shape)
        number = heights.shape[-1]
        inside = (x >= 0) & (x <= 1)
        h = torch.where(inside, x, torch.zeros_like(x))
        b = (number * h).floor().long().clamp(0, number - 1).unsqueeze(-1)
        height, low = (part.gather(-1, b).squeeze(-1) for part in (heights, below))
        y = low + (number * h - b.squeeze(-1)) * height
        log_slope = torch.where(inside, (number * height).log(), torch.zeros_like(x))
        return torch.where(inside, y, x), log_slope.sum(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        heights, below = self._bins(y.shape)
        number = heights.shape[-1]
        inside = (y >= 0) & (y <= 1)
        h = torch.where(inside, y, torch.zeros_like(y))
        b = (h.unsqueeze(-1) >= below).sum(-1, keepdim=True) - 1
        b = b.clamp(0, number - 1)
        height, low = (part.gather(-1, b).squeeze(-1) for part in (heights, below))
        x = (b.squeeze(-1) + (h - low) / height) / number
        return torch.where(inside, x, y)


class PiecewiseLinear(nn.Module):
    """Trainable piecewise linear maps of every column, on the box from ``-bound`` to ``bound``.

    Args:
        columns: number of columns.
        bins: number of bins of each column.
        bound: half-width of the box; outside, the map is the identity.
    """

    def __init__(self, columns: int, bins: int = 8, bound: float = 5.0) -> None:
        super().__init__()
        if bins < 2 or not bound > 0:
            raise ValueError(f"bins must be at least 2 and bound positive, got {bins} and {bound}")
        self.logits = nn.Parameter(torch.zeros(columns, bins))
        self.bound = bound

    def reset_parameters(self) -> None:
        """Reset to the identity."""
        nn.init.zeros_(self.logits)

    def forward(self, context: Tensor | None = None) -> _Boxed:
        """Return the transform; the context is ignored."""
        return _Boxed(PiecewiseLinearTransform(self.logits.softmax(-1)), self.bound)


class _Boxed(RowTransform):
    """A transform of [0, 1] on the box from ``-bound`` to ``bound``; the scalings cancel."""

    def __init__(self, inner: PiecewiseLinearTransform, bound: float) -> None:
        super().__init__()
        self.inner, self.bound = inner, bound

    def call_and_ladj(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, log_det = self.inner.call_and_ladj((x / self.bound + 1) / 2)
        return (2 * y - 1) * self.bound, log_det

    def _inverse(self, y: Tensor) -> Tensor:
        return (2 * self.inner.inv((y / self.bound + 1) / 2) - 1) * self.bound


class SquareRootTransform(RowTransform):
    """Square-root bins (E 16.33), from [0, 1] to [0, sum of sqrt(phi)].

    ``f(h) = sum of sqrt(phi_k) below bin b, plus sqrt((K h - b + 1) phi_b)``, strictly increasing
    and continuous; its slope is infinite at the lower end of every bin.

    Args:
        heights: positive, ``[K]``.
    """

    def __init__(self, heights: Tensor) -> None:
        super().__init__()
        self.heights = heights

    @override
    def call_and_ladj(self, x: Tensor) -> tuple[Tensor, Tensor]:
        number = len(self.heights)
        root = self.heights.sqrt()
        b = (number * x).floor().long().clamp(0, number - 1)
        part = number * x - b
        y = (root.cumsum(0) - root)[b] + (part * self.heights[b]).sqrt()
        slope = 0.5 * number * self.heights[b].sqrt() / part.sqrt()
        return y, slope.log().sum(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        number = len(self.heights)
        root = self.heights.sqrt()
        low = root.cumsum(0) - root
        b = ((y.unsqueeze(-1) >= low).sum(-1) - 1).clamp(0, number - 1)
        return (b + (y - low[b]) ** 2 / self.heights[b]) / number


class LeakyReLUTransform(RowTransform):
    """``x`` where it is positive, ``slope * x`` where it is negative (B 16.7).

    Args:
        slope: slope for negative values, positive.
    """

    def __init__(self, slope: float = 0.1) -> None:
        super().__init__()
        if not slope > 0:
            raise ValueError(f"slope must be positive, or there is no inverse: got {slope}")
        self.slope = slope

    @override
    def call_and_ladj(self, x: Tensor) -> tuple[Tensor, Tensor]:
        negative = x < 0
        number = negative.to(x.dtype).sum(-1)  # as the dtype of the rows, for the product
        return torch.where(negative, self.slope * x, x), number * math.log(self.slope)

    def _inverse(self, y: Tensor) -> Tensor:
        return torch.where(y < 0, y / self.slope, y)
