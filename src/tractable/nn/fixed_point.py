"""Fixed points ``z = f(z)`` of many rows at once: iteration, accelerated where it contracts.

The state that a network settles in is the one that plain iteration reaches: of several steady
states it depends on the start, and one that is unstable is never reached.  So acceleration
(Anderson, "Iterative procedures for nonlinear integral equations", 1965) begins when the change of
a step is small and has fallen for some steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Map = Callable[[Tensor], Tensor]

_MEMORY = 6
_FALLING = 3
"""Steps in a row whose change must be smaller than the one before, to begin with acceleration."""
_NEAR = 0.03
"""Relative change below which it may begin."""


@dataclass(frozen=True)
class Settled:
    """Where an iteration ended.

    Attributes:
        z: the last state.
        steps: how often the function was applied.
        change: the largest change of a row in the last step, relative to the row.
        converged: whether that is within the tolerance.
    """

    z: Tensor
    steps: int
    change: float
    converged: bool


def settle(f: Map, z: Tensor, *, tolerance: float, max_steps: int) -> Settled:
    """Iterate ``z = f(z)``, rows first.

    >>> found = settle(torch.cos, torch.zeros(1, 1), tolerance=1e-6, max_steps=100)
    >>> round(float(found.z), 4), found.converged
    (0.7391, True)
    """
    past: list[tuple[Tensor, Tensor]] = []
    before, falling, change = torch.inf, 0, torch.inf
    for step in range(1, max_steps + 1):
        after = f(z)
        change = _change(z, after)
        if change <= tolerance:
            return Settled(after, step, change, converged=True)
        if not change < torch.inf:
            return Settled(after, step, change, converged=False)
        falling = falling + 1 if change < before else 0
        if change > 10 * before:
            past = []  # acceleration went astray: begin again
        before = change
        if past or (falling >= _FALLING and change < _NEAR):
            past = [*past, (z, after)][-_MEMORY:]
            z = _accelerated(past)
        else:
            z = after
    return Settled(z, max_steps, change, converged=False)


def _change(z: Tensor, after: Tensor) -> float:
    if not z.numel():
        return 0.0
    # Row by row: a large state must not make the others look settled.
    rows = [part.reshape(len(part), -1).abs().amax(1) for part in (after - z, after)]
    return float((rows[0] / (1 + rows[1])).amax())


def _accelerated(past: list[tuple[Tensor, Tensor]]) -> Tensor:
    """The combination of the last states whose residual is smallest, row by row."""
    after = past[-1][1]
    if len(past) == 1:
        return after
    states = torch.stack([z.flatten(1) for z, _ in past], -1)
    images = torch.stack([after.flatten(1) for _, after in past], -1)
    residuals = images - states
    steps, residual = residuals.diff(dim=-1), residuals[..., -1:]
    square = steps.mT @ steps
    ridge = 1e-14 * square.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None] + 1e-300
    eye = torch.eye(square.shape[-1], dtype=square.dtype, device=square.device)
    weights = torch.linalg.solve(square + ridge.clamp_min(1e-37) * eye, steps.mT @ residual)
    moved = images[..., -1:] - images.diff(dim=-1) @ weights
    found = moved.reshape(after.shape)
    return torch.where(found.isfinite(), found, after)
