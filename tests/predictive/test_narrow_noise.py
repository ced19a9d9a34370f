"""Predictions of single numbers at noise far narrower and far wider than the output's deviation."""

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
import torch.distributions as dist

from tractable.likelihoods import FromDistribution, Laplace, NegativeBinomial, Poisson, StudentT
from tractable.predictive import root_finding

D = torch.float64
RATIOS = (2e-3, 0.05, 0.3, 1.0, 1e3)
E = np.linspace(-10, 10, 100_001)
WEIGHT = np.exp(-0.5 * E * E)
WEIGHT /= WEIGHT.sum()


def normal_family(scale):
    return FromDistribution(lambda z: dist.Normal(z, scale))


LOCATED = {
    "laplace": (Laplace, lambda s: scipy.stats.laplace(0, s)),
    "student": (lambda s: StudentT(4.0, s), lambda s: scipy.stats.t(4, 0, s)),
    "student of 2.5": (lambda s: StudentT(2.5, s), lambda s: scipy.stats.t(2.5, 0, s)),
    "family": (normal_family, lambda s: scipy.stats.norm(0, s)),
}


def located_cdf(noise, y, mean, std):
    """By a sum over 100,001 values of the output."""
    return float((WEIGHT * noise.cdf(y - mean - std * E)).sum())


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("kind", LOCATED)
def test_quantiles_and_density_of_numbers(kind, ratio):
    make, noise = LOCATED[kind]
    mean, std = torch.tensor([[0.7]], dtype=D), 0.5
    scale = ratio * std
    p = make(scale).predictive(mean, torch.full_like(mean, std**2))
    for q in (0.01, 0.05, 0.45, 0.77):
        at = p.quantile(q)
        truth = located_cdf(noise(scale), float(at), 0.7, std)
        assert truth == pytest.approx(q, abs=2e-6)
        assert float(p.cdf(at)) == pytest.approx(q, abs=1e-9)
        slope = (p.cdf(at + 1e-4 * scale) - p.cdf(at - 1e-4 * scale)) / (2e-4 * scale)
        assert float(p.elementwise_log_prob(at).exp()) == pytest.approx(float(slope), rel=1e-3)
    assert float(p.variance) == pytest.approx(std**2 + noise(scale).var(), rel=1e-6)


@pytest.mark.parametrize("kind", LOCATED)
def test_samples_are_not_lumps(kind):
    p = LOCATED[kind][0](1e-3).predictive(torch.zeros(1, 1, dtype=D), torch.ones(1, 1, dtype=D))
    drawn = p.sample(5_000, torch.Generator().manual_seed(0)).flatten()
    assert scipy.stats.kstest(drawn.numpy(), "norm").pvalue > 1e-3
    off = drawn / 0.25 - (drawn / 0.25).round()
    assert (off.abs() < 0.2).double().mean() < 0.45  # 0.4 where values are spread evenly


@pytest.mark.parametrize("std", [1e-3, 0.1, 3.0])
@pytest.mark.parametrize("mean", [-2.0, 3.0, 8.0])
@pytest.mark.parametrize("make", [Poisson, lambda: NegativeBinomial(5.0)])
def test_quantiles_of_counts(make, mean, std):
    likelihood = make()
    m = torch.tensor([[mean]], dtype=D)
    p = likelihood.predictive(m, torch.full_like(m, std**2))
    rate = np.exp(mean + std * E)
    r = 5.0
    for q in (0.02, 0.5, 0.99):
        k = float(p.quantile(q))
        for at, sign in ((k, 1), (k - 1, -1)):
            if isinstance(likelihood, Poisson):
                share = scipy.special.pdtr(at, rate) if at >= 0 else 0.0 * rate
            else:
                share = scipy.special.betainc(r, at + 1, r / (r + rate)) if at >= 0 else 0 * rate
            truth = float((WEIGHT * share).sum())
            assert sign * (truth - q) >= -1e-7
            got = float(p.cdf(torch.full_like(m, at)))
            assert got == pytest.approx(truth, abs=1e-6)
    exact = math.exp(mean + std**2 / 2)
    assert float(p.mean) == pytest.approx(exact, rel=1e-12)


