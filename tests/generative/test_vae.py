"""Autoencoders: bounds against closed forms, both estimators, learners, files, holes."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import MultivariateNormal, Normal

import tractable as tr
from tractable.errors import InvalidInput, InvalidModelFile, InvalidTarget, NotFitted, Unsupported
from tractable.generative import VAE, GenerativeModel
from tractable.generative.autoencoder import (
    Autoencoder,
    doubly_reparameterized,
    expectation,
    kl_to_prior,
    slerp,
)
from tractable.likelihoods import Bernoulli
from tractable.likelihoods import Normal as NormalLikelihood

DOUBLE = torch.float64


def constant(mean, variance):
    """An encoder with the same output for every row."""
    net = nn.Linear(1, 2).double()
    with torch.no_grad():
        net.weight.zero_()
        net.bias.copy_(torch.tensor([mean, math.log(variance)], dtype=DOUBLE))
    return net


def fixture(mean=0.6, variance=0.3):
    """VAE-02's: z ~ N(0, 1), x given z ~ N(1.5 z + 0.2, 0.5), q = N(0.6, 0.3)."""
    decoder = nn.Linear(1, 1).double()
    with torch.no_grad():
        decoder.weight.fill_(1.5)
        decoder.bias.fill_(0.2)
    likelihood = NormalLikelihood(math.sqrt(0.5))
    return Autoencoder(constant(mean, variance), decoder, likelihood, latent_dim=1).double()


X = torch.tensor([[1.7]], dtype=DOUBLE)


# --- the book's cases (UDL chapter 17) ----------------------------------------------------------


@torch.no_grad()
def test_vae_02_two_forms_of_the_bound():
    """By quadrature over q: reconstruction less divergence = log p less the divergence to truth."""
    net = fixture()
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    z = 0.6 + math.sqrt(0.3) * torch.tensor(nodes).reshape(-1, 1, 1)
    weights = torch.tensor(weights / weights.sum())
    reconstruction = float((net.reconstruction_log_prob(X, z)[:, 0] * weights).sum())
    assert reconstruction == pytest.approx(-1.607364943, abs=1e-9)
    q = net.encode(X)
    kl = float(kl_to_prior(q.loc, q.scale**2))
    assert kl == pytest.approx(0.431986402, abs=1e-9)
    assert reconstruction - kl == pytest.approx(-2.039351345, abs=1e-9)
    log_p = float(Normal(torch.tensor(0.2, dtype=DOUBLE), math.sqrt(2.75)).log_prob(X))
    assert log_p == pytest.approx(-1.833829898, abs=1e-9)
    truth = MultivariateNormal(torch.tensor([9 / 11]), torch.tensor([[2 / 11]]))
    mine = MultivariateNormal(torch.tensor([0.6]), torch.tensor([[0.3]]))
    gap = float(torch.distributions.kl_divergence(mine, truth))
    assert gap == pytest.approx(0.205521447, abs=1e-6)
    torch.manual_seed(0)
    drawn = net.elbo(X.expand(20_000, 1))
    error = float(drawn.std()) / math.sqrt(len(drawn))
    assert abs(float(drawn.mean()) - (reconstruction - kl)) < 4 * error


@torch.no_grad()
def test_vae_02_at_the_exact_posterior_all_weights_are_log_p():
    net = fixture(9 / 11, 2 / 11)
    weights = net.log_weights(X, n_samples=50)
    assert torch.allclose(weights, torch.tensor(-1.833829898, dtype=DOUBLE), atol=1e-8)
    assert float(weights.std()) < 1e-12
    assert float(net.iwae(X, n_samples=7)) == pytest.approx(-1.833829898, abs=1e-8)


def test_the_importance_weighted_bound_rises_to_log_p():
    net, log_p = fixture(), -1.833829898
    torch.manual_seed(0)
    with torch.no_grad():
        rows = X.expand(4_000, 1)
        found = [net.iwae(rows, n_samples=k).mean().item() for k in (1, 4, 16, 256)]
    assert found == sorted(found)
    assert found[0] == pytest.approx(-2.039351345, abs=0.05)
    assert found[-1] == pytest.approx(log_p, abs=0.005)
    assert found[-1] < log_p + 0.002


