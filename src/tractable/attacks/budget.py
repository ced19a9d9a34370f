"""How far an attack may go, in the largest change of an entry or in the Euclidean norm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Norm = Literal["inf", "2"]
NORMS: tuple[Norm, ...] = ("inf", "2")


@dataclass(frozen=True)
class Budget:
    """How far an attack may go.

    Args:
        size: the largest distance from the original image, in pixel units.
        norm: ``"inf"`` (the largest change of a pixel) or ``"2"`` (the Euclidean norm).
    """

    size: float
    norm: Norm = "inf"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.size) and self.size > 0):
            raise ValueError(f"budget must be a positive number, got {self.size}")
        check_norm(self.norm)

    def project(self, change: Tensor) -> Tensor:
        """The nearest change within the budget."""
        if self.norm == "inf":
            return change.clamp(-self.size, self.size)
        return shortened(change, self.size)


def check_norm(norm: Norm) -> None:
    """Refuse a norm that there is none of."""
    if norm not in NORMS:
        raise ValueError(f"the norm of a budget must be 'inf' or '2', got {norm!r}")


def shortened(change: Tensor, size: float | Tensor) -> Tensor:
    """Each row's change, no longer than ``size`` (a number, or one for each row)."""
    return change * per_row((size / lengths(change)).clamp(max=1), change)


def lengths(change: Tensor) -> Tensor:
    """The Euclidean length of each row, at least the smallest positive number."""
    return change.flatten(1).norm(dim=1).clamp_min(torch.finfo(change.dtype).tiny)


def per_row(values: Tensor, like: Tensor) -> Tensor:
    """One number for each row, in a shape that spreads over the row's entries."""
    return values.reshape(-1, *[1] * (like.ndim - 1))
