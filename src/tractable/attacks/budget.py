"""Limits of an attack: the norm of the change, and the range of valid values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tractable.errors import InvalidInput

Norm = Literal["inf", "2"]
NORMS: tuple[Norm, ...] = ("inf", "2")


@dataclass(frozen=True)
class Budget:
    """The maximum perturbation of an attack.

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
        """Return the nearest perturbation within the budget.

        Args:
            change: perturbations, ``[n, ...]``.
        """
        if self.norm == "inf":
            return change.clamp(-self.size, self.size)
        return shortened(change, self.size)


def check_norm(norm: Norm) -> None:
    """Raise ``ValueError`` for an unknown norm."""
    if norm not in NORMS:
        raise ValueError(f"the norm of a budget must be 'inf' or '2', got {norm!r}")


def shortened(change: Tensor, size: float | Tensor) -> Tensor:
    """Return each row's perturbation with a length of at most ``size``, a number or one per row."""
    return change * per_row((size / lengths(change)).clamp(max=1), change)


def lengths(change: Tensor) -> Tensor:
    """Return the Euclidean norm of each row, at least the smallest normal number.

    Rows are divided by their largest entry first: the squares of the small gradients of a
    confident classifier are zero in single precision.
    """
    flat = change.flatten(1)
    smallest = torch.finfo(change.dtype).tiny
    largest = flat.abs().amax(1, keepdim=True).clamp_min(smallest)
    return (largest[:, 0] * (flat / largest).norm(dim=1)).clamp_min(smallest)


def valid_range(
    given: tuple[float | Tensor, float | Tensor] | None, x: Tensor, name: str
) -> tuple[Tensor, Tensor] | None:
    """Return the lowest and highest valid values as tensors like ``x``; None for no limits.

    Args:
        given: the lowest and the highest value; numbers, or tensors that broadcast with ``x``.
        x: the inputs before the attack. Entries outside the range by no more than rounding are
            accepted.
        name: name of the argument, for messages.

    Raises:
        ValueError: the lowest value is not below the highest.
        InvalidInput: an entry of ``x`` lies outside, so that clamping would move it by more than
            the size of the attack.
    """
    if given is None:
        return None
    low, high = (torch.as_tensor(end, dtype=x.dtype, device=x.device) for end in given)
    if not bool((low < high).all()):
        raise ValueError(f"{name} must be (lowest, highest), got {given}")
    rounding = 8 * torch.finfo(x.dtype).eps * torch.maximum(low.abs(), high.abs())
    outside = ((x < low - rounding) | (x > high + rounding)).nonzero()
    if len(outside):
        at = tuple(outside[0].tolist())
        raise InvalidInput(
            f"entry {float(x[at]):g} of row {at[0]} lies outside {name}={given}: give the range of "
            f"valid values in the units of the inputs, or {name}=None for no limits"
        )
    return low, high


def per_row(values: Tensor, like: Tensor) -> Tensor:
    """Return one number per row in a shape that broadcasts with ``like``."""
    return values.reshape(-1, *[1] * (like.ndim - 1))