def test_vae_03_divergence_to_the_prior():
    mean = torch.tensor([0.5, -1.0, 2.0]).double()
    variance = torch.tensor([0.2, 1.0, 3.0]).double()
    assert float(kl_to_prior(mean, variance)) == pytest.approx(3.480412812, abs=1e-8)
    covariance = torch.tensor([[2.0, 0.5], [0.5, 1.0]]).double()
    found = float(kl_to_prior(torch.tensor([0.5, -1.0]).double(), covariance))
    assert found == pytest.approx(0.845192106, abs=1e-8)


@pytest.mark.parametrize(("estimator", "variance"), [("reparameterized", 4.0), ("score", 51.5625)])
def test_vae_04_two_estimators_of_a_gradient(estimator, variance):
    n = 200_000
    noise = torch.randn(1, n, 1, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    mean = torch.full((n, 1), 1.5, dtype=DOUBLE, requires_grad=True)
    value = expectation(lambda z: z.square().sum(-1), Normal(mean, 1.0), noise, estimator)
    (slope,) = torch.autograd.grad(value.sum(), mean)
    assert float(slope.mean()) == pytest.approx(3, abs=4 * math.sqrt(variance / n))
    assert float(slope.var()) == pytest.approx(variance, rel=0.05)


def test_other_draws_as_a_baseline_leave_the_score_unbiased_with_less_variance():
    n = 50_000
    noise = torch.randn(4, n, 1, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    mean = torch.full((n, 1), 1.5, dtype=DOUBLE, requires_grad=True)
    value = expectation(lambda z: z.square().sum(-1), Normal(mean, 1.0), noise, "score").mean(0)
    (slope,) = torch.autograd.grad(value.sum(), mean)
    assert float(slope.mean()) == pytest.approx(3, abs=4 * float(slope.std()) / math.sqrt(n))
    assert float(slope.var()) < 0.8 * 51.5625 / 4


def importance_slopes(doubly, samples, n=20_000):
    """Of the bound of VAE-02's row in q's mean and the decoder's slope, for many draws at once."""
    noise = torch.randn(samples, n, 1, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    mean = torch.full((n, 1), 0.6, dtype=DOUBLE, requires_grad=True)
    slope = torch.full((n,), 1.5, dtype=DOUBLE, requires_grad=True)
    q = Normal(mean, math.sqrt(0.3))

    def log_joint(z):
        seen = Normal(slope * z[..., 0] + 0.2, math.sqrt(0.5)).log_prob(X[0, 0])
        return seen - 0.5 * z.square().sum(-1)

    if doubly:
        bound = doubly_reparameterized(log_joint, q, noise)
    else:
        z = q.loc + q.scale * noise
        log_q = -0.5 * ((z - q.loc) / q.scale) ** 2 - q.scale.log()
        bound = (log_joint(z) - log_q.sum(-1)).logsumexp(0) - math.log(samples)
    return bound.detach(), *torch.autograd.grad(bound.sum(), [mean, slope])


@pytest.mark.parametrize("samples", [1, 5, 50])
def test_doubly_reparameterized_gradients_are_right_and_have_less_variance(samples):
    found = [importance_slopes(doubly, samples) for doubly in (True, False)]
    assert torch.allclose(found[0][0], found[1][0])
    gap = found[0][1] - found[1][1]
    assert abs(float(gap.mean())) < 4 * float(gap.std()) / math.sqrt(len(gap))
    torch.testing.assert_close(found[0][2], found[1][2])  # the decoder's is the same
    if samples > 1:
        assert float(found[0][1].var()) < 0.7 * float(found[1][1].var())


def test_vae_08_slerp():
    first, second = torch.tensor([1.0, 0.0]).double(), torch.tensor([0.0, 1.0]).double()
    assert float(slerp(first, second, 0.5).norm()) == pytest.approx(1, abs=1e-12)
    assert float((0.5 * first + 0.5 * second).norm()) == pytest.approx(0.707106781, abs=1e-9)
    assert torch.allclose(slerp(first, 2 * first, 0.25), 1.25 * first)


def test_vae_09_jensens_inequality():
    y = torch.tensor([1.0, math.e**2], dtype=DOUBLE)
    assert float(y.mean().log()) == pytest.approx(1.43378083, abs=1e-8)
    assert float(y.log().mean()) == pytest.approx(1, abs=1e-12)


# --- linear and Gaussian: probabilistic PCA ----------------------------------------------------


def low_rank(rows=1_000, seed=0):
    generator = torch.Generator().manual_seed(seed)
    loading = torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 1.5], [0.5, -1.0]]).double()
    z = torch.randn(rows, 2, generator=generator, dtype=DOUBLE)
    return z @ loading.T + 0.5 * torch.randn(rows, 4, generator=generator, dtype=DOUBLE)


