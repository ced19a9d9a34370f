"""Streams of rows with one input and a known function at every time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

import tractable as tr

NOISE = 0.1
WIDTH = 50
TEST_ROWS = 200
CHECKED = 500
"""Number of rows generated at once."""

Truth = Callable[[Tensor, int], Tensor]
"""True outputs as a function of the inputs and the time, which is counted in rows."""


def sine(phase: float) -> Truth:
    """Return a function that is constant in time."""
    return lambda x, row: torch.sin(3 * x + phase)


def turning(rows: int) -> Truth:
    """Return a sine whose phase makes a full turn in ``rows`` rows."""
    return lambda x, row: torch.sin(3 * x + 2 * math.pi * row / rows)


CHANGES: dict[str, Truth] = {
    "+3": lambda x, row: torch.sin(3 * x) + 3,
    "sign": lambda x, row: -torch.sin(3 * x),
    "x3": lambda x, row: 3 * torch.sin(3 * x),
    "phase": lambda x, row: torch.sin(3 * x + 2),
}
"""The functions to which ``sine(0)`` changes."""


def model(sigma: float | None, hidden: int, seed: int, *, robust: bool = True) -> tr.TAGI:
    """Return a network with layers of 50 and the published gain, which suits one input."""
    layers: list[nn.Module] = [nn.Linear(1, WIDTH), nn.ReLU()]
    for _ in range(hidden - 1):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Linear(WIDTH, 1))
    return tr.TAGI(net, tr.likelihoods.Normal(sigma), gain=1.0, seed=seed, robust=robust)


def rows(
    truth: Truth, count: int, batch: int, generator: torch.Generator, first: int = 0
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of a stream."""
    at_once = CHECKED // batch * batch or batch
    for start in range(0, count, at_once):
        some = min(at_once, count - start)
        x, y = observed(truth, some, first + start, generator)
        yield from zip(x.split(batch), y.split(batch), strict=True)


def observed(
    truth: Truth, count: int, row: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return noisy rows of about the same time."""
    x = 2 * torch.rand(count, 1, generator=generator) - 1
    return x, truth(x, row) + NOISE * torch.randn(count, 1, generator=generator)


def learn(
    learner: tr.TAGI,
    truth: Truth,
    count: int,
    batch: int,
    generator: torch.Generator,
    memory: float | None,
    first: int = 0,
) -> None:
    """Update a learner on a stream."""
    for x, y in rows(truth, count, batch, generator, first):
        learner.update(x, y, memory_rows=memory)


def rmse(learner: tr.TAGI, truth: Truth, row: int = 0) -> float:
    """Return the distance from the true function at a time."""
    x = torch.linspace(-1, 1, TEST_ROWS).unsqueeze(1)
    return float((learner.predict(x).mean - truth(x, row)).square().mean().sqrt())
