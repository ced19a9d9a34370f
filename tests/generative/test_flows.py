"""Modules that return a distribution, as models of rows."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.datasets import make_moons
from torch import nn

import tractable as tr
from tractable.errors import InvalidInput, InvalidModelFile, Unsupported
from tractable.generative import (
    ComposedFlow,
    Flow,
    GenerativeModel,
    fit_reverse_kl,
    neural_spline_flow,
)
from tractable.generative import transforms as T

pytest.importorskip("zuko")


@pytest.fixture(scope="module")
def moons():
    return make_moons(1200, noise=0.08, random_state=0)


def test_linear_flow_is_the_gaussian_of_greatest_likelihood():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 3)) @ rng.standard_normal((3, 3)) + [1.0, -2.0, 0.5]
    exact = stats.multivariate_normal(x.mean(0), np.cov(x.T, bias=True)).logpdf(x)
    chain = ComposedFlow([T.Linear(3)], 3).double()
    root = torch.linalg.inv(torch.linalg.cholesky(torch.tensor(np.cov(x.T, bias=True))))
    with torch.no_grad():
        chain.transforms[0].below.copy_(root)
        chain.transforms[0].log_diagonal.copy_(root.diagonal().log())
        chain.transforms[0].bias.copy_(-root @ torch.tensor(x.mean(0)))
        at_optimum = chain().log_prob(torch.tensor(x)).numpy()
    np.testing.assert_allclose(at_optimum, exact, rtol=0, atol=1e-10)
    model = Flow(
        ComposedFlow([T.Linear(3)], 3),
        validation_fraction=0,
        dtype=torch.float64,
        learner_kwargs={"lr": 0.05},
    )
    found = model.fit(x, epochs=120, batch_size=400).predict().log_prob(x).numpy()
    np.testing.assert_allclose(found, exact, rtol=0, atol=0.02)
    assert found.mean() > exact.mean() - 1e-3
    assert found.mean() <= exact.mean() + 1e-12  # the best there is


def test_spline_flow_of_moons(tmp_path, moons):
    X, _ = moons
    model = Flow(hidden_layer_sizes=(32,), n_transforms=2, learner_kwargs={"lr": 5e-3}).fit(
        X, epochs=8, batch_size=64
    )
    p = model.predict()
    new = make_moons(500, noise=0.08, random_state=1)[0]
    gaussian = Flow(ComposedFlow([T.Linear(2)], 2), learner_kwargs={"lr": 0.05}).fit(
        X, epochs=20, batch_size=200
    )
    assert p.log_prob(new).mean() > gaussian.predict().log_prob(new).mean() + 0.5
    side = torch.linspace(-4, 5, 300)
    mass = p.log_prob(torch.cartesian_prod(side, side)).exp().sum() * float(side[1] - side[0]) ** 2
    assert float(mass) == pytest.approx(1, abs=0.02)
    assert abs(float(p.novelty_share(new).mean()) - 0.5) < 0.1
    assert float(p.novelty_share([[0.5, 3.0]])) > 0.98
    assert torch.equal(p.sample(5), model.predict().sample(5))
    assert (p.sample(2000).mean(0) - torch.tensor(X.mean(0))).abs().max() < 0.2
    model.save(tmp_path / "flow.tr")
    again = GenerativeModel.load(tmp_path / "flow.tr").predict()
    assert torch.equal(again.log_prob(new), p.log_prob(new))
    assert torch.equal(again.sample(5), p.sample(5))


def test_ensembles_average_densities(moons):
    X, y = moons
    model = Flow(hidden_layer_sizes=(16,), n_transforms=1, n_estimators=3).fit(
        X, y, epochs=1, batch_size=100
    )
    p = model.predict([[1.0]])
    each = p.density.log_prob_by_weights(model.scaler_.to_model(torch.tensor(X[:9]), torch.float32))
    assert each.shape == (3, 9)
    mean = each.exp().mean(0).log() - model.scaler_.log_scale
    assert torch.allclose(p.log_prob(X[:9]), mean, atol=1e-5)
    assert (p.log_prob_std(X[:9]) > 0).all()
    assert p.sample(11).shape == (11, 1, 2)


def test_bayes_by_backprop_averages_over_draws(tmp_path, moons):
    X, _ = moons
    model = Flow(
        hidden_layer_sizes=(16,),
        n_transforms=1,
        learner=tr.BayesByBackprop,
        learner_kwargs={"n_weight_samples": 8, "lr": 1e-2},
    ).fit(X[:400], epochs=5, batch_size=50)
    p = model.predict()
    assert (p.log_prob_std(X[:50]) > 0).all()
    model.save(tmp_path / "m.tr")
    assert torch.equal(Flow.load(tmp_path / "m.tr").predict().log_prob(X[:5]), p.log_prob(X[:5]))
    assert model.predict(n_weight_samples=3).density.log_prob_by_weights(
        torch.zeros(2, 2)
    ).shape == (3, 2)


class Lopsided(nn.Module):
    """A user's own module: normal, with a mean that a context moves."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Linear(1, 2)

    def forward(self, context):
        mean = self.shift(context)
        return torch.distributions.Independent(torch.distributions.Normal(mean, 0.5), 1)


