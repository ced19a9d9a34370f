"""Samples of ``torch.distributions`` with a given generator, and quantiles of samples."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from tractable.predictive.base import Predictive

MAX_NUMBERS = 1 << 22
"""Numbers that are sampled at once; more are sampled in parts."""


@contextmanager
def seeded(generator: torch.Generator | None, device: torch.device) -> Iterator[None]:
    """Seed torch's global generator inside the block, because distributions use it."""
    seed = torch.randint(2**62, (), generator=generator)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(int(seed))
        yield


def sample_mixture(
    parts: Distribution, weights: Tensor, n: int, generator: torch.Generator | None
) -> Tensor:
    """Return ``n`` samples of a mixture over dimension 0; every entry draws its own part."""
    shape = torch.Size(torch.broadcast_shapes(parts.batch_shape, weights.shape))
    entries, edges = shape[1:], weights.expand(shape).cumsum(0)
    found = []
    for few in chunk_sizes(n, shape.numel()):
        u = torch.rand(few, *entries, generator=generator, dtype=weights.dtype).to(weights.device)
        chosen = (edges.unsqueeze(0) <= u.unsqueeze(1)).sum(1).clamp(max=shape[0] - 1)
        with seeded(generator, weights.device):
            values = parts.sample(torch.Size([few])).expand(few, *shape)
        found.append(values.gather(1, chosen.unsqueeze(1)).squeeze(1))
    return torch.cat(found)


def chunk_sizes(n: int, size: int) -> Iterator[int]:
    """Yield numbers of samples that fit in memory and add up to ``n``."""
    most = max(MAX_NUMBERS // max(size, 1), 1)
    while n > 0:
        yield min(n, most)
        n -= most


_N_SAMPLES = 4096
_CACHE = "_sorted_samples"


class SampledQuantiles(Predictive):
    """A prediction with quantiles estimated from 4,096 samples with a fixed seed.

    The samples are drawn once and kept, so that both ends of an interval come from the same ones.
    They are not pickled.
    """

    def quantile_of_samples(self, q: float) -> Tensor:
        """Return a quantile of the samples, by linear interpolation."""
        ordered: Tensor | None = self.__dict__.get(_CACHE)
        if ordered is None:
            ordered = self.sample(_N_SAMPLES, torch.Generator().manual_seed(0)).sort(0).values
            object.__setattr__(self, _CACHE, ordered)
        place = q * (len(ordered) - 1)
        below = min(int(place), len(ordered) - 2)
        low, high = ordered[below].double(), ordered[below + 1].double()
        return (low + (place - below) * (high - low)).to(ordered.dtype)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != _CACHE}