def ppca(x, latent):
    """The maximum-likelihood solution (Tipping & Bishop, 1999): loading, noise, log-likelihood."""
    centred = x - x.mean(0)
    value, vector = torch.linalg.eigh(centred.T @ centred / len(x))
    value, vector = value.flip(0), vector.flip(1)
    noise = value[latent:].mean()
    loading = vector[:, :latent] * (value[:latent] - noise).sqrt()
    covariance = loading @ loading.T + noise * torch.eye(x.shape[1], dtype=DOUBLE)
    return loading, noise, MultivariateNormal(x.mean(0), covariance).log_prob(x)


def test_the_bound_of_the_linear_autoencoder_is_the_ppca_likelihood_at_the_optimum():
    """Decoder and encoder as PPCA has them: every weight of every row is its log density."""
    x = low_rank()
    loading, noise, log_p = ppca(x, 2)
    posterior = torch.linalg.inv(loading.T @ loading + noise * torch.eye(2, dtype=DOUBLE))
    back = posterior @ loading.T  # the columns of the loading are orthogonal: so is its square
    assert float(posterior[0, 1].abs()) < 1e-12
    encoder, decoder = nn.Linear(4, 4).double(), nn.Linear(2, 4).double()
    with torch.no_grad():
        decoder.weight.copy_(loading)
        decoder.bias.copy_(x.mean(0))
        encoder.weight.copy_(torch.cat([back, torch.zeros(2, 4)]))
        log_variance = (noise * posterior.diagonal()).log()
        encoder.bias.copy_(torch.cat([-back @ x.mean(0), log_variance]))
    net = Autoencoder(encoder, decoder, NormalLikelihood(math.sqrt(noise)), latent_dim=2).double()
    with torch.no_grad():
        assert torch.allclose(net.log_weights(x, n_samples=3), log_p.expand(3, -1), atol=1e-10)
        assert float(net.elbo(x, n_samples=200).mean()) == pytest.approx(
            float(log_p.mean()), abs=0.01
        )


def test_learning_approaches_the_ppca_likelihood_and_does_not_pass_it():
    """With PPCA's noise; the bound by 200 draws is nearly the density itself."""
    x = low_rank()
    _, noise, log_p = ppca(x, 2)
    log_p = float(log_p.mean())
    model = VAE(
        nn.Linear(4, 4), nn.Linear(2, 4), NormalLikelihood(math.sqrt(noise)), latent_dim=2,
        dtype=DOUBLE, validation_fraction=0.0, standardize=False, learner_kwargs={"lr": 0.05},
    )  # fmt: skip
    model.fit(x, epochs=40, batch_size=100)
    found = float(model.predict(n_importance_samples=200).log_prob(x).mean())
    independent = float(Normal(x.mean(0), x.std(0)).log_prob(x).sum(1).mean())
    assert log_p - 0.04 < found < log_p + 1e-6
    assert found > independent + 0.5


