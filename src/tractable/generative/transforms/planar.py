"""Planar transforms: a row moves along one direction, by how far it lies along another."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tractable.generative.transforms.base import RowTransform

_BISECTIONS = 60


class PlanarTransform(RowTransform):
    """``y = x + u tanh(w·x + b)`` (Rezende & Mohamed, 2015), with ``w·u >= -1``.

    Args:
        w: direction that is looked along.
        u: direction that is moved along; if ``w·u`` is below -1, it is moved to where there is an
            inverse.
        b: shift.
    """

    def __init__(self, w: Tensor, u: Tensor, b: Tensor) -> None:
        super().__init__()
        self.w, self.b = w, b
        along = (w * u).sum(-1, keepdim=True)
        wanted = F.softplus(along + math.log(math.e - 1)) - 1  # 0 stays 0, never below -1
        self.u = u + (wanted - along) * w / (w * w).sum(-1, keepdim=True).clamp(min=1e-12)

    def call_and_ladj(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """See ``RowTransform``."""
        h = torch.tanh((x * self.w).sum(-1, keepdim=True) + self.b)
        slope = (1 - h**2).squeeze(-1)
        along = (self.w * self.u).sum(-1)
        return x + self.u * h, (1 + slope * along).log()

    def _inverse(self, y: Tensor) -> Tensor:
        """By bisection along ``w``: ``s + w·u tanh(s + b) = w·y`` is increasing in s."""
        aim = (y * self.w).sum(-1, keepdim=True)
        along = (self.w * self.u).sum(-1, keepdim=True)
        low, high = aim - along.abs(), aim + along.abs()
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            above = middle + along * torch.tanh(middle + self.b) > aim
            low, high = torch.where(above, low, middle), torch.where(above, middle, high)
        return y - self.u * torch.tanh((low + high) / 2 + self.b)


class Planar(nn.Module):
    """A planar transform that is learnt.

    Args:
        columns: number of columns.
    """

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.empty(columns))
        self.u = nn.Parameter(torch.empty(columns))
        self.b = nn.Parameter(torch.empty(1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """A small move along a direction that is drawn."""
        nn.init.normal_(self.w, std=1 / math.sqrt(len(self.w)))
        nn.init.normal_(self.u, std=0.1)
        nn.init.zeros_(self.b)

    def forward(self, context: Tensor | None = None) -> PlanarTransform:
        """The transform; a context has no effect."""
        return PlanarTransform(self.w, self.u, self.b)
