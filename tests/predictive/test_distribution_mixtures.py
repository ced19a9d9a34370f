"""Mixtures of torch's distributions and of any predictive, against SciPy and sampling."""

import math
import pickle

import numpy as np
import pytest
import scipy.stats
import torch
import torch.distributions as dist

from tractable.likelihoods import (
    Bernoulli,
    FromDistribution,
    HeteroscedasticNormal,
    Joint,
    Laplace,
    Mixture,
    MultivariateNormal,
    NegativeBinomial,
    Normal,
    Ordinal,
    Poisson,
    StudentT,
    VonMises,
)
from tractable.predictive import (
    CategoricalPredictive,
    DistributionMixturePredictive,
    MixturePredictive,
    NormalPredictive,
    Predictive,
    mixture,
)
from tractable.predictive.cdfs import HeavyTails, NegativeBinomialCounts, PoissonCounts

D = torch.float64
MEAN = torch.tensor([[0.3], [1.2], [-0.5]], dtype=D)
VARIANCE = torch.tensor([[0.2], [0.01], [1.0]], dtype=D)
NUMBERS = {
    "poisson": Poisson(),
    "negative binomial": NegativeBinomial(2.0),
    "laplace": Laplace(0.4),
    "student": StudentT(5.0, 0.3),
}


# --- distribution functions that torch lacks ---------------------------------------------------


def test_distribution_functions_are_scipys():
    k = torch.tensor([-1.0, 0.0, 1.0, 7.0, 50.0, 3000.0], dtype=D)
    rate = torch.tensor(40.0, dtype=D)
    truth = scipy.stats.poisson(40).cdf(k)
    assert PoissonCounts(rate).cdf(k).numpy() == pytest.approx(truth, rel=1e-10, abs=1e-14)
    for r, mean in ((0.3, 2.0), (5.0, 40.0), (200.0, 2500.0)):
        ours = NegativeBinomialCounts(
            torch.tensor(r, dtype=D), logits=torch.tensor(math.log(mean / r), dtype=D)
        )
        truth = scipy.stats.nbinom(r, r / (r + mean)).cdf(k)
        assert ours.cdf(k).numpy() == pytest.approx(truth, rel=1e-9, abs=1e-13)
    t = torch.tensor([-50.0, -1.0, 0.0, 0.3, 4.0], dtype=D)
    for df in (1.0, 4.0, 60.0):
        ours = HeavyTails(torch.tensor(df, dtype=D), torch.tensor(0.5, dtype=D), 2.0).cdf(t)
        truth = scipy.stats.t(df, 0.5, 2.0).cdf(t)
        assert ours.numpy() == pytest.approx(truth, rel=1e-9, abs=1e-14)


# --- mixtures over outputs ---------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", NUMBERS.values(), ids=NUMBERS.keys())
def test_statistics_of_a_prediction_agree_with_its_samples(likelihood):
    p = likelihood.predictive(MEAN, VARIANCE)
    drawn = p.sample(8_000, torch.Generator().manual_seed(0))
    error = 5 * (p.variance / len(drawn)).sqrt()
    assert ((drawn.mean(0) - p.mean).abs() < error).all()
    torch.testing.assert_close(drawn.var(0), p.variance, rtol=0.3, atol=0.0)
    torch.testing.assert_close(p.epistemic + p.aleatoric, p.variance)
    for q in (0.05, 0.5, 0.9):
        at = p.quantile(q)
        assert ((drawn <= at).double().mean(0) >= q - 0.025).all()
        assert ((drawn < at).double().mean(0) <= q + 0.025).all()
        torch.testing.assert_close((drawn <= at).double().mean(0), p.cdf(at), rtol=0, atol=0.025)
    best = p.log_prob(p.mode)
    for step in (-1.0, 1.0):
        assert (best >= p.log_prob(p.mode + step) - 1e-9).all()


def test_a_count_of_uncertain_rate_exactly():
    """Log-normal rates: mean and both parts of the variance in closed form."""
    p = Poisson().predictive(MEAN, VARIANCE)
    rate = (MEAN + VARIANCE / 2).exp()
    torch.testing.assert_close(p.mean, rate, rtol=1e-10, atol=0)
    torch.testing.assert_close(p.aleatoric, rate, rtol=1e-9, atol=0)
    torch.testing.assert_close(p.epistemic, rate**2 * VARIANCE.expm1(), rtol=1e-7, atol=0)
    low, high = p.interval(0.9)
    assert torch.equal(low, low.round())
    assert torch.equal(high, high.round())


