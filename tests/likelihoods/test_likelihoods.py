"""Likelihoods against numerical integration, differentiation and known values."""

import math

import pytest
import torch

from tractable.likelihoods import (
    Bernoulli,
    Categorical,
    HeteroscedasticNormal,
    InvalidTarget,
    Likelihood,
    Normal,
)

D = torch.float64


@pytest.mark.parametrize("classes", [2, 3, 5, 10, 17])
def test_class_probabilities_sum_to_one(classes):
    likelihood = Categorical(classes, link="probit")
    generator = torch.Generator().manual_seed(5)
    mean = torch.randn(7, classes - 1, generator=generator, dtype=D)
    probs = likelihood.predictive(mean, mean.abs()).probs
    assert likelihood.outputs == classes - 1
    torch.testing.assert_close(probs.sum(-1), torch.ones(7, dtype=D))
    evidence = torch.stack(
        [
            likelihood.log_evidence(torch.full((7,), k), mean, mean.abs()).exp()
            for k in range(classes)
        ],
        dim=-1,
    )
    torch.testing.assert_close(evidence, probs, rtol=1e-10, atol=1e-12)


def test_the_published_tree_of_ten_classes():
    paths = Categorical(10, tree="published").paths
    assert paths.shape == (10, 11)
    assert paths[0].nonzero().flatten().tolist() == [0, 1, 3, 6]
    assert paths[9].nonzero().flatten().tolist() == [0, 2, 5, 10]
    assert paths[9][[0, 2, 5, 10]].tolist() == [-1, 1, 1, -1]
    assert paths[6][[0, 1, 4, 9]].tolist() == [1, -1, -1, 1]
    assert len({tuple(row.tolist()) for row in paths}) == 10


def test_extreme_scores_stay_finite():
    mean = torch.tensor([[-1e4], [1e4], [-50.0]])
    d_mu, d_var = Bernoulli().messages(torch.tensor([[1], [1], [1]]), mean, torch.ones(3, 1))
    assert torch.isfinite(d_mu).all()
    assert torch.isfinite(d_var).all()
    assert d_mu[0] > 0
    assert d_mu[1] == 0


def test_noise_scale_from_held_out_rows():
    generator = torch.Generator().manual_seed(6)
    likelihood = Normal()
    likelihood.noise_mean = torch.tensor([0.04], dtype=D)
    mean = torch.zeros(20_000, 1, dtype=D)
    y = 0.6 * torch.randn(20_000, 1, generator=generator, dtype=D)
    scale = likelihood.held_out_scale([(likelihood, y, mean, torch.zeros_like(mean))])
    assert scale == pytest.approx(0.36 / 0.04, rel=0.05)
    likelihood.rescale(scale)
    assert float(likelihood.noise_mean) == pytest.approx(0.36, rel=0.05)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Normal(0.0), "sigma must be a positive"),
        (lambda: Normal(float("nan")), "sigma must be a positive"),
        (lambda: Normal(outputs=0), "outputs must be at least 1"),
        (lambda: Categorical(1), "classes must be at least 2"),
        (lambda: Categorical(3, tree="oak"), "tree must be"),
        (lambda: Categorical(3, link="logit"), "link must be"),
        (lambda: Categorical(3, sigma=-1.0), "sigma must be a positive"),
        (lambda: HeteroscedasticNormal(nodes=1), "nodes must be at least 2"),
    ],
)
def test_bad_arguments_are_refused(make, error):
    with pytest.raises(ValueError, match=error):
        make()


@pytest.mark.parametrize(
    ("likelihood", "y", "outputs", "error"),
    [
        (Normal(1.0), torch.tensor([1.0, math.nan]), (2, 1), "1 NaN or infinite"),
        (Normal(1.0), torch.ones(2, 3), (2, 1), "do not fit outputs"),
        (Categorical(3), torch.tensor([0, 3]), (2, 2), r"labels must lie in 0\.\.2"),
        (Categorical(3), torch.tensor([0.5, 1.0]), (2, 2), "whole numbers"),
        (Categorical(3), torch.tensor([[0, 1], [1, 1]]), (2, 2), "one integer per row"),
        (Bernoulli(), torch.tensor([-1, 1]), (2, 1), r"labels must lie in 0\.\.1"),
    ],
)
def test_bad_targets_are_refused(likelihood, y, outputs, error):
    with pytest.raises(InvalidTarget, match=error):
        likelihood.check_targets(y, torch.Size(outputs))


@pytest.mark.parametrize(
    ("likelihood", "outputs", "error"),
    [
        (Categorical(10), (2, 10), "need 9 outputs"),
        (Bernoulli(), (2, 2), "needs one output"),
        (HeteroscedasticNormal(), (2, 3), "two outputs per target"),
        (Normal(), (2, 3), r"Normal\(outputs=3\)"),
    ],
)
def test_networks_of_the_wrong_width_are_refused(likelihood, outputs, error):
    with pytest.raises(ValueError, match=error):
        likelihood.check_targets(torch.zeros(2), torch.Size(outputs))


class Poisson(Likelihood):
    """A user's own likelihood: only the evidence is given (by a Gaussian-Poisson sum)."""

    def conditional(self, z):
        return torch.distributions.Poisson(z.exp())

    def check_targets(self, y, outputs):
        return y.reshape(outputs)

    def log_prob(self, y, z):
        return (y * z - z.exp() - torch.lgamma(y + 1)).flatten(1).sum(1)

    def log_evidence(self, y, mean, variance):
        nodes = torch.linspace(-6, 6, 121, dtype=mean.dtype)
        z = mean.unsqueeze(-1) + variance.sqrt().unsqueeze(-1) * nodes
        y = y.unsqueeze(-1)
        log_p = y * z - z.exp() - torch.lgamma(y + 1) - 0.5 * nodes**2
        return (log_p.logsumexp(-1) - math.log(math.sqrt(2 * math.pi) / 0.1)).flatten(1).sum(1)

    def predictive(self, mean, variance):
        raise NotImplementedError("not needed here")

    def config(self):
        return {}


def test_a_likelihood_needs_only_its_evidence():
    likelihood = Poisson()
    y = torch.tensor([[3.0], [0.0]], dtype=D)
    mean, variance = torch.tensor([[0.2], [0.5]], dtype=D), torch.full((2, 1), 0.4, dtype=D)
    d_mu, d_var = likelihood.messages(y, mean, variance)
    assert d_mu[0] > 0 > d_mu[1]  # three counts pull up, none pull down
    generator = torch.Generator().manual_seed(7)
    z = mean + variance.sqrt() * torch.randn(2, 400_000, generator=generator, dtype=D)
    w = torch.softmax(y * z - z.exp(), dim=1)
    posterior_mean = (w * z).sum(1, keepdim=True)
    posterior_variance = (w * (z - posterior_mean) ** 2).sum(1, keepdim=True)
    torch.testing.assert_close(mean + variance * d_mu, posterior_mean, rtol=0, atol=4e-3)
    torch.testing.assert_close(
        variance + variance**2 * d_var, posterior_variance, rtol=0, atol=4e-3
    )
