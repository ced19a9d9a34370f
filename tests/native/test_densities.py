"""Messages computed by quadrature in the kernel, compared with torch in float64.

One linear layer without a bias and one row of ones: the output is the weight, so an update by one
observation reveals its messages.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import special
from torch import nn

import tractable as tr
from tractable.likelihoods import (
    Bernoulli,
    HeteroscedasticNormal,
    Likelihood,
    NegativeBinomial,
    Poisson,
)

VARIANCES = (1e-6, 1e-3, 0.1, 1.0, 10.0)


def learnt(
    likelihood: Likelihood, y: float, mean: list[float], variance: list[float], engine: str
) -> torch.Tensor:
    """Return mean and variance of the outputs after one observation; torch uses float64."""
    dtype = torch.float32 if engine == "native" else torch.float64
    net = nn.Linear(1, len(mean), bias=False)
    # The published rule adds the messages unchanged.
    options = {"engine": engine, "dtype": dtype, "batch_rule": "published"}
    model = tr.TAGI(net, likelihood, **options)
    assert model.engine == engine
    model.posterior.loc.copy_(torch.tensor(mean))
    model.posterior.variance.copy_(torch.tensor(variance))
    model.update(torch.ones(1, 1, dtype=dtype), torch.tensor([[y]], dtype=dtype))
    return torch.stack([model.posterior.loc, model.posterior.variance]).double()


def check(likelihood: Likelihood, y: float, mean: list[float], variance: list[float]) -> None:
    ours, exact = (learnt(likelihood, y, mean, variance, e) for e in ("native", "torch"))
    torch.testing.assert_close(ours, exact, rtol=2e-6, atol=1e-7, msg=f"{y} {mean} {variance}")


@pytest.mark.parametrize("count", [0.0, 1.0, 7.0, 40.0, 400.0, 1e4])
def test_counts(count: float) -> None:
    for mean, variance in itertools.product((-6.0, -1.0, 0.0, 3.0, 5.0, 9.0), VARIANCES):
        check(Poisson(), count, [mean], [variance])


@pytest.mark.parametrize("count", [0.0, 1.0, 7.0, 400.0, 1e4])
@pytest.mark.parametrize("dispersion", [1e-3, 0.3, 2.0, 50.0, 1e8])
def test_overdispersed_counts(count: float, dispersion: float) -> None:
    for mean, variance in itertools.product((-6.0, 0.0, 3.0, 9.0), VARIANCES):
        check(NegativeBinomial(dispersion), count, [mean], [variance])


@pytest.mark.parametrize("count", [0.0, 1.0, 7.0, 400.0])
@pytest.mark.parametrize("start", [0.02, 1.0, 30.0])
@pytest.mark.parametrize("memory", [None, 20.0])
def test_dispersion_is_learned(count: float, start: float, memory: float | None) -> None:
    found = []
    for engine in ("native", "torch"):
        likelihood = NegativeBinomial()
        model = tr.TAGI(nn.Linear(1, 1, bias=False), likelihood, engine=engine)
        likelihood = model.likelihood
        likelihood.m_step(torch.tensor([10 * _statistic(start), 10.0], dtype=torch.float64))
        model.posterior.loc.fill_(1.5)
        model.posterior.variance.fill_(0.2)
        for _ in range(3):
            model.update(torch.ones(1, 1), torch.tensor([[count]]), memory_rows=memory)
        found.append(torch.stack([likelihood.total_count[0], likelihood.statistic[0]]))
        assert float(likelihood.rows) == 13.0
    torch.testing.assert_close(*found, rtol=2e-5, atol=0)


def _statistic(dispersion: float) -> float:
    return float(1 + np.log(dispersion) - special.digamma(dispersion))


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_labels(label: float) -> None:
    for mean, variance in itertools.product((-30.0, -3.0, 0.0, 0.5, 8.0), VARIANCES):
        check(Bernoulli("logit"), label, [mean], [variance])


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_probit_labels_in_the_far_tail(label: float) -> None:
    """Beyond 30 deviations the kernel replaces the error function by a continued fraction."""
    for t, variance in itertools.product((-300.0, -80.0, -31.0, -29.0, 29.0, 31.0), VARIANCES):
        check(Bernoulli("probit"), label, [t * (1 + variance) ** 0.5], [variance])


@pytest.mark.parametrize("nodes", [80, 160])
def test_predicted_noises(nodes: int) -> None:
    for y, log_noise, variance in itertools.product((-3.0, 0.1, 40.0), (-8.0, 0.0, 3.0), VARIANCES):
        check(HeteroscedasticNormal(nodes), y, [0.2, log_noise], [variance, 0.7])


@pytest.mark.parametrize("variance", [0.1, 10.0])
def test_infinite_rates(variance: float) -> None:
    """The peak is far from a mean with an infinite rate; only the mean's rounding remains."""
    for mean in (600.0, 1500.0, 1e6):
        ours, exact = (learnt(Poisson(), 3.0, [mean], [variance], e) for e in ("native", "torch"))
        torch.testing.assert_close(ours[0], exact[0], rtol=0, atol=1e-7 * mean)
        torch.testing.assert_close(ours[1], exact[1], rtol=1e-6, atol=0)


def test_a_gate_on_predicted_noises_is_the_same_in_both_engines() -> None:
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(64, 3, generator=rng)
    y = x[:, :2] + 0.1 * torch.randn(64, 2, generator=rng)
    y[5, 0], y[40, 1] = 60.0, -300.0
    net = nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 4))
    models = [tr.TAGI(net, HeteroscedasticNormal(), engine=e) for e in ("native", "torch")]
    for model in models:
        model.fit(x, y, epochs=1, batch_size=8, shuffle=False, progress=False, distance_aware=False)
        assert model.outliers.count >= 2
    kernel, other = models
    assert kernel.outliers.count == other.outliers.count
    torch.testing.assert_close(kernel.posterior.loc, other.posterior.loc, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(kernel.state.gate.level, other.state.gate.level, rtol=1e-3, atol=0)
