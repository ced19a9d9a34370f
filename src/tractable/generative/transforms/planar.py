"""Planar transforms: shifts along one direction that depend on the position along another."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import override

from tractable.generative.transforms.base import RowTransform

_BISECTIONS = 60  # halvings of the bracket, beyond double precision


class PlanarTransform(RowTransform):
    """``y = x + u tanh(w·x + b)`` (Rezende & Mohamed, 2015), with ``w·u >= -1``.

    Args:
        w: direction along which the position is measured.
        u: direction of the shift; if ``w·u`` is below -1, it is changed so that an inverse exists.
        b: offset.
    """

    def __init__(self, w: Tensor, u: Tensor, b: Tensor) -> None:
        super().__init__()
        self.w, self.b = w, b
        along = (w * u).sum(-1, keepdim=True)
        target = F.softplus(along + math.log(math.e - 1)) - 1  # 0 stays 0, never below -1
        self.u = u + (target - along) * w / (w * w).sum(-1, keepdim=True).clamp(min=1e-12)

    @override
    def call_and_ladj(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh((x * self.w).sum(-1, keepdim=True) + self.b)
        slope = (1 - h**2).squeeze(-1)
        along = (self.w * self.u).sum(-1)
        return x + self.u * h, (1 + slope * along).log()

    def _inverse(self, y: Tensor) -> Tensor:
        """Invert by bisection along ``w``: ``s + w·u tanh(s + b)`` is increasing in s."""
        goal = (y * self.w).sum(-1, keepdim=True)
        along = (self.w * self.u).sum(-1, keepdim=True)
        low, high = goal - along.abs(), goal + along.abs()
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            above = middle + along * torch.tanh(middle + self.b) > goal
            low, high = torch.where(above, low, middle), torch.where(above, middle, high)
        return y - self.u * torch.tanh((low + high) / 2 + self.b)


class Planar(nn.Module):
    """A trainable planar transform.

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
        """Reset to a small shift along a random direction."""
        nn.init.normal_(self.w, std=1 / math.sqrt(len(self.w)))
        nn.init.normal_(self.u, std=0.1)
        nn.init.zeros_(self.b)

    def forward(self, context: Tensor | None = None) -> PlanarTransform:
        """Return the transform; the context is ignored."""
        return PlanarTransform(self.w, self.u, self.b)
