"""Bayes by Backprop against exact answers: a conjugate model, autograd, both estimators."""

import math
from functools import partial

import pytest
import torch
from torch import nn

import tractable as tr
from tractable.learners import BatchPosition

S = 0.5


@pytest.fixture(scope="module")
def conjugate():
    """Return a linear model with orthogonal columns, so that the exact posterior is diagonal."""
    generator = torch.Generator().manual_seed(3)
    x, _ = torch.linalg.qr(torch.randn(32, 3, generator=generator, dtype=torch.float64))
    x = 6 * x
    w = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    y = x @ w + S * torch.randn(32, generator=generator, dtype=torch.float64)
    covariance = (x.T @ x / S**2 + torch.eye(3, dtype=torch.float64)).inverse()
    mean = covariance @ x.T @ y / S**2
    total = x @ x.T + S**2 * torch.eye(32, dtype=torch.float64)
    zero = torch.zeros(32, dtype=torch.float64)
    evidence = torch.distributions.MultivariateNormal(zero, total).log_prob(y)
    return x, y, mean, covariance.diagonal(), evidence.item()


def linear_model(**options):
    return tr.BayesByBackprop(
        nn.Linear(3, 1, bias=False), tr.likelihoods.Normal(S), dtype=torch.float64, **options
    )


@pytest.mark.parametrize("estimator", ["weights", "local"])
@pytest.mark.parametrize("kl", ["closed", "sampled"])
def test_the_exact_posterior_is_found(conjugate, estimator, kl):
    """Within 0.15 posterior deviations in the mean and 12 % in the variance.

    The gradient is noisy, so the optimum is reached up to the noise that the falling learning rate
    leaves; over twelve runs the largest errors were 0.08 deviations and 7 %.
    """
    x, y, mean, variance, evidence = conjugate
    model = linear_model(estimator=estimator, kl=kl, n_train_samples=4, lr=5e-2)
    model.fit(x, y, epochs=500, batch_size=32)
    posterior = model.posterior
    assert ((posterior.loc - mean).abs() / variance.sqrt()).max() < 0.15
    assert (posterior.variance / variance - 1).abs().max() < 0.12
    # For this model the bound is tight: at the optimum it is the evidence itself.
    assert model.elbo(x, y, n_samples=2000) == pytest.approx(evidence, abs=0.15)
    # The recorded value uses one sample: a few nats of noise, but no factor or offset.
    assert model.history[-1]["elbo"] == pytest.approx(evidence, abs=10)


def test_the_bound_is_analytic_anywhere(conjugate):
    """E log p(y|w) and the divergence in closed form, at a posterior that is not the optimum."""
    x, y, *_ = conjugate
    model = linear_model()
    q = model.posterior
    square = ((y - x @ q.loc) ** 2).sum() + (x**2 @ q.variance).sum()
    expected = -0.5 * square / S**2 - 32 * math.log(S * math.sqrt(2 * math.pi))
    divergence = torch.distributions.kl_divergence(
        torch.distributions.Normal(q.loc, q.variance.sqrt()),
        torch.distributions.Normal(torch.zeros(3), torch.ones(3)),
    ).sum()
    assert model.divergence() == pytest.approx(divergence.item(), rel=1e-12)
    draws = 4000
    found = model.elbo(x, y, n_samples=draws)
    # Standard error: the log-likelihood varies by a few nats between draws of so narrow a q.
    assert found == pytest.approx((expected - divergence).item(), abs=0.3)
    sampled = linear_model(kl="sampled")
    assert sampled.divergence(20_000, torch.Generator().manual_seed(0)) == pytest.approx(
        divergence.item(), abs=4 * math.sqrt(3 / 2 / 20_000) + 0.02
    )


def objective(model, x, y, eps, weight):
    """Return f of eqs. (10) and (11), written as in the source, for autograd."""
    mu, rho = (v.detach().clone().requires_grad_() for v in model.state.vectors)
    sigma = (1 + rho.exp()).log()
    w = mu + sigma * eps
    log_q = torch.distributions.Normal(mu, sigma).log_prob(w).sum()
    log_prior = model.method.prior.log_prob(w).sum()
    parts = dict(zip(model.method.network.shapes, model.method.network.split(w), strict=True))
    z = torch.func.functional_call(model.net, parts, (x,))
    f = weight * (log_q - log_prior) - model.likelihood.log_prob(y, z).sum()
    return torch.autograd.grad(f, [mu, rho])


