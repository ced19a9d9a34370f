"""Online updates with missing targets: each output's noise follows the targets it has."""

import math

import pytest
import torch
from torch import nn

import tractable as tr

F64 = torch.float64
NOISE_ROWS = 500


@pytest.mark.parametrize("learner", [tr.Backprop, tr.BayesByBackprop, tr.Laplace])
@pytest.mark.parametrize("outputs", [1, 2, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_noise_is_a_moving_average_of_the_errors_of_targets_that_are_there(
    learner, outputs, seed
):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(60, 3, generator=generator, dtype=F64)
    y = torch.randn(60, outputs, generator=generator, dtype=F64) * torch.arange(1, outputs + 1)
    y[torch.rand(60, outputs, generator=generator) < 0.2] = torch.nan
    y[0] = 1.0
    model = learner(
        nn.Linear(3, outputs), tr.likelihoods.IncompleteNormal(outputs=outputs), dtype=F64,
        lr=1e-6, seed=seed,
    )  # fmt: skip
    model.fit(x[:40], y[:40], epochs=1, batch_size=10)
    noise = model.likelihood.noise_mean.clone()
    for row in (slice(40, 41), slice(41, 49), slice(49, 60)):
        guess = model.predict(x[row]).mean.reshape(y[row].shape)
        kept = math.exp(-len(y[row]) / NOISE_ROWS)
        for k in range(outputs):
            there = ~y[row, k].isnan()
            if there.any():
                new = (guess[there, k] - y[row, k][there]).square().mean()
                noise[k] = kept * noise[k] + (1 - kept) * new
        model.update(x[row], y[row])
        drawn = learner is tr.BayesByBackprop  # of another draw of weights than predict
        assert torch.allclose(model.likelihood.noise_mean, noise, rtol=0.02 if drawn else 1e-4)


@pytest.mark.parametrize("learner", [tr.Backprop, tr.BayesByBackprop, tr.Laplace])
def test_without_missing_targets_it_is_that_of_a_plain_normal(learner):
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(50, 3, generator=generator), torch.randn(50, 2, generator=generator)
    found = []
    for kind in (tr.likelihoods.Normal, tr.likelihoods.IncompleteNormal):
        model = learner(nn.Linear(3, 2), kind(outputs=2), seed=1, lr=1e-2)
        model.fit(x[:40], y[:40], epochs=1, batch_size=10).update(x[40:], y[40:])
        found.append(model.likelihood.noise_mean)
    assert torch.allclose(*found, rtol=1e-5)
