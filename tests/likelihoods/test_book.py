"""Losses of a textbook (Prince, Understanding Deep Learning, chapters 5 and 9) with its numbers."""

import math

import pytest
import torch
from torch.distributions import Poisson as PoissonDistribution

from tractable.likelihoods import (
    Bernoulli,
    FromDistribution,
    HeteroscedasticNormal,
    Mixture,
    Normal,
    Poisson,
    Softmax,
    VonMises,
)

D = torch.float64


def row(*values, dtype=D):
    return torch.tensor([values], dtype=dtype)


def nll(likelihood, y, z):
    return -float(likelihood.log_prob(y, z))


def test_binary_cross_entropy_far_out():
    """LOS-01: the loss at logits of 1000 is finite, and so is its slope."""
    logit = Bernoulli("logit")
    for z, y, loss in ((1000.0, 0, 1000.0), (-1000.0, 0, 0.0), (1000.0, 1, 0.0)):
        leaf = row(z).requires_grad_()
        found = -logit.log_prob(row(y, dtype=torch.int64), leaf)
        assert float(found.detach()) == loss
        (slope,) = torch.autograd.grad(found.sum(), leaf)
        assert float(slope) == (1.0 if loss else 0.0)


def test_binary_cross_entropy():
    """LOS-02."""
    logit = Bernoulli("logit")
    assert nll(logit, row(1, dtype=torch.int64), row(2.0)) == pytest.approx(0.126928011, abs=1e-9)
    assert nll(logit, row(0, dtype=torch.int64), row(2.0)) == pytest.approx(2.126928011, abs=1e-9)


def test_a_predicted_variance():
    """LOS-03: the second output is a deviation there, a log variance here."""
    z = row(0.0, math.log(2.0**2))
    assert nll(HeteroscedasticNormal(), row(1.0), z) == pytest.approx(1.737085714, abs=1e-9)


@pytest.mark.parametrize(
    ("y", "mean", "kappa", "loss"),
    [(0.0, 0.0, 1.0, 1.073791425), (1.5, 0.5, 2.0, 1.581265996), (-3.0, 3.0, 4.0, 0.422168715)],
)
def test_von_mises(y, mean, kappa, loss):
    """LOS-04: with log 2 pi."""
    assert nll(VonMises(kappa), row(y), row(mean)) == pytest.approx(loss, abs=1e-9)


def test_a_mixture_of_two_normals():
    """LOS-06: two logits here, their difference there; deviations there, log variances here."""
    lam = torch.sigmoid(torch.tensor(0.4, dtype=D))
    assert float(lam) == pytest.approx(0.59868766, abs=1e-8)
    z = row(0.4, 0.0, -1.0, math.log(0.5**2), 2.0, math.log(1.5**2))
    found = nll(Mixture(HeteroscedasticNormal(), 2), row(0.3), z)
    assert found == pytest.approx(2.625289007, abs=1e-9)


def test_a_mixture_of_two_directions():
    """LOS-08."""
    mixture = Mixture(VonMises(1.0), 2)
    mixture.set_buffers(
        {f"parts.{k}.parameter": torch.tensor([v], dtype=D) for k, v in ((0, 2.0), (1, 5.0))}
    )
    z = row(math.log(0.3), math.log(0.7), 0.0, 2.0)
    assert nll(mixture, row(1.0), z) == pytest.approx(2.098313869, abs=1e-9)


def test_poisson():
    """LOS-09: log k! is exact; Stirling would be off by 0.04 at k = 2."""
    square = FromDistribution(lambda z: PoissonDistribution(z * z))
    for k, f, by_exp, by_square in (
        (3.0, 1.2, 1.511876392, 2.137830128),
        (0, 0.7, 2.013752707, 0.49),
    ):
        assert nll(Poisson(), row(k), row(f)) == pytest.approx(by_exp, abs=1e-9)
        assert nll(square, row(k), row(f)) == pytest.approx(by_square, abs=1e-9)
    exact = nll(Poisson(), row(2.0), row(0.0)) - 1
    stirling = 2 * math.log(2) - 2 + 0.5 * math.log(4 * math.pi)
    assert exact - stirling == pytest.approx(0.041340696, abs=1e-8)


def test_softmax():
    """LOS-10: class 2 counted from 1."""
    z = row(1.0, 2.0, -1.0, 0.5)
    likelihood = Softmax(4)
    assert nll(likelihood, torch.tensor([1]), z) == pytest.approx(0.495181898, abs=1e-9)
    probs = likelihood.predictive(z, torch.zeros_like(z)).probs[0].tolist()
    assert probs == pytest.approx([0.224207818, 0.609460038, 0.030343229, 0.135988916], abs=1e-9)


def test_the_noise_of_greatest_likelihood():
    """LOS-12: the variance is 7/6, not 7/4."""
    y = torch.tensor([[0.5], [1.0], [3.0]], dtype=D)
    z = torch.full_like(y, 1.5)
    likelihood = Normal()
    likelihood.m_step(likelihood.sufficient_statistics(y, z))
    assert float(likelihood.noise_mean) == pytest.approx(7 / 6)
    assert -float(likelihood.log_prob(y, z).sum()) == pytest.approx(4.488041619, abs=1e-9)


@pytest.mark.parametrize("sigma", [0.3, 2.0])
def test_least_squares(sigma):
    """LOS-13: the gradient is that of least squares over twice the variance."""
    y, z = torch.randn(2, 5, 3, dtype=D, generator=torch.Generator().manual_seed(0))
    leaf = z.requires_grad_()
    (slope,) = torch.autograd.grad(-Normal(sigma).log_prob(y, leaf).sum(), leaf)
    torch.testing.assert_close(slope, 2 * (z - y).detach() / (2 * sigma**2))


def test_many_outputs_are_many_losses():
    """LOS-15."""
    y = torch.arange(10, dtype=D).unsqueeze(0)
    z = torch.randn(1, 10, dtype=D, generator=torch.Generator().manual_seed(1))
    for likelihood in (Poisson(), Normal(0.5), VonMises(3.0)):
        each = [nll(likelihood, y[:, k : k + 1], z[:, k : k + 1]) for k in range(10)]
        assert nll(likelihood, y, z) == pytest.approx(sum(each), rel=1e-12)


def test_label_smoothing():
    """REG-06: what is taken from the label goes to the others; torch spreads it over all."""
    z = row(2.0, 0.5, -1.0)
    likelihood = Softmax(3, smoothing=0.1)
    assert nll(likelihood, torch.tensor([0]), z) == pytest.approx(0.466311297, abs=1e-9)
    d_mu, _ = likelihood.messages(torch.tensor([0]), z, torch.zeros_like(z))
    target = torch.tensor([0.9, 0.05, 0.05], dtype=D)
    torch.testing.assert_close(d_mu[0], target - z[0].softmax(0))