def test_outputs_that_are_known_have_scipys_quantiles():
    z = torch.tensor([[3.0], [8.0]], dtype=D)
    p = Poisson().predictive(z, torch.zeros_like(z))
    for q in (0.01, 0.5, 0.95):
        truth = scipy.stats.poisson(z.exp().numpy()).ppf(q)
        assert p.quantile(q).numpy() == pytest.approx(truth)
    assert p.epistemic.tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("likelihood", NUMBERS.values(), ids=NUMBERS.keys())
def test_copies_and_shapes(likelihood):
    p = likelihood.predictive(MEAN.float(), VARIANCE.float())
    flat = p.squeezed()
    assert flat.mean.shape == flat.quantile(0.5).shape == flat.sample(1)[0].shape == (3,)
    assert p.mean.dtype == torch.float32
    assert p.double().mean.dtype == D
    y = p.quantile(0.7)
    again = pickle.loads(pickle.dumps(p))
    assert torch.equal(again.log_prob(y), p.log_prob(y))
    novelty = torch.ones(3)
    assert p.with_novelty(novelty).novelty is novelty
    assert p.novelty is None


@pytest.mark.parametrize("likelihood", [Laplace(0.4), StudentT(5.0, 0.3)])
def test_numbers_can_be_widened_and_rescaled(likelihood):
    p = likelihood.predictive(MEAN, VARIANCE)
    wide = p.with_extra_variance(torch.full_like(MEAN, 0.5))
    torch.testing.assert_close(wide.mean, p.mean)
    torch.testing.assert_close(wide.epistemic, p.epistemic + 0.5)
    torch.testing.assert_close(wide.aleatoric, p.aleatoric)
    other = p.rescaled(10.0, 2.0)
    torch.testing.assert_close(other.mean, 10 + 2 * p.mean)
    torch.testing.assert_close(other.variance, 4 * p.variance)
    torch.testing.assert_close(other.quantile(0.9), 10 + 2 * p.quantile(0.9))
    y = p.quantile(0.3)
    torch.testing.assert_close(other.log_prob(10 + 2 * y), p.log_prob(y) - math.log(2))
    torch.testing.assert_close(
        other.with_extra_variance(torch.full_like(MEAN, 2.0)).mean, other.mean
    )


def test_what_is_learned_later_does_not_change_a_prediction():
    likelihood = Laplace()
    p = likelihood.predictive(MEAN, VARIANCE)
    before = p.log_prob(MEAN)
    likelihood.parameter = likelihood.parameter * 3
    assert torch.equal(p.log_prob(MEAN), before)


def test_without_a_distribution_function_quantiles_are_of_draws():
    angles = dist.VonMises(torch.zeros(1, 2, 1, dtype=D), torch.full((1, 2, 1), 4.0, dtype=D))
    p = DistributionMixturePredictive(angles, torch.ones(1, 1, 1, dtype=D))
    assert not p.has_cdf
    assert p.quantile(0.9).numpy() == pytest.approx(scipy.stats.vonmises(4).ppf(0.9), rel=0.05)
    assert torch.equal(p.quantile(0.9), p.quantile(0.9))
    with pytest.raises(TypeError, match="distribution function"):
        p.cdf(torch.zeros(2, 1))


# --- mixtures of any kind ----------------------------------------------------------------------


class Coin(Predictive):
    """A custom distribution with the minimum of methods: 0 or ``size`` with equal probability."""

    def __init__(self, size):
        self.size = size

    mean = property(lambda self: self.size / 2)
    variance = property(lambda self: self.size**2 / 4)
    epistemic = property(lambda self: torch.zeros_like(self.size))
    aleatoric = property(lambda self: self.size**2 / 4)

    def log_prob(self, y):
        hit = (y == 0) | (y == self.size)
        return torch.where(hit, math.log(0.5), -math.inf)

    def sample(self, n=1, generator=None):
        return self.size * torch.randint(2, (n, *self.size.shape), generator=generator)


def test_a_users_own_is_pooled_and_mixed():
    stacked = Coin(torch.tensor([2.0, 4.0, 6.0, 8.0], dtype=D))
    pooled = stacked.mixture_over_draws(2)
    assert pooled.mean.tolist() == [2.0, 3.0]
    assert pooled.aleatoric.tolist() == [(1 + 9) / 2, (4 + 16) / 2]
    assert pooled.epistemic.tolist() == [1.0, 1.0]
    assert pooled.log_prob(torch.tensor([0.0, 8.0])).exp().tolist() == pytest.approx([0.5, 0.25])
    drawn = pooled.sample(2000, torch.Generator().manual_seed(0))
    assert set(drawn[:, 0].tolist()) == {0.0, 2.0, 6.0}
    assert stacked.mixture_over_draws(1) is stacked
    both = mixture([Coin(torch.tensor([2.0, 4.0])), Coin(torch.tensor([6.0, 8.0]))])
    torch.testing.assert_close(both.mean.double(), pooled.mean)
    torch.testing.assert_close(both.variance.double(), pooled.variance)


