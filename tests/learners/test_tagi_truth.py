"""TAGI compared with exact answers."""

import pytest
import torch
from torch import nn

import tractable as tr
from tractable.learners.methods.tagi import batch_rule

D = torch.float64


def linear_model(features: int, noise: float, **options) -> tr.TAGI:
    net = nn.Linear(features, 1)
    options = {"epoch_forgetting": 0.0, "dtype": D, "gain": 1.0, **options}
    return tr.TAGI(net, tr.likelihoods.Normal(noise), **options)


def exact_posterior(model: tr.TAGI, x: torch.Tensor, y: torch.Tensor, noise: float):
    """Return mean and covariance of weights and bias of a linear model, by linear algebra."""
    mean, prior = model.posterior.loc.clone(), torch.diag(model.posterior.variance)
    design = torch.cat([x, torch.ones(len(x), 1, dtype=D)], dim=1)
    gain = (
        prior
        @ design.T
        @ torch.linalg.inv(design @ prior @ design.T + noise**2 * torch.eye(len(x), dtype=D))
    )
    return mean + gain @ (y - design @ mean), prior - gain @ design @ prior


def test_one_observation_of_a_linear_model_gives_the_exact_marginals():
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(1, 6, generator=generator, dtype=D), torch.tensor([1.7], dtype=D)
    model = linear_model(6, noise=0.2)
    mean, covariance = exact_posterior(model, x, y, 0.2)
    model.update(x, y)
    torch.testing.assert_close(model.posterior.loc, mean, rtol=0, atol=1e-12)
    torch.testing.assert_close(model.posterior.variance, covariance.diag(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("noise", [0.01, 0.3, 5.0])
def test_one_weight_and_many_observations_give_the_conjugate_posterior(noise):
    generator = torch.Generator().manual_seed(2)
    net = nn.Linear(1, 1, bias=False)
    model = tr.TAGI(net, tr.likelihoods.Normal(noise), gain=1.0, dtype=D)
    x = torch.randn(50, 1, generator=generator, dtype=D)
    y = 0.7 * x[:, 0] + noise * torch.randn(50, generator=generator, dtype=D)
    m0, v0 = model.posterior.loc.clone(), model.posterior.variance.clone()
    for row, target in zip(x, y, strict=True):
        model.update(row, target)
    precision = 1 / v0 + (x**2).sum() / noise**2
    mean = (m0 / v0 + (x[:, 0] * y).sum() / noise**2) / precision
    torch.testing.assert_close(model.posterior.variance, 1 / precision, rtol=1e-10, atol=0)
    torch.testing.assert_close(model.posterior.loc, mean, rtol=1e-9, atol=1e-12)


def test_a_batch_of_equal_inputs_gives_the_mean_of_the_joint_posterior():
    x = torch.tensor([[0.5, -1.2, 2.0]], dtype=D).expand(16, 3)
    y = torch.full((16,), 0.9, dtype=D)
    model = linear_model(3, noise=0.4)
    mean, covariance = exact_posterior(model, x, y, 0.4)
    prior = model.posterior.variance.clone()
    model.update(x, y)
    torch.testing.assert_close(model.posterior.loc, mean, rtol=0, atol=1e-12)
    assert (model.posterior.variance >= covariance.diag() - 1e-12).all()  # never overconfident
    assert (model.posterior.variance < prior).all()


def test_one_weight_and_a_batch_of_equal_inputs():
    net = nn.Linear(1, 1, bias=False)
    model = tr.TAGI(net, tr.likelihoods.Normal(1e-6), gain=1.0, dtype=D)
    model.update(torch.full((8, 1), 2.0, dtype=D), torch.full((8,), 3.0, dtype=D))
    torch.testing.assert_close(model.posterior.loc, torch.tensor([1.5], dtype=D), atol=1e-6, rtol=0)


def test_uncorrelated_observations_are_not_damped():
    model = linear_model(4, noise=0.5)
    model.posterior.variance[4] = 0.0  # no bias: unit inputs are then uncorrelated
    x, y = torch.eye(4, dtype=D), torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=D)
    mean, _covariance = exact_posterior(model, x, y, 0.5)
    model.update(x, y)
    torch.testing.assert_close(model.posterior.loc, mean, rtol=0, atol=1e-12)


def test_in_place_update_equals_the_equations():
    generator = torch.Generator().manual_seed(3)
    for rule in batch_rule.BATCH_RULES:
        damped = ((0.3, 7.0), (0.02, 5.0)) if rule == "damped" else ()
        for alpha, n in ((1.0, 1.0), (1.0, 9.0), *damped):
            loc = torch.randn(20, generator=generator, dtype=D)
            variance = torch.rand(20, generator=generator, dtype=D)
            shift = torch.randn(20, generator=generator, dtype=D)
            g_var = -torch.rand(20, generator=generator, dtype=D)
            numbers = (torch.tensor(number, dtype=D) for number in (alpha, n, 1.0, 1.0))
            step = batch_rule.Step(*numbers)
            want = batch_rule.updated(rule, loc, variance, shift, g_var, step)
            batch_rule.apply(rule, loc, variance, shift, g_var, alpha, n)
            torch.testing.assert_close((loc, variance), want, rtol=1e-13, atol=1e-13)


def test_noise_is_inferred():
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(4000, 2, generator=generator)
    y = x @ torch.tensor([1.0, -1.0]) + 0.3 * torch.randn(4000, generator=generator)
    for batch_size in (1, 16):
        model = tr.TAGI(nn.Linear(2, 1), tr.likelihoods.Normal(), gain=1.0, epoch_forgetting=0.0)
        model.fit(x, y, epochs=1, batch_size=batch_size)
        assert float(model.likelihood.noise_mean) ** 0.5 == pytest.approx(0.3, rel=0.05)


def test_forgetting_moves_the_precision_towards_the_prior():
    variance, prior = torch.tensor([0.1, 1.0], dtype=D), torch.tensor([1.0, 1.0], dtype=D)
    batch_rule.forget(variance, prior, 0.25)
    torch.testing.assert_close(1 / variance, torch.tensor([10 - 0.25 * 9, 1.0], dtype=D))


def test_published_equations_for_a_deep_network_and_one_observation():
    """Invariant 3: batch size 1, one output, any depth."""
    generator = torch.Generator().manual_seed(5)
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1))
    damped = tr.TAGI(net, tr.likelihoods.Normal(0.5), dtype=D, seed=1)
    published = tr.TAGI(net, tr.likelihoods.Normal(0.5), dtype=D, seed=1, batch_rule="published")
    for _ in range(10):
        x = torch.randn(3, generator=generator, dtype=D)
        y = torch.randn((), generator=generator, dtype=D)
        damped.update(x, y)
        published.update(x, y)
    torch.testing.assert_close(
        damped.posterior.loc, published.posterior.loc, rtol=1e-12, atol=1e-13
    )
    torch.testing.assert_close(
        damped.posterior.variance, published.posterior.variance, rtol=1e-12, atol=0
    )