def test_own_modules(tmp_path):
    generator = torch.Generator().manual_seed(0)
    c = torch.randn(300, 1, generator=generator)
    x = torch.cat([2 * c, -c], 1) + 0.5 * torch.randn(300, 2, generator=generator)
    model = Flow(Lopsided(), standardize=False, learner_kwargs={"lr": 0.05}).fit(
        x, c, epochs=10, batch_size=30
    )
    assert torch.allclose(
        model.predict([[1.0]]).sample(4000).mean((0, 1)), torch.tensor([2.0, -1.0]), atol=0.15
    )
    model.save(tmp_path / "m.tr")
    with pytest.raises(InvalidModelFile, match="net="):
        Flow.load(tmp_path / "m.tr")
    again = Flow.load(tmp_path / "m.tr", net=Lopsided())
    assert torch.equal(again.predict(c[:5]).log_prob(x[:5]), model.predict(c[:5]).log_prob(x[:5]))
    with pytest.raises(InvalidModelFile):
        Flow.load(tmp_path / "m.tr", net=ComposedFlow([T.Linear(2)], 2))


def test_d_07_reverse_kl_finds_the_density_and_its_factor():
    mean, scale = torch.tensor([1.0, -1.0]), torch.tensor([0.5, 2.0])

    def target(x):  # a normal density, 10 times too large
        normal = torch.distributions.Independent(torch.distributions.Normal(mean, scale), 1)
        return normal.log_prob(x) + math.log(10)

    net = ComposedFlow([T.Linear(2)], 2)
    history = fit_reverse_kl(net, target, steps=400, batch_size=64, lr=0.05)
    # At the optimum log q - log p is the same for every sample: minus log 10.
    assert history[-1] == pytest.approx(-math.log(10), abs=0.01)
    with torch.no_grad():
        torch.manual_seed(0)
        x = net().rsample((20_000,))
    # The log determinant keeps the samples apart: literally (B 16.11) they would collapse.
    assert torch.allclose(x.std(0), scale, rtol=0.05)
    assert torch.allclose(x.mean(0), mean, atol=0.06)


def test_bad_input(moons):
    X, _ = moons
    with pytest.raises(InvalidInput, match=r"returned a\s+Tensor"):
        Flow(Returns(), standardize=False).fit(X)
    for learner in (tr.TAGI, tr.Laplace):
        with pytest.raises(Unsupported, match=r"generative\.Autoregressive"):
            Flow(learner=learner)
    with pytest.raises(TypeError, match=r"torch\.nn\.Module"):
        Flow(net=lambda: None)
    with pytest.raises(Unsupported, match="closed form"):
        tr.TAGI(nn.Linear(2, 1), tr.likelihoods.LogDensity()).fit(X, X[:, :1], epochs=1)
    with pytest.raises(ValueError, match="needs another likelihood"):
        tr.Backprop(nn.Linear(2, 2), tr.likelihoods.LogDensity()).fit(X, X[:, :1])
    assert isinstance(neural_spline_flow(2), nn.Module)


class Returns(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(2))

    def forward(self):
        return self.w