def test_the_noise_is_learnt_and_holes_are_drawn_from_the_conditional_normal():
    x = low_rank()
    model = VAE(
        nn.Linear(4, 4), nn.Linear(2, 4), NormalLikelihood(outputs=4), latent_dim=2, dtype=DOUBLE,
        validation_fraction=0.0, standardize=False, learner_kwargs={"lr": 0.03},
    ).fit(x, epochs=40, batch_size=100)  # fmt: skip
    row = x[:1].clone()
    row[0, 0] = math.nan
    found = tr.infer.impute(model, row, n_samples=1_500)
    net = model.to_module()
    loading, noise = net.decoder.weight.detach(), net.log_noise.exp().detach()
    assert 0.1 < float(noise.mean()) < 0.5  # 0.25 in truth, and 1 before
    covariance = loading @ loading.T + torch.diag(noise)
    slope = torch.linalg.solve(covariance[1:, 1:], covariance[1:, 0])
    centre = net.decoder.bias.detach()
    mean = centre[0] + slope @ (x[0, 1:] - centre[1:])
    std = math.sqrt(covariance[0, 0] - slope @ covariance[1:, 0])
    assert abs(float(found.mean[0, 0] - mean)) < 5 * std / math.sqrt(1_500)
    assert float(found.std[0, 0]) == pytest.approx(std, rel=0.1)
    assert torch.equal(found.mean[0, 1:], x[0, 1:])


# --- learners, contexts, files -----------------------------------------------------------------


def images(rows=300, seed=0):
    """Return two patterns of twelve pixels with some noise; one pixel is never on."""
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.tensor([[1.0] * 6 + [0.0] * 6, [0.0] * 6 + [1.0] * 6])
    kind = torch.randint(2, (rows,), generator=generator)
    flip = torch.rand(rows, 12, generator=generator) < 0.1
    x = torch.where(flip, 1 - patterns[kind], patterns[kind])
    x[:, 3] = 0
    return x, kind


def made(**options):
    encoder = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 4))
    decoder = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 12))
    return VAE(encoder, decoder, Bernoulli("logit"), latent_dim=2, **options)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"learner": tr.BayesByBackprop, "learner_kwargs": {"lr": 0.01, "n_weight_samples": 4}},
        {"n_estimators": 2},
        {"objective": "iwae", "n_latent_samples": 5},
        {"objective": "iwae", "n_latent_samples": 5, "estimator": "doubly_reparameterized"},
        {
            "objective": "iwae",
            "n_latent_samples": 5,
            "estimator": "doubly_reparameterized",
            "n_estimators": 2,
        },
        {"estimator": "score", "n_latent_samples": 4},
        {"beta": 0.5},
    ],
    ids=["backprop", "bbb", "ensemble", "importance", "doubly", "doubly-2", "score", "beta"],
)
def test_every_way_to_learn_models_the_patterns_and_its_file_is_the_same(how, tmp_path):
    x, _ = images()
    how = {"learner_kwargs": {"lr": 0.01}, **how}
    model = made(**how).fit(x, epochs=12)
    p = model.predict(n_importance_samples=20)
    share = x.mean(0).clamp(1e-3, 1 - 1e-3)
    independent = (x * share.log() + (1 - x) * (1 - share).log()).sum(1).mean()
    assert float(p.log_prob(x).mean()) > float(independent) + 1
    assert p.sample(5).shape == (5, 12)
    assert set(p.sample(20).unique().tolist()) <= {0.0, 1.0}
    assert torch.equal(p.sample(5), model.predict(n_importance_samples=20).sample(5))
    model.save(tmp_path / "m.tr")
    again = GenerativeModel.load(tmp_path / "m.tr").predict(n_importance_samples=20)
    assert torch.equal(again.log_prob(x), p.log_prob(x))
    assert torch.equal(again.sample(5), p.sample(5))


def test_weights_that_disagree_are_novel_and_rows_that_do_not_belong_are_unlikely():
    x, _ = images()
    model = made(n_estimators=3, learner_kwargs={"lr": 0.01}).fit(x, epochs=12)
    p = model.predict(n_importance_samples=200)
    strange = (torch.rand(50, 12, generator=torch.Generator().manual_seed(9)) < 0.5).float()
    assert float(p.log_prob_std(strange).mean()) > 1.3 * float(p.log_prob_std(x).mean())
    assert float(p.novelty_share(strange).mean()) > 0.85
    assert float(p.novelty_share(images(seed=5)[0]).mean()) == pytest.approx(0.5, abs=0.15)
    assert torch.isfinite(p.log_prob(torch.ones(1, 12))).all()  # a pixel never on, on


