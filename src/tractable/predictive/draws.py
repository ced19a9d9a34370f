"""Draws from torch's distributions by a generator that is passed in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.distributions import Distribution

MOST_AT_ONCE = 1 << 22
"""Numbers drawn at once; more are drawn in parts."""


@contextmanager
def seeded(generator: torch.Generator | None, device: torch.device) -> Iterator[None]:
    """Distributions draw from torch's global generator: lend it a seed, then put it back."""
    seed = torch.randint(2**62, (), generator=generator)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(int(seed))
        yield


def mixed(
    parts: Distribution, weights: Tensor, n: int, generator: torch.Generator | None
) -> Tensor:
    """``n`` draws of a mixture whose parts stand in front, a part for every entry by itself."""
    shape = torch.Size(torch.broadcast_shapes(parts.batch_shape, weights.shape))
    entries, edges = shape[1:], weights.expand(shape).cumsum(0)
    found = []
    for few in portions(n, shape.numel()):
        u = torch.rand(few, *entries, generator=generator, dtype=weights.dtype).to(weights.device)
        chosen = (edges.unsqueeze(0) <= u.unsqueeze(1)).sum(1).clamp(max=shape[0] - 1)
        with seeded(generator, weights.device):
            values = parts.sample(torch.Size([few])).expand(few, *shape)
        found.append(values.gather(1, chosen.unsqueeze(1)).squeeze(1))
    return torch.cat(found)


def portions(n: int, size: int) -> Iterator[int]:
    """``n`` as a sum of numbers of draws that fit in memory."""
    most = max(MOST_AT_ONCE // max(size, 1), 1)
    while n > 0:
        yield min(n, most)
        n -= most