def test_kinds_of_numbers_mix_but_not_with_classes():
    normal = NormalPredictive(torch.zeros(3, 1), torch.ones(3, 1), torch.ones(3, 1))
    tails = StudentT(5.0, 0.3).predictive(MEAN.float(), VARIANCE.float())
    both = mixture([normal, tails])
    y = torch.ones(3, 1)
    want = torch.stack([normal.log_prob(y), tails.log_prob(y)]).logsumexp(0) - math.log(2)
    torch.testing.assert_close(both.log_prob(y), want)
    at = both.quantile(0.8)
    torch.testing.assert_close(both.cdf(at), torch.full((3, 1), 0.8), rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError, match="kinds"):
        mixture([tails, CategoricalPredictive(torch.ones(3, 1))])


def test_pooled_counts_are_counts():
    z = torch.tensor([[1.0], [2.0], [1.5], [3.0]], dtype=D)
    p = Poisson().predictive(z, torch.zeros_like(z)).mixture_over_draws(2)
    rates = z.exp().reshape(2, 2).numpy()
    share = [
        scipy.stats.poisson(rates[:, row]).cdf(np.arange(60)[:, None]).mean(1) for row in (0, 1)
    ]
    for q in (0.1, 0.9):
        truth = [float(np.argmax(column >= q)) for column in share]
        assert p.quantile(q).flatten().tolist() == truth
    assert p.mode.flatten().tolist() == p.mode.flatten().round().tolist()


def test_the_mode_of_a_mixture_density_network_is_its_highest_peak():
    z = torch.tensor([[1.0, 0.0, -2.0, 3.0], [-1.0, 0.0, -2.0, 3.0]], dtype=D)
    p = Mixture(Normal(0.4), 2).predictive(z, torch.full_like(z, 1e-4))
    torch.testing.assert_close(p.mode, torch.tensor([[-2.0], [3.0]], dtype=D), rtol=0, atol=1e-3)
    assert isinstance(p, MixturePredictive)
    drawn = p.sample(20_000, torch.Generator().manual_seed(0))
    torch.testing.assert_close(drawn.mean(0), p.mean, rtol=0, atol=0.1)
    torch.testing.assert_close(drawn.var(0), p.variance, rtol=0.05, atol=0)
    assert (p.epistemic < 0.01).all()  # two peaks are not epistemic uncertainty
    for q in (0.1, 0.6):
        at = p.quantile(q)
        torch.testing.assert_close((drawn <= at).double().mean(0), p.cdf(at), rtol=0, atol=0.02)


def test_epistemic_variance_of_a_mixture_density_network():
    """Against drawn outputs: the variance of the expected target."""
    generator = torch.Generator().manual_seed(1)
    mean = torch.randn(4, 6, generator=generator, dtype=D)
    variance = 0.05 * torch.rand(4, 6, generator=generator, dtype=D)
    likelihood = Mixture(HeteroscedasticNormal(), 2)
    z = mean + variance.sqrt() * torch.randn(4000, 4, 6, generator=generator, dtype=D)
    flat = likelihood.predictive(z.flatten(0, 1), torch.zeros(16_000, 6, dtype=D)).mean
    truth = flat.reshape(4000, 4).var(0)
    got = likelihood.predictive(mean, variance).epistemic.flatten()
    torch.testing.assert_close(got, truth, rtol=0.2, atol=1e-3)


# --- the other kinds ---------------------------------------------------------------------------


def test_levels_have_quantiles_and_other_classes_none():
    p = Ordinal(4).predictive(MEAN, VARIANCE)
    share = p.probs.cumsum(-1)
    at = p.quantile(0.7)
    assert (share.gather(1, at.unsqueeze(1)).flatten() >= 0.7).all()
    torch.testing.assert_close(p.cdf(at), share.gather(1, at.unsqueeze(1)).flatten())
    low, high = mixture([p, p]).interval(0.9)
    assert (low <= high).all()
    with pytest.raises(TypeError, match="no order"):
        CategoricalPredictive(torch.ones(2, 1)).quantile(0.5)


