"""``log_prob_gradient`` of TAGI is the derivative through the means with fixed variances."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tractable as tr
from tractable.likelihoods import Bernoulli, Likelihood, Normal, Poisson

D = torch.float64
LIKELIHOODS: dict[str, Likelihood] = {
    "normal": Normal(0.3),
    "probit": Bernoulli(),
    "poisson": Poisson(),
}


def fitted(name: str, seed: int) -> tuple[tr.TAGI, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(60, 3, generator=generator, dtype=D)
    signal = torch.sin(x[:, :1]) + 0.3 * torch.randn(60, 1, generator=generator, dtype=D)
    y = {"normal": signal, "probit": (signal > 0).long(), "poisson": (3 * signal).exp().round()}
    net = nn.Sequential(
        nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 8), nn.Sigmoid(), nn.Linear(8, 1)
    )
    model = tr.TAGI(net, LIKELIHOODS[name], seed=seed, dtype=D, engine="torch")
    model.fit(x, y[name], epochs=3, batch_size=10, progress=False, distance_aware=False)
    return model, x[:6], y[name][:6]


@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize("seed", range(3))
def test_input_gradient_is_the_derivative_through_the_means(name: str, seed: int) -> None:
    """With tangent moments, the means are those of the network at the posterior means."""
    model, x, y = fitted(name, seed)
    checked, targets = model.checks.data(x, y)
    gradient = model.log_prob_gradient(checked, targets)
    mean, variance = model.outputs(checked).moments()
    net = model.mean_module()
    torch.testing.assert_close(net(checked), mean)
    for k in range(3):
        step = torch.zeros_like(checked)
        step[:, k] = 1e-5
        with torch.no_grad():
            up, down = (
                model.likelihood.log_evidence(targets, net(checked + way * step), variance)
                for way in (1, -1)
            )
        torch.testing.assert_close(gradient[:, k], (up - down) / 2e-5, rtol=1e-6, atol=1e-8)


def test_input_gradient_omits_the_variances_of_the_units() -> None:
    """The full derivative differs, as documented."""
    model, x, y = fitted("normal", 0)
    gradient = model.log_prob_gradient(x, y)
    step = torch.zeros_like(x)
    step[:, 0] = 1e-5
    up, down = (
        model.likelihood.log_evidence(y, *model.outputs(x + way * step).moments())
        for way in (1, -1)
    )
    assert float((gradient[:, 0] - (up - down) / 2e-5).abs().max()) > 1e-3
