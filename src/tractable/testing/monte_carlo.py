"""Moments by Monte Carlo, with its standard error: how the battery of rules knows what is true."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import torch
from torch import Tensor

from tractable.gaussian import Gaussian

SAMPLES, CHUNK = 200_000, 10_000
MOST_ENTRIES = 48
"""Of all inputs together."""
STANDARD_ERRORS = 5


@cache
def _noise(columns: int) -> Tensor:
    source = torch.Generator().manual_seed(20)
    return torch.randn(SAMPLES, columns, generator=source, dtype=torch.float64)


def samples(*inputs: Gaussian) -> Iterator[list[Tensor]]:
    """Draws of all inputs, chunk by chunk, independent of each other; each draw is a flat row."""
    sizes = [g.numel() for g in inputs]
    if sum(sizes) > MOST_ENTRIES:
        raise ValueError(f"at most {MOST_ENTRIES} entries of all inputs, got {sum(sizes)}")
    noise = _noise(MOST_ENTRIES)
    for chunk in noise.split(CHUNK):
        parts = chunk[:, : sum(sizes)].split(sizes, 1)
        yield [
            g.loc.reshape(-1) + g.stddev.reshape(-1) * e for g, e in zip(inputs, parts, strict=True)
        ]


def assert_moments_agree(z: object, function: Callable[..., Tensor], *inputs: Gaussian) -> None:
    """``z`` has the mean and variance of ``function`` of the inputs, within standard errors.

    ``function`` maps rows of flattened inputs to rows of the flattened output.
    """
    assert isinstance(z, Gaussian)
    loc, variance = z.loc.reshape(-1), z.variance.reshape(-1)
    sums = torch.zeros(4, loc.numel(), dtype=torch.float64)
    for drawn in samples(*inputs):
        d = function(*drawn).reshape(drawn[0].shape[0], -1) - loc
        square = d * d
        sums += torch.stack([d.sum(0), square.sum(0), (square * d).sum(0), (square**2).sum(0)])
    m1, m2, m3, m4 = sums / SAMPLES
    var = m2 - m1**2
    fourth = m4 - 4 * m1 * m3 + 6 * m1**2 * m2 - 3 * m1**4
    mean_error = STANDARD_ERRORS * (var.clamp_min(0) / SAMPLES).sqrt()
    variance_error = STANDARD_ERRORS * ((fourth - var**2).clamp_min(0) / SAMPLES).sqrt()
    # What rounding leaves where nothing is random.
    rounding = 1e-13 * (1 + loc.abs())
    assert bool((m1.abs() <= mean_error + rounding).all()), (m1, mean_error)
    assert bool(((var - variance).abs() <= variance_error + rounding**2).all()), (
        var,
        variance,
        variance_error,
    )
