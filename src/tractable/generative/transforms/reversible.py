"""Reversible residual blocks: two halves of a row, each shifted by a function of the other."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from typing_extensions import override

from tractable.generative.transforms.base import RowTransform
from tractable.generative.transforms.residual import Map


class ReversibleTransform(RowTransform):
    """``a' = a + f(b)``, ``b' = b + g(a')`` (E 16.18-16.19), with any f and g.

    The volume is preserved.

    Args:
        f: from the second half to a shift of the first.
        g: from the first half to a shift of the second.
        first: number of columns of the first half.
    """

    def __init__(self, f: Map, g: Map, first: int) -> None:
        super().__init__()
        self.f, self.g, self.first = f, g, first

    @override
    def call_and_ladj(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = x[..., : self.first], x[..., self.first :]
        a = a + self.f(b)
        b = b + self.g(a)
        return torch.cat([a, b], -1), torch.zeros_like(x[..., 0])

    def _inverse(self, y: Tensor) -> Tensor:
        a, b = y[..., : self.first], y[..., self.first :]
        b = b - self.g(a)
        return torch.cat([a - self.f(b), b], -1)


class Reversible(nn.Module):
    """A trainable reversible block.

    Args:
        columns: number of columns, at least two.
        hidden_layer_size: width of the hidden layer of both networks.
    """

    def __init__(self, columns: int, hidden_layer_size: int = 32) -> None:
        super().__init__()
        if columns < 2:
            raise ValueError(f"columns must be at least 2, got {columns}")
        self.first = columns // 2
        rest = columns - self.first
        self.f = nn.Sequential(
            nn.Linear(rest, hidden_layer_size), nn.Tanh(), nn.Linear(hidden_layer_size, self.first)
        )
        self.g = nn.Sequential(
            nn.Linear(self.first, hidden_layer_size), nn.Tanh(), nn.Linear(hidden_layer_size, rest)
        )

    def forward(self, context: Tensor | None = None) -> ReversibleTransform:
        """Return the transform; the context is ignored."""
        return ReversibleTransform(self.f, self.g, self.first)