def test_samples_depend_on_the_context():
    x, kind = images()
    encoder, decoder = nn.Linear(13, 4), nn.Sequential(nn.Linear(3, 12))
    model = VAE(encoder, decoder, Bernoulli("logit"), latent_dim=2, learner_kwargs={"lr": 0.05})
    model.fit(x, kind.unsqueeze(1).float(), epochs=30)
    p = model.predict([[0.0], [1.0]])
    drawn = p.sample(200)
    assert drawn.shape == (200, 2, 12)
    assert float(drawn[:, 0, :6].mean()) > 0.6 > 0.4 > float(drawn[:, 1, :6].mean())
    assert p.log_prob(torch.stack([x[kind == 0][0], x[kind == 1][0]])).shape == (2,)


def test_gray_pixels_are_sampled_in_every_epoch():
    grey = torch.full((200, 12), 0.5)
    grey[:, :6] = 1.0
    model = made(binarize=True, learner_kwargs={"lr": 0.01}, validation_fraction=0.0).fit(
        grey, epochs=5
    )
    drawn = model.predict().sample(300)
    assert float(drawn[:, :6].mean()) > 0.85
    assert float(drawn[:, 6:].mean()) == pytest.approx(0.5, abs=0.1)


def test_networks_of_ones_own_come_back_with_the_network(tmp_path):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(12, 4)

        def forward(self, x):
            return self.layer(x)

    x, _ = images()
    model = VAE(Own(), nn.Linear(2, 12), Bernoulli("logit"), latent_dim=2).fit(x, epochs=1)
    model.save(tmp_path / "m.tr")
    with pytest.raises(InvalidModelFile, match="ModuleList"):
        GenerativeModel.load(tmp_path / "m.tr")
    again = VAE.load(tmp_path / "m.tr", net=nn.ModuleList([Own(), nn.Linear(2, 12)]))
    assert torch.equal(again.predict().log_prob(x), model.predict().log_prob(x))


# --- bad input ---------------------------------------------------------------------------------


def test_bad_input_is_refused():
    linear, likelihood = nn.Linear(3, 4), NormalLikelihood(1.0)
    with pytest.raises(ValueError, match="latent_dim must be at least 1, got 0"):
        VAE(linear, nn.Linear(2, 3), likelihood, latent_dim=0)
    with pytest.raises(ValueError, match="no beta"):
        VAE(linear, nn.Linear(2, 3), likelihood, latent_dim=2, beta=2.0, objective="iwae")
    with pytest.raises(ValueError, match="needs objective='iwae'"):
        VAE(linear, nn.Linear(2, 3), likelihood, latent_dim=2, estimator="doubly_reparameterized")
    with pytest.raises(TypeError, match=r"likelihood must be one of tractable\.likelihoods"):
        VAE(linear, nn.Linear(2, 3), nn.MSELoss(), latent_dim=2)
    with pytest.raises(TypeError, match="encoder must be a"):
        VAE("encoder", linear, likelihood, latent_dim=2)
    with pytest.raises(Unsupported, match=r"generative\.LatentDecoder"):
        VAE(linear, nn.Linear(2, 3), likelihood, latent_dim=2, learner=tr.TAGI)
    with pytest.raises(NotFitted):
        made().to_module()
    x = torch.rand(20, 3)
    with pytest.raises(InvalidInput, match="encoder must return 6 numbers per row"):
        VAE(linear, nn.Linear(3, 3), likelihood, latent_dim=3).fit(x)
    with pytest.raises(InvalidTarget, match="0 or 1"):
        VAE(linear, nn.Linear(2, 3), Bernoulli(), latent_dim=2).fit(x)
    with pytest.raises(ValueError, match="n_importance_samples must be"):
        made().fit(images()[0], epochs=1).predict(n_importance_samples=0)


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_log_densities_have_the_precision_of_the_model(dtype):
    x = low_rank()[:100]
    parts = (nn.Linear(4, 4), nn.Linear(2, 4), NormalLikelihood(outputs=4))
    model = VAE(*parts, latent_dim=2, dtype=dtype).fit(x, epochs=1)
    p = model.predict(n_importance_samples=20)
    assert p.log_prob(x).dtype == p.log_prob_std(x).dtype == p.novelty_share(x).dtype == dtype
    net = model.to_module()
    assert net.iwae(x.to(dtype)).dtype == dtype
    with torch.no_grad():
        assert net.iwae(x.to(dtype)).dtype == dtype
