"""Learned noises converge to the noise of the data."""

import math

import pytest
import torch
import torch.distributions as dist

from tractable.likelihoods import (
    Joint,
    Laplace,
    Mixture,
    MultivariateNormal,
    NegativeBinomial,
    Normal,
    Ordinal,
    StudentT,
    VonMises,
)

D = torch.float64
ROWS = 4000


def made(name):
    """A likelihood, targets, the true outputs, and the expected noise."""
    torch.manual_seed(0)
    z = torch.randn(ROWS, 1, dtype=D)
    if name == "laplace":
        return Laplace(), z + dist.Laplace(0.0, 0.3).sample((ROWS, 1)).to(D), z, [0.3]
    if name == "student":
        return StudentT(3.0), z + 0.3 * dist.StudentT(3.0).sample((ROWS, 1)).to(D), z, [0.3]
    if name == "negative binomial":
        rate = (z + 2).exp() * dist.Gamma(3.0, 3.0).sample((ROWS, 1))
        return NegativeBinomial(), torch.poisson(rate).to(D), z + 2, [3.0]
    if name == "von mises":
        return VonMises(), dist.VonMises(z, torch.tensor(6.0, dtype=D)).sample(), z, [6.0]
    thresholds = torch.tensor([-1.5, 0.0, 0.4], dtype=D)
    y = torch.bucketize(z + torch.randn(ROWS, 1, dtype=D), thresholds)
    return Ordinal(4), y, z, thresholds.tolist()


def found(likelihood):
    kept = likelihood.thresholds if isinstance(likelihood, Ordinal) else likelihood.parameter
    return kept.tolist()


NAMES = ["laplace", "student", "negative binomial", "von mises", "ordinal"]


@pytest.mark.parametrize("name", NAMES)
def test_noise_is_learned_online(name):
    """Outputs have a standard deviation of 0.3, which is not attributed to noise."""
    likelihood, y, z, truth = made(name)
    blurred = z + 0.3 * torch.randn(ROWS, 1, dtype=D)
    variance = torch.full((40, 1), 0.09, dtype=D)
    for _ in range(2):
        for rows, outputs in zip(y.split(40), blurred.split(40), strict=True):
            likelihood.set_buffers(likelihood.observe(rows, outputs, variance).noise)
    # the blur is drawn around the true output, not around its estimate, so a prior is missing
    assert found(likelihood) == pytest.approx(truth, rel=0.2, abs=0.12)


@pytest.mark.parametrize("name", NAMES)
def test_epoch_by_epoch(name):
    likelihood, y, z, truth = made(name)
    for _ in range(40):
        likelihood.m_step(sum(likelihood.sufficient_statistics(a, b) for a, b in parts(y, z)))
    assert found(likelihood) == pytest.approx(truth, rel=0.1, abs=0.08)
    best = float(likelihood.log_prob(y, z).sum())
    for name_, value in list(likelihood.named_buffers()):
        if name_ not in ("parameter", "thresholds"):
            continue
        for factor in (0.95, 1.05):
            with likelihood.holding({name_: value * factor}):
                assert float(likelihood.log_prob(y, z).sum()) < best + 0.5


def parts(y, z):
    return zip(y.split(1000), z.split(1000), strict=True)


def test_a_given_noise_stays():
    y, z = torch.zeros(5, 1, dtype=D), torch.ones(5, 1, dtype=D)
    for likelihood in (Laplace(0.2), StudentT(4.0, 0.2), VonMises(2.0), NegativeBinomial(1.0)):
        assert not likelihood.traits.learns_noise
        assert likelihood.observe(y, z, z).noise == {}
        assert likelihood.sufficient_statistics(y, z) is None
    assert not Ordinal(2, [0.0]).traits.learns_noise


def test_correlated_noise():
    truth = torch.tensor([[0.5, 0.3], [0.3, 0.4]], dtype=D)
    torch.manual_seed(1)
    z = torch.randn(ROWS, 2, dtype=D)
    y = z + dist.MultivariateNormal(torch.zeros(2, dtype=D), truth).sample((ROWS,))
    exact = MultivariateNormal(2)
    exact.m_step(exact.sufficient_statistics(y, z))
    torch.testing.assert_close(exact.covariance, truth, rtol=0.1, atol=0.02)
    online = MultivariateNormal(2)
    variance = torch.full((40, 2), 1e-4, dtype=D)
    for rows, outputs in zip(y.split(40), z.split(40), strict=True):
        online.set_buffers(online.observe(rows, outputs, variance).noise)
    torch.testing.assert_close(online.covariance, truth, rtol=0.2, atol=0.05)


def test_each_component_has_separate_noise():
    torch.manual_seed(2)
    first = torch.rand(ROWS, 1) < 0.4
    y = torch.where(first, -2 + 0.1 * torch.randn(ROWS, 1), 2 + 0.5 * torch.randn(ROWS, 1)).to(D)
    z = torch.tensor([[math.log(0.4), math.log(0.6), -2.0, 2.0]], dtype=D).expand(ROWS, 4)
    epochs, online = Mixture(Normal(), 2), Mixture(Normal(), 2)
    for _ in range(10):
        epochs.m_step(epochs.sufficient_statistics(y, z))
    for rows in y.split(40):
        noise = online.observe(rows, z[:40], torch.full((40, 4), 1e-4, dtype=D)).noise
        online.set_buffers(noise)
    for likelihood in (epochs, online):
        found = [float(part.parameter) ** 0.5 for part in likelihood.part_list]
        assert found == pytest.approx([0.1, 0.5], rel=0.3)


def test_parts_learn_from_their_observed_rows():
    torch.manual_seed(3)
    z = torch.randn(ROWS, 2, dtype=D)
    y = z + torch.cat([dist.Laplace(0.0, 0.2).sample((ROWS, 1)), 0.5 * torch.randn(ROWS, 1)], 1).to(
        D
    )
    y[::2, 0] = math.nan
    y[1::3, 1] = math.nan
    joint = Joint(Laplace(), Normal())
    joint.m_step(joint.sufficient_statistics(y, z))
    laplace, normal = joint.part_list
    assert float(laplace.parameter) == pytest.approx(0.2, rel=0.1)
    assert float(normal.noise_mean) == pytest.approx(0.25, rel=0.1)
