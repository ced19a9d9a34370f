"""Chapter 8, measuring performance: PER cases."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import tractable as tr


def test_per_01_parameters():
    net = nn.Sequential(
        nn.Linear(40, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)
    )
    assert tr.diagnostics.summary(net, torch.zeros(2, 40)).n_parameters == 50_410


class HalfOfTheMean:
    """The estimator of the case: half of the mean of its training data."""

    def __init__(self, seed):
        self.seed = seed

    def fit(self, x, y):
        self.mean = 0.5 * float(np.mean(np.asarray(y)))

    def predict(self, x):
        return np.full(len(x), self.mean)


def test_per_02_noise_bias_and_variance():
    """Four draws of mean 2 and variance 1: 1 or 3 here, so that all data sets can be enumerated."""
    x = np.zeros((4, 1))
    sets = [(x, np.array(draws, dtype=float)) for draws in itertools.product((1, 3), repeat=4)]
    found = tr.diagnostics.bias_variance(
        HalfOfTheMean, sample_dataset=sets, X_test=x[:1], y_mean=[2.0], noise_variance=1.0, n_jobs=1
    )
    parts = (found.bias_sq, found.variance, found.noise, found.loss)
    assert parts == pytest.approx((1, 0.0625, 1, 2.0625), abs=1e-12)
    assert found.largest_term == "noise" or found.bias_sq == found.noise


def test_per_04_fixed_hidden_units_and_an_exact_last_layer():
    """``Laplace`` on the last layer solves least squares with fixed hidden units."""
    net = nn.Sequential(nn.Linear(1, 3), nn.ReLU(), nn.Linear(3, 1)).double()
    with torch.no_grad():
        net[0].weight.fill_(1.0)
        net[0].bias.copy_(-torch.tensor([0.0, 1 / 3, 2 / 3], dtype=torch.float64))
    for parameter in net[0].parameters():
        parameter.requires_grad_(False)
    x = torch.tensor([0.05, 0.2, 0.4, 0.55, 0.7, 0.95], dtype=torch.float64)[:, None]
    y = torch.tensor([0.1, 0.5, -0.2, 0.3, 0.8, 0.4], dtype=torch.float64)
    model = tr.Laplace(
        net, tr.likelihoods.Normal(1.0), structure="last_layer", prior_precision=1e-12,
        init="net", dtype=torch.float64,
    ).fit(x, y, epochs=1, distance_aware=False)  # fmt: skip
    means = model.posterior.means()
    found = [float(means["2.bias"]), *means["2.weight"].flatten().tolist()]
    wanted = [0.377455561, -1.525056749, 4.017063893, -3.494534412]
    assert found == pytest.approx(wanted, abs=1e-6)
    residual = (model.predict(x).mean.flatten() - y).square().sum()
    assert float(residual) == pytest.approx(0.308620575, abs=1e-6)


def test_per_05_directions_are_nearly_orthogonal():
    """Cosine of two normal vectors: its square is Beta(1/2, (D - 1)/2)."""
    d = 1000
    assert 1 / math.sqrt(d) == pytest.approx(0.031622777)
    assert math.degrees(1 / math.sqrt(d)) == pytest.approx(1.811851636)
    assert stats.beta(0.5, (d - 1) / 2).cdf(0.01) == pytest.approx(0.998464286, abs=1e-8)
    generator = torch.Generator().manual_seed(0)
    pairs = torch.randn(2, 2000, d, generator=generator)
    cosine = nn.functional.cosine_similarity(*pairs, dim=1)
    error = 0.031622777 / math.sqrt(2 * 2000)
    assert abs(float(cosine.std()) - 0.031622777) < 4 * error


def test_per_06_volume_of_the_unit_ball_vanishes():
    wanted = {1: 1, 2: 0.785398163, 3: 0.523598776, 10: 2.490394570e-3, 20: 2.461136950e-8,
              100: 1.868182054e-70}  # fmt: skip
    for d, volume in wanted.items():
        log = d / 2 * math.log(math.pi) + d * math.log(0.5) - math.lgamma(d / 2 + 1)
        assert math.exp(log) == pytest.approx(volume, rel=1e-8)


def test_per_07_most_volume_is_near_the_surface():
    wanted = {2: 0.0199, 10: 0.095617925, 100: 0.633967659, 300: 0.950959106, 500: 0.993429517}
    for d, share in wanted.items():
        assert 1 - 0.99**d == pytest.approx(share, abs=1e-9)


def test_per_08_norms_are_chi_distributed():
    wanted = {25: (4.950262344, 0.703493229), 100: (9.97503164, 0.706217948),
              500: (22.349502237, 0.706929806)}  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    for d, (mean, deviation) in wanted.items():
        chi = stats.chi(d)
        assert (chi.mean(), chi.std()) == pytest.approx((mean, deviation), abs=1e-8)
        norms = torch.randn(4000, d, generator=generator).norm(dim=1)
        assert abs(float(norms.mean()) - mean) < 4 * deviation / math.sqrt(4000)