def test_two_outputs_of_a_number_with_narrow_noise():
    family = FromDistribution(
        lambda z: dist.Normal(z[..., 0], 1e-3 + 0 * z[..., 1].exp()), outputs=2
    )
    zero = torch.zeros(1, 2, dtype=D)
    p = family.predictive(zero, zero + 1)
    for q in (0.05, 0.45, 0.9):
        truth = scipy.stats.norm(0, math.sqrt(1 + 1e-6)).ppf(q)
        assert float(p.quantile(q)) == pytest.approx(truth, abs=1e-4)
    both = FromDistribution(lambda z: dist.Normal(z[..., 0] - 2 * z[..., 1], 1e-3), outputs=2)
    p = both.predictive(zero, zero + 1)
    for q in (0.05, 0.45, 0.9):
        truth = scipy.stats.norm(0, math.sqrt(5)).ppf(q)
        assert float(p.quantile(q)) == pytest.approx(truth, abs=1e-3)
    drawn = p.sample(5_000, torch.Generator().manual_seed(0)).flatten()
    assert scipy.stats.kstest(drawn.numpy(), scipy.stats.norm(0, 5**0.5).cdf).pvalue > 1e-3


# --- distribution functions missing in torch ------------------------------------------------

FAMILIES = {
    "beta": (dist.Beta, (2.0, 5.0), scipy.stats.beta(2, 5)),
    "large beta": (dist.Beta, (2e4, 5e6), scipy.stats.beta(2e4, 5e6)),
    "student": (dist.StudentT, (3.0, 1.0, 2.0), scipy.stats.t(3, 1, 2)),
    "fisher": (dist.FisherSnedecor, (3.0, 7.0), scipy.stats.f(3, 7)),
    "gamma": (dist.Gamma, (3.0, 2.0), scipy.stats.gamma(3, scale=0.5)),
    "log-normal": (dist.LogNormal, (0.3, 0.5), scipy.stats.lognorm(0.5, scale=math.exp(0.3))),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_families_have_quantiles(name):
    kind, parameters, truth = FAMILIES[name]
    family = FromDistribution(lambda z: kind(*(torch.full_like(z, value) for value in parameters)))
    zero = torch.zeros(1, 1, dtype=D)
    p = family.predictive(zero, zero + 0.5)
    assert p.has_cdf
    for q in (1e-3, 0.05, 0.5, 0.9, 0.999):
        assert float(p.quantile(q)) == pytest.approx(truth.ppf(q), rel=1e-7)


def test_families_of_counts_have_quantiles():
    zero = torch.zeros(1, 1, dtype=D)
    made = {
        "geometric": (lambda z: dist.Geometric(torch.full_like(z, 0.2)), scipy.stats.geom(0.2, -1)),
        "binomial": (
            lambda z: dist.Binomial(12, torch.full_like(z, 0.3)), scipy.stats.binom(12, 0.3)
        ),
    }  # fmt: skip
    for make, truth in made.values():
        p = FromDistribution(make).predictive(zero, zero)
        for q in (0.01, 0.3, 0.5, 0.95):
            assert float(p.quantile(q)) == truth.ppf(q)


# --- cost ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("kind", [*LOCATED, "beta"])
def test_a_quantile_takes_few_evaluations(kind, ratio, monkeypatch):
    calls = []
    if kind == "beta":
        likelihood = FromDistribution(
            lambda z: dist.Beta(z.exp() / ratio, 2 / ratio * torch.ones_like(z))
        )
    else:
        likelihood = LOCATED[kind][0](ratio)
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(10, 1, generator=generator, dtype=D)
    p = likelihood.predictive(mean, 0.05 + torch.rand(10, 1, generator=generator, dtype=D))
    plain = root_finding.invert

    def counted(cdf, *arguments, **options):
        def count(y):
            calls.append(1)
            return cdf(y)

        return plain(count, *arguments, **options)

    monkeypatch.setattr(root_finding, "invert", counted)
    low, high = p.interval(0.9)
    assert (low < high).all()
    assert len(calls) <= (120 if kind == "beta" else 60)  # 200 bisections for each end would be 400
