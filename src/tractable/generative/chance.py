"""Torch's own generator, which modules such as dropout draw from, with a seed for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's generator with a seed inside the block, and as it was after it."""
    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(seed)
        yield