@pytest.mark.parametrize(
    "prior",
    [
        tr.priors.Normal(0.5),
        tr.priors.ScaleMixture(0.5, 1.0, 0.05),
        tr.priors.Laplace(0.3),
        torch.distributions.StudentT(3.0),
    ],
    ids=repr,
)
def test_the_gradient_is_that_of_equations_10_and_11(prior):
    net = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 3))
    model = tr.BayesByBackprop(
        net, tr.likelihoods.Softmax(3), prior=prior, kl="sampled", dtype=torch.float64
    )
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(7, 2, generator=generator, dtype=torch.float64)
    y = torch.randint(3, (7,), generator=generator)
    before = model.state.generator.get_state()
    eps = torch.empty(model.posterior.loc.shape, dtype=torch.float64)
    eps.normal_(generator=model.state.generator)
    model.state.generator.set_state(before)
    truth = objective(model, x, y, eps, 0.1)
    _, _, found = model.method.gradients(model.state, x, y, {}, 0.1)
    for a, b in zip(found, truth, strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("layer", ["linear", "convolution"])
def test_local_gradients_have_the_same_mean_and_a_smaller_variance(layer):
    """Both estimators of one gradient, 600 times each: equal means, less noise per draw."""
    generator = torch.Generator().manual_seed(0)
    if layer == "linear":
        net = nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 1))
        x = torch.randn(64, 6, generator=generator)
    else:
        net = nn.Sequential(
            nn.Conv2d(1, 3, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(75, 1)
        )
        x = torch.randn(32, 1, 5, 5, generator=generator)
    y = torch.randn(len(x), 1, generator=generator)
    draws = {}
    for estimator in ("weights", "local"):
        model = tr.BayesByBackprop(
            net, tr.likelihoods.Normal(0.5), estimator=estimator, rho=(-2.0, -1.0)
        )
        gradients = partial(model.method.gradients, model.state, x, y, {}, 0.1)
        drawn = [torch.cat(gradients()[2]) for _ in range(600)]
        draws[estimator] = torch.stack(drawn).double()
    means = {k: v.mean(0) for k, v in draws.items()}
    errors = {k: v.var(0) / 600 for k, v in draws.items()}
    score = (means["weights"] - means["local"]) / (errors["weights"] + errors["local"]).sqrt()
    assert score.square().mean() < 1.3  # one, were the means equal and normal
    assert score.abs().max() < 5
    total = {k: v.var(0).sum() for k, v in draws.items()}
    assert total["local"] < 0.5 * total["weights"]


def test_a_local_layer_has_the_moments_of_equations_17_and_18():
    from tractable.learners.methods.variational.local_reparameterization import Local

    generator = torch.Generator().manual_seed(0)
    noise = partial(torch.randn, generator=generator)
    weight = Local.wrap(torch.randn(2, 3), torch.rand(2, 3), noise)
    bias = Local.wrap(torch.randn(2), torch.rand(2), noise)
    a = torch.tensor([[0.0, 0.0, 0.0], [1.0, -2.0, 0.5]])
    out = nn.functional.linear(a.repeat(100_000, 1), weight, bias).view(100_000, 2, 2)
    gamma = a @ weight.loc.T + bias.loc
    delta = a**2 @ weight.variance.T + bias.variance
    assert torch.allclose(out.mean(0), gamma, atol=0.03)
    assert torch.allclose(out.var(0), delta, rtol=0.03)
    rows = out[:, 1] - gamma[1]
    assert abs(float((rows[1:] * rows[:-1]).mean())) < 0.03  # rows are independent


def test_a_local_layer_without_noise_has_finite_gradients():
    from tractable.learners.methods.variational.local_reparameterization import Local

    loc, variance = torch.ones(1, 2, requires_grad=True), torch.zeros(1, 2, requires_grad=True)
    weight = Local.wrap(loc, variance, torch.randn)
    nn.functional.linear(torch.zeros(3, 2), weight).sum().backward()
    assert torch.equal(loc.grad, torch.zeros(1, 2))
    assert torch.isfinite(variance.grad).all()


def test_a_derivative_that_a_network_takes_of_a_local_layer_is_differentiated_as_well():
    from tractable.learners.methods.variational.local_reparameterization import Local

    x = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    loc = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    variance = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)
    zeta = torch.randn(4, 3, dtype=torch.float64)
    by_layer = nn.functional.linear(x, Local.wrap(loc, variance, lambda shape: zeta))
    by_hand = x @ loc.T + (x * x @ variance.T).sqrt() * zeta
    found, wanted = (
        torch.autograd.grad(
            torch.autograd.grad(z.square().sum(), x, create_graph=True)[0].square().sum(),
            [loc, variance],
        )
        for z in (by_layer, by_hand)
    )
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_other_functions_use_one_sample_of_the_parameter():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))
            self.embed = nn.Embedding(4, 3)

        def forward(self, x):
            return (self.embed(x) * self.scale + self.scale).sum(-1, keepdim=True)

    model = tr.BayesByBackprop(Net(), tr.likelihoods.Normal(1.0), estimator="local")
    model.fit(torch.tensor([0, 1, 2, 3]), torch.zeros(4), epochs=2, batch_size=2)
    assert torch.isfinite(model.posterior.loc).all()


