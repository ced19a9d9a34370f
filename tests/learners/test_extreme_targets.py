"""A single target of any size does not change an inferred noise."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tractable as tr
from tractable.likelihoods import Normal

SEEDS = range(3)


def fitted(seed: int, engine: str) -> tuple[tr.TAGI, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(200, 2, generator=generator) * 2 - 1
    y = torch.sin(3 * x[:, :1]) + 0.1 * torch.randn(200, 1, generator=generator)
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
    model = tr.TAGI(net, Normal(), engine=engine, seed=seed)
    model.fit(x, y, epochs=10, batch_size=8, progress=False, distance_aware=False)
    return model, x, y


@pytest.mark.parametrize("engine", ["native", "torch"])
@pytest.mark.parametrize("seed", SEEDS)
def test_one_extreme_target_does_not_change_inferred_noise(engine: str, seed: int) -> None:
    model, x, y = fitted(seed, engine)
    start = float(model.likelihood.noise_mean)
    for extreme in (1e6, -1e9, 1e20):
        for batch in (1, 8):
            before = model.likelihood.noise_mean.sqrt()
            targets = y[:batch].clone()
            targets[0] = extreme
            model.update(x[:batch], targets)
            torch.testing.assert_close(
                model.likelihood.noise_mean.sqrt(), before, rtol=0.05, atol=0
            )
    for first in range(0, 200, 20):
        model.update(x[first : first + 20], y[first : first + 20])
    assert 0.3 * start < float(model.likelihood.noise_mean) < 1.1 * start
