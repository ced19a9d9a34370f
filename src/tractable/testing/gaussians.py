"""Random Gaussians for tests of moment rules, and their moments by Monte Carlo."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import cache

import torch
from torch import Tensor

from tractable.gaussian import Gaussian

REGIMES = ("tiny", "moderate", "skewed")
SAMPLES, CHUNK = 200_000, 10_000
MAX_ENTRIES = 48
"""Largest number of entries of all inputs together."""
STANDARD_ERRORS = 5


def generator(*words: object) -> torch.Generator:
    """Return a generator whose seed depends on words, the same on every machine."""
    return torch.Generator().manual_seed(zlib.crc32(repr(words).encode()))


def uniform(shape: tuple[int, ...], low: float, high: float, source: torch.Generator) -> Tensor:
    """Return uniform numbers in float64."""
    return low + (high - low) * torch.rand(shape, generator=source, dtype=torch.float64)


def gaussian(shape: tuple[int, ...], regime: str, source: torch.Generator) -> Gaussian:
    """Return a random Gaussian of the regime.

    ``tiny``: variances near 1e-8.  ``moderate``: of the order of the means.  ``skewed``: means on
    one side of zero with a long tail, which reveals sign errors, and a third of the
    variances zero.
    """
    loc = torch.randn(shape, generator=source, dtype=torch.float64) * 1.5 + 0.4
    if regime == "tiny":
        return Gaussian(loc, uniform(shape, 0.5e-8, 2e-8, source))
    if regime == "moderate":
        return Gaussian(loc, uniform(shape, 0.1, 1.5, source))
    tail = -torch.log(uniform(shape, 0.05, 1, source))
    kept = uniform(shape, 0, 1, source) > 1 / 3
    return Gaussian(0.3 + tail, uniform(shape, 0.2, 2, source) * kept)


def normal(like: Tensor, source: torch.Generator) -> Tensor:
    """Return standard normal numbers of the shape and type of ``like``."""
    return torch.randn(like.shape, generator=source, dtype=like.dtype)


def leaves(inputs: list[Gaussian]) -> list[Tensor]:
    """Return moments that record messages, all means first."""
    return [
        moment.detach().clone().requires_grad_()
        for moment in [*(g.loc for g in inputs), *(g.variance for g in inputs)]
    ]


def wrapped(moments: list[Tensor]) -> list[Gaussian]:
    """Return the Gaussians of ``leaves``."""
    half = len(moments) // 2
    return [Gaussian.wrap(m, v) for m, v in zip(moments[:half], moments[half:], strict=True)]


@cache
def _noise(columns: int) -> Tensor:
    source = torch.Generator().manual_seed(20)
    return torch.randn(SAMPLES, columns, generator=source, dtype=torch.float64)


def samples(*inputs: Gaussian) -> Iterator[list[Tensor]]:
    """Yield samples of all inputs in chunks, as flat rows; inputs are independent."""
    sizes = [g.numel() for g in inputs]
    if sum(sizes) > MAX_ENTRIES:
        raise ValueError(f"at most {MAX_ENTRIES} entries of all inputs, got {sum(sizes)}")
    noise = _noise(MAX_ENTRIES)
    for chunk in noise.split(CHUNK):
        parts = chunk[:, : sum(sizes)].split(sizes, 1)
        yield [
            g.loc.reshape(-1) + g.stddev.reshape(-1) * e for g, e in zip(inputs, parts, strict=True)
        ]


def assert_moments_agree(z: object, function: Callable[..., Tensor], *inputs: Gaussian) -> None:
    """Raise unless ``z`` has the mean and variance of ``function`` of the inputs by Monte Carlo.

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
    # The rounding error where nothing is random.
    rounding = 1e-13 * (1 + loc.abs())
    assert bool((m1.abs() <= mean_error + rounding).all()), (m1, mean_error)
    assert bool(((var - variance).abs() <= variance_error + rounding**2).all()), (
        var,
        variance,
        variance_error,
    )
