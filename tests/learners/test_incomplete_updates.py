"""Online updates with missing targets: each output's noise follows the targets it has."""

import pytest
import torch
from torch import nn

import tractable as tr

F64 = torch.float64
NOISE_ROWS = 500
OPTIONS = {
    tr.Backprop: {},
    tr.BayesByBackprop: {"n_weight_samples": 5},
    tr.Laplace: {"spread": False},
}


@pytest.mark.parametrize("learner", OPTIONS)
@pytest.mark.parametrize("outputs", [1, 2, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_each_noise_is_that_of_a_plain_normal_of_the_targets_that_are_there(learner, outputs, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(60, 3, generator=generator, dtype=F64)
    y = torch.randn(60, outputs, generator=generator, dtype=F64) * torch.arange(1, outputs + 1)
    y[torch.rand(60, outputs, generator=generator) < 0.2] = torch.nan
    y[0] = 1.0
    model = learner(
        nn.Linear(3, outputs), tr.likelihoods.Normal(outputs=outputs, missing=True), dtype=F64,
        lr=1e-6, seed=seed,
    )  # fmt: skip
    model.fit(x[:40], y[:40], epochs=1, batch_size=10)
    plain = [tr.likelihoods.Normal() for _ in range(outputs)]
    for k, one in enumerate(plain):
        one.noise_mean = model.likelihood.noise_mean[k : k + 1].clone()
        one.noise_variance = model.likelihood.noise_variance[k : k + 1].clone()
    for row in (slice(40, 41), slice(41, 49), slice(49, 60)):
        mean, variance = model.outputs(x[row], **OPTIONS[learner]).moments()
        for k, one in enumerate(plain):
            there = ~y[row, k].isnan()
            if there.any():
                seen = (part[there, k : k + 1] for part in (y[row], mean, variance))
                one.set_buffers(one.update_noise(*seen, memory_rows=NOISE_ROWS))
        model.update(x[row], y[row])
        wanted = torch.cat([one.noise_mean for one in plain])
        assert torch.allclose(model.likelihood.noise_mean, wanted, rtol=1e-6)


@pytest.mark.parametrize("learner", [tr.Backprop, tr.BayesByBackprop, tr.Laplace])
def test_without_missing_targets_it_is_that_of_a_plain_normal(learner):
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(50, 3, generator=generator), torch.randn(50, 2, generator=generator)
    found = []
    for missing in (False, True):
        model = learner(
            nn.Linear(3, 2), tr.likelihoods.Normal(outputs=2, missing=missing), seed=1, lr=1e-2
        )
        model.fit(x[:40], y[:40], epochs=1, batch_size=10).update(x[40:], y[40:])
        found.append(model.likelihood.noise_mean)
    assert torch.allclose(*found, rtol=1e-5)
