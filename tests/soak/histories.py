"""Random models and histories: finite numbers, valid variances, atomic refusals."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import torch

from tests.learners.test_safety import random_batch, random_model
from tractable.errors import NonFiniteError

UPDATES = 30


def bits(model: Any) -> dict[str, bytes]:
    return {name: t.detach().numpy().tobytes() for name, t in model.state_dict().items()}


def run_history(generator: torch.Generator, kind: int, tally: Counter[str]) -> None:
    """One model, shown batches of all scales."""
    model, features, _ = random_model(generator, kind)
    for _ in range(UPDATES):
        x, y = random_batch(model, features, generator)
        before = bits(model)
        try:
            model.update(x, y)
        except NonFiniteError:
            tally["refused"] += 1
            assert bits(model) == before, f"kind {kind}: refused, and yet something changed"
            continue
        tally["learnt"] += 1
        posterior = model.posterior
        assert torch.isfinite(posterior.loc).all(), kind
        assert torch.isfinite(posterior.variance).all(), kind
        assert (posterior.variance >= 0).all(), kind
        for buffer in model.likelihood.buffers():
            assert torch.isfinite(buffer.double()).all(), kind


def run(seconds: float, seed: int) -> Counter[str]:
    """Histories until the time is over."""
    generator = torch.Generator().manual_seed(seed)
    tally: Counter[str] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end or not tally:
        run_history(generator, tally["histories"], tally)
        tally["histories"] += 1
    return tally
