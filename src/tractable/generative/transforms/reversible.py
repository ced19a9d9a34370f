"""Reversible residual blocks: two halves, each moved by what the other says."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tractable.generative.transforms.base import RowTransform
from tractable.generative.transforms.residual import Map


class ReversibleTransform(RowTransform):
    """``a' = a + f(b)``, ``b' = b + g(a')`` (E 16.18-16.19): any f and g, and no change of volume.

    Args:
        f: from the second half to a shift of the first.
        g: from the first half to a shift of the second.
        first: columns of the first half.
    """

    def __init__(self, f: Map, g: Map, first: int) -> None:
        super().__init__()
        self.f, self.g, self.first = f, g, first

    def call_and_ladj(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """See ``RowTransform``."""
        a, b = x[..., : self.first], x[..., self.first :]
        a = a + self.f(b)
        b = b + self.g(a)
        return torch.cat([a, b], -1), torch.zeros_like(x[..., 0])

    def _inverse(self, y: Tensor) -> Tensor:
        a, b = y[..., : self.first], y[..., self.first :]
        b = b - self.g(a)
        return torch.cat([a - self.f(b), b], -1)


class Reversible(nn.Module):
    """A reversible block that is learnt.

    Args:
        columns: number of columns, at least two.
        hidden: width of the hidden layer of both shifts.
    """

    def __init__(self, columns: int, hidden: int = 32) -> None:
        super().__init__()
        if columns < 2:
            raise ValueError(f"two halves need at least 2 columns, got {columns}")
        self.first = columns // 2
        rest = columns - self.first
        self.f = nn.Sequential(nn.Linear(rest, hidden), nn.Tanh(), nn.Linear(hidden, self.first))
        self.g = nn.Sequential(nn.Linear(self.first, hidden), nn.Tanh(), nn.Linear(hidden, rest))

    def forward(self, context: Tensor | None = None) -> ReversibleTransform:
        """The transform; a context has no effect."""
        return ReversibleTransform(self.f, self.g, self.first)