def test_weights_of_the_divergence_add_up():
    places = [BatchPosition(0.25, 0.0, i, 4) for i in range(4)]

    def shares(kind):
        return [linear_model(kl_weight=kind).method.divergence_share(place) for place in places]

    assert sum(shares("uniform")) == pytest.approx(1)
    assert sum(shares("blundell")) == pytest.approx(1)
    assert shares("blundell") == pytest.approx([8 / 15, 4 / 15, 2 / 15, 1 / 15])
    assert shares(0.01)[0] == 0.01


def test_initial_parameters_are_as_published():
    net = nn.Sequential(nn.Linear(50, 50), nn.LayerNorm(50), nn.Linear(50, 1))
    model = tr.BayesByBackprop(net, tr.likelihoods.Normal(1.0))
    posterior = model.posterior
    weight, rho = posterior["0.weight"].loc, model.state.vectors[1]
    assert weight.min() > -0.2
    assert weight.max() < 0.2
    assert weight.std() == pytest.approx(0.4 / math.sqrt(12), rel=0.05)
    assert rho.min() > -5
    assert rho.max() < -4
    assert torch.equal(posterior["1.weight"].loc, torch.ones(50))  # a scale keeps its meaning


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_train_samples": 0}, "n_train_samples"),
        ({"n_weight_samples": 0}, "n_weight_samples"),
        ({"lr": 0.0}, "lr"),
        ({"estimator": "magic"}, "estimator"),
        ({"kl": "closed", "prior": tr.priors.ScaleMixture()}, "no closed-form"),
        ({"kl_weight": -1.0}, "kl_weight"),
        ({"kl_weight": "half"}, "kl_weight"),
        ({"rho": (1.0, 0.0)}, "rho"),
        ({"optimizer": "Adamant"}, "Adamant"),
    ],
)
def test_bad_arguments_are_refused_before_training(options, message):
    with pytest.raises(ValueError, match=message):
        linear_model(**options)


def test_gaussian_inputs_are_refused():
    with pytest.raises(TypeError, match="TAGI"):
        linear_model().predict(tr.Gaussian(torch.zeros(1, 3), 1.0))


def test_loading_requires_functions_that_cannot_be_saved(tmp_path):
    model = linear_model(optimizer=lambda p, lr: torch.optim.SGD(p, lr=lr))
    model.fit(torch.zeros(4, 3), torch.zeros(4), epochs=1)
    model.save(tmp_path / "m.tr")
    with pytest.raises(ValueError, match="optimizer"):
        tr.Learner.load(tmp_path / "m.tr")
    again = tr.Learner.load(tmp_path / "m.tr", optimizer="SGD")
    assert torch.equal(again.posterior.loc, model.posterior.loc)
