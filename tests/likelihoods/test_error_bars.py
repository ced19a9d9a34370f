"""Targets with variances of their own."""

import pytest
import torch
from torch import nn

import tractable as tr
from tractable.errors import InvalidTarget

NET = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 2))


def _data(rows=16):
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(rows, 3, generator=draw), torch.randn(rows, 2, generator=draw)
    return x, y, torch.rand(rows, 2, generator=draw)


def test_an_error_bar_is_noise_on_top():
    """A target with variance 0.07 under sigma^2 = 0.02 is one without under 0.09."""
    x, y, _ = _data()
    bars = tr.Gaussian(y, 0.07)
    one = tr.TAGI(NET, tr.likelihoods.Normal(0.02**0.5), seed=1).update(x, bars)
    two = tr.TAGI(NET, tr.likelihoods.Normal(0.3), seed=1).update(x, y)
    assert torch.allclose(one.posterior.loc, two.posterior.loc, atol=1e-6)
    assert torch.allclose(one.posterior.variance, two.posterior.variance, atol=1e-6)


def test_conjugate_update_weighs_targets_by_their_precision():
    """A single weight, observed twice with different error bars: the exact posterior."""
    x = torch.ones(1, 1, dtype=torch.float64)
    net = nn.Linear(1, 1, bias=False)
    model = tr.TAGI(net, tr.likelihoods.Normal(0.5), gain=1.0, dtype=torch.float64)
    mean, precision = float(model.posterior.loc), 1 / float(model.posterior.variance)
    for y, variance in ((1.0, 0.3), (-2.0, 4.0)):
        model.update(x, tr.Gaussian(torch.tensor([[y]], dtype=torch.float64), variance))
        seen = 1 / (0.25 + variance)
        mean = (precision * mean + seen * y) / (precision + seen)
        precision += seen
    assert float(model.posterior.loc) == pytest.approx(mean, rel=1e-12)
    assert 1 / float(model.posterior.variance) == pytest.approx(precision, rel=1e-12)


@pytest.mark.parametrize("sigma", [0.3, None])
def test_both_engines_agree(sigma):
    x, y, variance = _data()
    bars = tr.Gaussian(y, variance)
    models = []
    for engine in ("torch", "native"):
        likelihood = tr.likelihoods.Normal(sigma, outputs=2)
        model = tr.TAGI(NET, likelihood, engine=engine, gain=1.0, seed=0)
        model.fit(x, bars, epochs=3, batch_size=5, shuffle=False, progress=False)
        models.append(model)
    one, two = models
    assert torch.allclose(one.posterior.loc, two.posterior.loc, atol=1e-5)
    assert torch.allclose(one.posterior.variance, two.posterior.variance, atol=1e-5)
    assert torch.allclose(one.likelihood.noise_mean, two.likelihood.noise_mean, rtol=1e-5)


def test_an_inferred_noise_leaves_the_error_bars_out():
    """Targets that scatter by 0.5, of which 0.4 is known: about 0.3 remains."""
    draw = torch.Generator().manual_seed(2)
    x = torch.rand(4000, 1, generator=draw) * 2 - 1
    y = x + 0.5 * torch.randn(4000, 1, generator=draw)
    found = {}
    for known in (0.0, 0.16):
        model = tr.TAGI(nn.Linear(1, 1), tr.likelihoods.Normal(), seed=0)
        model.fit(x, tr.Gaussian(y, known), epochs=5, progress=False)
        found[known] = float(model.likelihood.noise_mean)
    assert found[0.0] == pytest.approx(0.25, rel=0.1)
    assert found[0.16] == pytest.approx(0.09, rel=0.2)


def test_gradient_learners_take_them_under_a_known_noise():
    x, y, variance = _data(64)
    bars = tr.Gaussian(y, variance)
    tr.Backprop(NET, tr.likelihoods.Normal(0.1)).fit(x, bars, epochs=2, progress=False)
    with pytest.raises(TypeError, match="variances"):
        tr.Backprop(NET, tr.likelihoods.Normal(outputs=2)).fit(x, bars, epochs=2, progress=False)


def test_other_likelihoods_refuse_them():
    x, y, _ = _data()
    with pytest.raises(InvalidTarget, match="error bars"):
        tr.TAGI(nn.Linear(3, 2), tr.likelihoods.HeteroscedasticNormal()).update(
            x, tr.Gaussian(y[:, :1], 0.1)
        )
    with pytest.raises(InvalidTarget, match="error bars"):
        tr.TAGI(nn.Linear(3, 1), tr.likelihoods.Bernoulli()).update(x, tr.Gaussian(y[:, :1], 0.1))
