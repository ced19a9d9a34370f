"""Seeding of torch's global generator, which modules such as dropout draw from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generator inside the block, and restore its state afterwards."""
    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(seed)
        yield
