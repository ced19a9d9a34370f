"""Random Gaussians in the regimes that the battery of rules visits."""

from __future__ import annotations

import zlib

import torch
from torch import Tensor

from tractable.gaussian import Gaussian

REGIMES = ("tiny", "moderate", "skewed")


def generator(*words: object) -> torch.Generator:
    """A generator whose seed is made of words, the same on every machine."""
    return torch.Generator().manual_seed(zlib.crc32(repr(words).encode()))


def uniform(shape: tuple[int, ...], low: float, high: float, source: torch.Generator) -> Tensor:
    """Uniform numbers in float64."""
    return low + (high - low) * torch.rand(shape, generator=source, dtype=torch.float64)


def gaussian(shape: tuple[int, ...], regime: str, source: torch.Generator) -> Gaussian:
    """A Gaussian of the regime.

    ``tiny``: variances near 1e-8.  ``moderate``: of the order of the means.  ``skewed``: means on
    one side of zero with a long tail, which a sign error cannot survive, and a third of the
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
    """Standard normal numbers of the shape and type of ``like``."""
    return torch.randn(like.shape, generator=source, dtype=like.dtype)


def leaves(inputs: list[Gaussian]) -> list[Tensor]:
    """Moments that record messages, all means first."""
    return [
        moment.detach().clone().requires_grad_()
        for moment in [*(g.loc for g in inputs), *(g.variance for g in inputs)]
    ]


def wrapped(moments: list[Tensor]) -> list[Gaussian]:
    """Gaussians of ``leaves``."""
    half = len(moments) // 2
    return [Gaussian.wrap(m, v) for m, v in zip(moments[:half], moments[half:], strict=True)]
