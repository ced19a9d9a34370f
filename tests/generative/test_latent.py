"""Decoder models: compared with probabilistic PCA and numerical integration; files."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import MultivariateNormal, Normal

import tractable as tr
from tractable.errors import InvalidInput, Unsupported
from tractable.generative import GenerativeModel, LatentDecoder


def low_rank(rows=600, seed=0):
    generator = torch.Generator().manual_seed(7)
    loading = torch.randn(8, 2, generator=generator)
    generator.manual_seed(seed)
    z = torch.randn(rows, 2, generator=generator)
    return z @ loading.T + 0.3 * torch.randn(rows, 8, generator=generator)


def ppca(x, latent, at):
    """Log density of rows under the maximum-likelihood solution (Tipping & Bishop, 1999)."""
    x = x.double()
    value, vector = torch.linalg.eigh(torch.cov(x.T, correction=0))
    value, vector = value.flip(0), vector.flip(1)
    noise = value[latent:].mean()
    loading = vector[:, :latent] * (value[:latent] - noise).sqrt()
    covariance = loading @ loading.T + noise * torch.eye(x.shape[1]).double()
    return MultivariateNormal(x.mean(0), covariance).log_prob(at.double()).mean()


def test_a_linear_decoder_approaches_probabilistic_pca():
    x, new = low_rank(), low_rank(seed=1)
    best = float(ppca(x, 2, new))
    independent = float(Normal(x.mean(0), x.std(0)).log_prob(new).sum(1).mean())
    model = LatentDecoder(nn.Linear(2, 8), latent_dim=2).fit(x, epochs=10)
    found = float(model.predict().log_prob(new).mean())
    assert best - 0.5 < found < best + 0.1
    assert found > independent + 4
    drawn = model.predict().sample(4_000)
    gap = (torch.cov(drawn.T) - torch.cov(x.T)).norm() / torch.cov(x.T).norm()
    assert float(gap) < 0.35
    assert model.predict().novelty_share(new).mean() == pytest.approx(0.5, abs=0.12)


def test_the_density_is_the_integral_over_the_latent():
    x = low_rank()[:, :3]
    net = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 3))
    model = LatentDecoder(
        net, latent_dim=1, standardize=False, validation_fraction=0.0, dtype=torch.float64
    )
    model.fit(x, epochs=4)
    grid = torch.linspace(-7, 7, 4_001, dtype=torch.float64)
    prior = Normal(torch.zeros((), dtype=torch.float64), 1.0).log_prob(grid)
    rows = x[:5].double()
    for row in rows:
        seen = row.expand(len(grid), -1)
        joint = model.learner_.predict(grid.unsqueeze(1)).log_prob(seen) + prior
        exact = math.log(float(torch.trapezoid(joint.exp(), grid)))
        found = float(model.predict(n_importance_samples=4_000).log_prob(row.unsqueeze(0)))
        assert found == pytest.approx(exact, abs=0.05)


def test_the_latent_of_rows_explains_them():
    x = low_rank()
    model = LatentDecoder(nn.Linear(2, 8), latent_dim=2).fit(x, epochs=10)
    known = model.infer(x[:50])
    assert known.shape == (50, 2)
    assert float(known.variance.max()) < 1
    columns = model.scaler_
    back = columns.to_data(model.learner_.predict(known.loc).mean)
    assert float((back - x[:50]).square().mean()) < 0.5 * float(x.var())


def test_files(tmp_path):
    x = low_rank(100)
    for likelihood in (None, tr.likelihoods.Normal(0.3)):
        model = LatentDecoder(nn.Linear(2, 8), likelihood, latent_dim=2, seed=3).fit(x, epochs=1)
        model.save(tmp_path / "m.tr")
        again = GenerativeModel.load(tmp_path / "m.tr")
        assert type(again) is LatentDecoder
        assert torch.equal(again.predict().log_prob(x), model.predict().log_prob(x))
        assert torch.equal(again.predict().sample(4), model.predict().sample(4))


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="latent_dim must be at least 1"):
        LatentDecoder(nn.Linear(2, 8), latent_dim=0)
    with pytest.raises(Unsupported, match="only TAGI has"):
        LatentDecoder(nn.Linear(2, 8), latent_dim=2, learner=tr.Backprop)
    with pytest.raises(Unsupported, match="does not support a context"):
        LatentDecoder(nn.Linear(2, 8), latent_dim=2).fit(low_rank(20), low_rank(20)[:, :1])
    with pytest.raises(ValueError, match="n_importance_samples must be at least 1"):
        LatentDecoder(nn.Linear(2, 8), latent_dim=2).fit(low_rank(20), epochs=1).predict(
            n_importance_samples=0
        )
    with pytest.raises(ValueError, match="epochs must be at least 1"):
        LatentDecoder(nn.Linear(2, 8), latent_dim=2).fit(low_rank(20), epochs=0)
    model = LatentDecoder(nn.Linear(2, 8), latent_dim=2).fit(low_rank(20), epochs=1)
    with pytest.raises(InvalidInput, match="have 7 columns, and the model has 8"):
        model.infer(low_rank(3)[:, :7])
    holed = low_rank(3)
    holed[1, 2] = torch.nan
    with pytest.raises(InvalidInput, match="first in row 1, column 2"):
        model.infer(holed)
    assert model.infer(low_rank(3)[0]).loc.shape == (1, 2)