def test_expected_entropy_of_levels_and_logits():
    noise = torch.randn(4_000, 3, 1, dtype=D, generator=torch.Generator().manual_seed(0))
    z = (MEAN + VARIANCE.sqrt() * noise).flatten(0, 1)
    for likelihood in (Ordinal(4), Bernoulli("logit")):
        known = likelihood.predictive(z, torch.zeros_like(z))
        truth = known.entropy.reshape(-1, 3).mean(0)
        got = likelihood.predictive(MEAN, VARIANCE).aleatoric
        torch.testing.assert_close(got, truth, rtol=0.03, atol=3e-3)


def test_angles_go_round():
    z = torch.tensor([[3.0], [-3.1]], dtype=D)
    p = VonMises(9.0).predictive(z, torch.zeros_like(z))
    both = p.mixture_over_draws(2)  # on either side of pi
    assert abs(float(both.mean)) > 3.0
    ways = torch.linspace(-math.pi, math.pi, 20_001, dtype=D)
    density = (9.0 * ways.cos()).softmax(0)
    ours = (p.quantile(0.9) - p.mean).flatten().tolist()
    theirs = float(ways[(density.cumsum(0) >= 0.9).nonzero()[0]])
    assert ours == pytest.approx([theirs, theirs], abs=1e-3)
    assert p.variance[0].item() == pytest.approx(float((density * ways**2).sum()), rel=1e-6)
    drawn = both.sample(20_000, torch.Generator().manual_seed(0))
    way = torch.remainder(drawn - both.mean + math.pi, 2 * math.pi) - math.pi
    torch.testing.assert_close(way.square().mean(0), both.variance, rtol=0.05, atol=0)
    assert float(both.cdf(both.quantile(0.3))) == pytest.approx(0.3, abs=1e-6)
    mixed = mixture([p, p])
    torch.testing.assert_close(mixed.log_prob(z), p.log_prob(z))
    sure = VonMises(9.0).predictive(z, torch.full_like(z, 0.1))
    torch.testing.assert_close(sure.epistemic, torch.full_like(z, 0.1), rtol=1e-3, atol=0)


def test_correlated_draws():
    covariance = torch.tensor([[0.5, 0.3], [0.3, 0.4]], dtype=D)
    likelihood = MultivariateNormal(2, covariance.tolist())
    zero = torch.zeros(2, 2, dtype=D)
    p = likelihood.predictive(zero, zero + 0.1)
    drawn = p.sample(40_000, torch.Generator().manual_seed(0))[:, 0]
    torch.testing.assert_close(drawn.T.cov(), covariance + 0.1 * torch.eye(2), rtol=0.05, atol=0.01)
    assert p.rescaled(1.0, 2.0).variance[0].tolist() == pytest.approx([2.4, 2.0])
    y = torch.ones(1, 2, dtype=D)
    want = p.log_prob(torch.ones(2, 2)).logsumexp(0) - math.log(2)
    torch.testing.assert_close(p.mixture_over_draws(2).log_prob(y)[0], want)


def test_parts_side_by_side():
    p = Joint(Normal(0.5), Poisson()).predictive(MEAN.repeat(1, 2), VARIANCE.repeat(1, 2))
    assert p.mean.shape == p.quantile(0.9).shape == p.sample(4).shape[1:] == (3, 2)
    count = p.parts[1]
    torch.testing.assert_close(p.mean[:, 1:], count.mean)
    y = torch.tensor([[math.nan, 1.0], [0.0, math.nan], [0.0, 2.0]], dtype=D)
    got = p.log_prob(y)
    assert got[0] == count.log_prob(torch.ones(3, 1))[0]
    assert got[1] == p.parts[0].log_prob(torch.zeros(3, 1))[1]


@pytest.mark.parametrize("seed", range(2))
def test_many_targets_of_two_outputs_have_quantiles_of_samples(seed, monkeypatch):
    """A root of the distribution function would take half a second for each target."""
    likelihood = FromDistribution(lambda z: dist.Gamma(z[..., 0].exp(), z[..., 1].exp()), outputs=2)
    generator = torch.Generator().manual_seed(seed)
    mean = 1 + 0.5 * torch.randn(200, 2, generator=generator, dtype=torch.float64)
    variance = 0.3 * torch.rand(200, 2, generator=generator, dtype=torch.float64)
    many, few = likelihood.predictive(mean, variance), likelihood.predictive(mean[:2], variance[:2])
    with monkeypatch.context() as patch:
        patch.setattr(type(many), "_share", None)  # calling it fails
        found = {q: many.quantile(q) for q in (0.05, 0.5, 0.95)}
    for q, value in found.items():
        error = 5 * (q * (1 - q) / 4096) ** 0.5
        assert float((few.cdf(value[:2]) - q).abs().max()) < error
    assert torch.allclose(few.cdf(few.quantile(0.05)), torch.tensor(0.05).double(), atol=1e-6)
