"""A prior that is another fit's posterior: exact where it can be, kept in files, refused if odd."""

import math

import pytest
import torch
from torch import nn

import tractable as tr
from tractable.priors import NormalEach


def line(seed: int, rows: int = 6):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 1, generator=generator, dtype=torch.float64)
    return x, 2 * x + 0.5 * torch.randn(rows, 1, generator=generator, dtype=torch.float64)


def scalar(**options):
    net = nn.Linear(1, 1, bias=False)
    noise = tr.likelihoods.Normal(0.5)
    return tr.TAGI(net, noise, dtype=torch.float64, epoch_forgetting=0.0, **options)


def test_two_halves_in_turn_are_the_whole_at_once():
    """y = w x + noise: posterior precision adds up exactly, whichever way the rows come."""
    (xa, ya), (xb, yb) = line(0), line(1)
    first = scalar()
    prior = first.posterior["weight"]
    m, v = float(prior.loc), float(prior.variance)
    for x, y in zip(xa, ya, strict=True):
        first.update(x, y)
    second = scalar(prior=first.posterior)
    for x, y in zip(xb, yb, strict=True):
        second.update(x, y)
    x, y = torch.cat([xa, xb]), torch.cat([ya, yb])
    precision = 1 / v + float((x * x).sum()) / 0.25
    mean = (m / v + float((x * y).sum()) / 0.25) / precision
    assert float(second.posterior["weight"].variance) == pytest.approx(1 / precision, rel=1e-10)
    assert float(second.posterior["weight"].loc) == pytest.approx(mean, rel=1e-10)


def body_and_head(outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, outputs))


@pytest.fixture(scope="module")
def first():
    x, y = line(0, 40)
    return tr.TAGI(body_and_head(1), tr.likelihoods.Normal(0.5)).fit(x, y, epochs=3)


def test_kept_parts_are_as_found_and_wider_and_fresh_ones_are_new(first):
    noise = tr.likelihoods.Normal(0.5, outputs=2)
    model = tr.TAGI(body_and_head(2), noise, prior=first, prior_scale=4.0, reinit=["2"])
    for name in ("0.weight", "0.bias"):
        assert torch.equal(model.posterior[name].loc, first.posterior[name].loc)
        torch.testing.assert_close(
            model.posterior[name].variance, 4 * first.posterior[name].variance
        )
    assert model.posterior["2.weight"].variance.unique().numel() == 1
    before = first.posterior["0.weight"].loc.clone()
    model.fit(*(part.repeat(1, n) for part, n in zip(line(1, 20), (1, 2), strict=True)), epochs=2)
    assert torch.equal(first.posterior["0.weight"].loc, before)


def test_a_file_brings_it_back(first, tmp_path):
    x, y = line(2, 20)
    model = tr.TAGI(body_and_head(1), tr.likelihoods.Normal(0.5), prior=first.posterior)
    model.fit(x, y, epochs=2)
    model.save(tmp_path / "model.tr")
    again = tr.Learner.load(tmp_path / "model.tr")
    assert torch.equal(again.predict(x).mean, model.predict(x).mean)
    assert again.posterior.prior_variance == model.posterior.prior_variance
    for learner in (model, again):
        learner.fit(x, y, epochs=2)
    assert torch.equal(again.posterior.variance, model.posterior.variance)
    again.update(x[0], y[0], memory_rows=100)


def test_bayes_by_backprop_begins_there_and_is_held_there(first):
    """As wide as the prior, where rho is wider, and then without divergence; else as rho says."""
    wide = {"prior": first, "prior_scale": 2.0}
    model = tr.BayesByBackprop(body_and_head(1), tr.likelihoods.Normal(0.5), rho=(3.0, 3.0), **wide)
    torch.testing.assert_close(model.posterior.loc, first.posterior.loc)
    torch.testing.assert_close(
        model.posterior.variance, 2 * first.posterior.variance, rtol=1e-4, atol=0
    )
    assert abs(model.divergence()) < 1e-3
    model = tr.BayesByBackprop(body_and_head(1), tr.likelihoods.Normal(0.5), **wide)
    torch.testing.assert_close(model.posterior.loc, first.posterior.loc)
    assert bool((model.posterior.variance <= 1.0001 * 2 * first.posterior.variance).all())
    assert float(model.posterior.variance.sqrt().max()) < 0.02
    x, y = line(3, 20)
    model.fit(x, y, epochs=2)
    assert model.divergence() > 0
    fresh = tr.BayesByBackprop(
        body_and_head(1), tr.likelihoods.Normal(0.5), prior=first, reinit=["2"]
    )
    assert not torch.equal(fresh.posterior["2.weight"].loc, first.posterior["2.weight"].loc)
    model.prune(0.5)
    assert math.isfinite(model.divergence())


def test_a_normal_of_each_weight_is_torchs():
    mean, sigma = torch.randn(5, dtype=torch.float64), torch.rand(5, dtype=torch.float64) + 0.1
    prior, w = NormalEach(mean, sigma), torch.randn(5, dtype=torch.float64, requires_grad=True)
    theirs = torch.distributions.Normal(mean, sigma)
    torch.testing.assert_close(prior.log_prob(w), theirs.log_prob(w))
    (slope,) = torch.autograd.grad(theirs.log_prob(w).sum(), w)
    torch.testing.assert_close(prior.score(w.detach()), slope)
    mu = torch.randn(5, dtype=torch.float64, requires_grad=True)
    s = (torch.rand(5, dtype=torch.float64) + 0.1).requires_grad_()
    kl = torch.distributions.kl_divergence(torch.distributions.Normal(mu, s), theirs)
    torch.testing.assert_close(prior.divergence(mu, s), kl)
    for ours, autograd in zip(
        prior.divergence_gradient(mu.detach(), s.detach()),
        torch.autograd.grad(kl.sum(), (mu, s)),
        strict=True,
    ):
        torch.testing.assert_close(ours, autograd)


def test_what_cannot_be_a_prior_is_refused(first):
    noise = tr.likelihoods.Normal(0.5)
    with pytest.raises(
        ValueError, match=r"2.weight has shape .*, expected \(2, 8\).*reinit=\['2'\]"
    ):
        tr.TAGI(body_and_head(2), noise, prior=first)
    with pytest.raises(ValueError, match="point estimate"):
        tr.TAGI(body_and_head(1), noise, prior=tr.Backprop(body_and_head(1), noise))
    with pytest.raises(ValueError, match="both give initial weights"):
        tr.TAGI(body_and_head(1), noise, prior=first, init="net")
    with pytest.raises(ValueError, match="prior_scale must be a positive"):
        tr.TAGI(body_and_head(1), noise, prior=first, prior_scale=0.0)
    with pytest.raises(ValueError, match="every parameter"):
        tr.TAGI(body_and_head(1), noise, prior=first, reinit=["0", "2"])
    with pytest.raises(TypeError, match="posterior of another fit"):
        tr.TAGI(body_and_head(1), noise, prior=3.0)
    with pytest.raises(ValueError, match="another fit"):
        tr.BayesByBackprop(body_and_head(1), noise, reinit=["2"])
    with pytest.raises(ValueError, match="vectors of one length"):
        NormalEach(torch.zeros(2), torch.ones(3))
    with pytest.raises(ValueError, match="sigma positive"):
        NormalEach(torch.zeros(2), torch.tensor([1.0, 0.0]))
