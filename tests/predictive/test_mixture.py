"""Mixtures of normals: moments, quantiles and densities against SciPy and sampling."""

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import torch

import tractable as tr
from tractable.predictive import (
    CategoricalPredictive,
    MixturePredictive,
    NormalMixturePredictive,
    NormalPredictive,
    mixture,
)


@pytest.fixture
def skewed():
    draws = torch.tensor([[0.0, 5.0], [0.1, 5.0], [4.0, 5.0]], dtype=torch.float64)
    noise = torch.tensor([[0.01, 1.0], [0.04, 4.0], [1.0, 9.0]], dtype=torch.float64)
    return NormalMixturePredictive(draws, torch.zeros_like(draws), noise)


def cdf(predictive, row, at):
    std = (predictive.epistemic_variance + predictive.noise_variance).sqrt()
    return scipy.stats.norm(predictive.means[:, row], std[:, row]).cdf(at).mean()


@pytest.mark.parametrize("q", [0.001, 0.05, 0.5, 0.9, 0.999])
def test_quantiles_are_roots_of_the_distribution(skewed, q):
    found = skewed.quantile(q)
    for row in range(2):
        truth = scipy.optimize.brentq(lambda at, r=row: cdf(skewed, r, at) - q, -20, 30, xtol=1e-13)
        assert found[row].item() == pytest.approx(truth, abs=1e-9)


def test_quantiles_of_many_narrow_parts():
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(500, 40, generator=generator)
    narrow = NormalMixturePredictive(draws, torch.zeros_like(draws), torch.full_like(draws, 1e-6))
    assert torch.allclose(narrow.quantile(0.25), draws.quantile(0.25, 0), atol=0.05)
    low, high = narrow.interval(0.9)
    assert (low < high).all()


def test_the_law_of_total_variance(skewed):
    assert torch.allclose(skewed.variance, skewed.epistemic + skewed.aleatoric)
    draws = skewed.sample(400_000, torch.Generator().manual_seed(1))
    assert torch.allclose(draws.mean(0), skewed.mean, atol=0.02)
    assert torch.allclose(draws.var(0), skewed.variance, rtol=0.02)
    assert skewed.epistemic[1].item() == 0


def test_density_is_the_mean_of_the_densities(skewed):
    y = torch.tensor([3.0, -1.0], dtype=torch.float64)
    std = skewed.noise_variance.sqrt()
    truth = np.log(scipy.stats.norm(skewed.means, std).pdf(y).mean(0))
    assert skewed.log_prob(y).numpy() == pytest.approx(truth, rel=1e-12)
    far = skewed.log_prob(torch.tensor([1e4, 1e4]))
    assert torch.isfinite(far).all()


def test_outputs_of_a_row_are_scored_jointly():
    draws = torch.zeros(4, 3, 2)
    p = NormalMixturePredictive(draws, draws, torch.ones_like(draws))
    assert p.log_prob(torch.zeros(3, 2)).shape == (3,)
    assert p.squeezed() is p
    column = NormalMixturePredictive(*(torch.ones(4, 3, 1) for _ in range(3))).squeezed()
    assert column.mean.shape == column.quantile(0.5).shape == (3,)


def test_pooling_stacks_draws_and_averages_probabilities():
    stacked = NormalPredictive(torch.tensor([0.0, 1.0, 2.0, 3.0]), torch.zeros(4), torch.ones(4))
    assert stacked.mixture_over_draws(2).mean.tolist() == [1.0, 2.0]
    probs = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    assert CategoricalPredictive(probs).mixture_over_draws(2).probs.tolist() == [[0.75, 0.25]]


def test_an_ensemble_is_the_mixture_of_its_members():
    wide = NormalPredictive(torch.zeros(3), torch.full((3,), 2.0), torch.ones(3))
    far = NormalPredictive(torch.full((3,), 4.0), torch.zeros(3), torch.ones(3))
    both = mixture([wide, far])
    assert both.mean.tolist() == [2.0] * 3
    assert both.aleatoric.tolist() == [1.0] * 3
    assert both.epistemic.tolist() == [1.0 + 4.0] * 3  # within, and between
    with pytest.raises(TypeError, match="kinds"):
        mixture([wide, CategoricalPredictive(torch.ones(3, 1))])
    with pytest.raises(ValueError, match="at least one"):
        mixture([])


def test_rescaling_goes_back_to_the_units_of_the_data(skewed):
    other = skewed.rescaled(10.0, 2.0)
    assert torch.allclose(other.mean, 10 + 2 * skewed.mean)
    assert torch.allclose(other.quantile(0.9), 10 + 2 * skewed.quantile(0.9))


def test_densities_of_each_number():
    z = torch.tensor([[0.3, -1.0], [1.2, 0.4]], dtype=torch.float64)
    none, y = torch.zeros_like(z), torch.tensor([[1.0, 0.0], [3.0, 2.0]], dtype=torch.float64)
    counts = tr.likelihoods.Poisson().predictive(z, none)
    exact = torch.distributions.Poisson(z.exp()).log_prob(y)
    assert torch.allclose(counts.elementwise_log_prob(y), exact)
    half = torch.tensor([[0.5, 0.0], [3.0, 2.0]], dtype=torch.float64)
    assert counts.elementwise_log_prob(half)[0, 0] == -torch.inf
    wide = tr.likelihoods.Laplace(0.5).predictive(z, none).rescaled(1.0, 2.0)
    exact = torch.distributions.Laplace(1 + 2 * z, 1.0).log_prob(y)
    assert torch.allclose(wide.elementwise_log_prob(y), exact)
    both = MixturePredictive((counts, counts), (1, 1), torch.tensor([[0.2] * 2, [0.8] * 2]))
    assert torch.allclose(both.elementwise_log_prob(y), counts.elementwise_log_prob(y))
    normal = tr.likelihoods.Normal(0.3).predictive(z, none + 0.5)
    assert torch.allclose(normal.elementwise_log_prob(y).sum(1), normal.log_prob(y))
    angles = tr.likelihoods.VonMises(2.0, outputs=2).predictive(z, none)
    exact = torch.distributions.VonMises(z, 2.0).log_prob(y)
    assert torch.allclose(angles.elementwise_log_prob(y), exact)
    steps = tr.likelihoods.PerStep(tr.likelihoods.Poisson())
    rows = steps.predictive(z[..., None], none[..., None])
    with pytest.raises(TypeError, match="whole rows only"):
        rows.elementwise_log_prob(y)


@pytest.mark.parametrize("tails", [None, [0.5, 1.5], [1.0, 4.0, 0.25]])
def test_parts_with_the_same_tails_keep_them(skewed, tails):
    parts = [skewed, skewed]
    if tails is not None:
        tails = torch.tensor(tails, dtype=torch.float64)
        parts = [part.with_noise_mixture(tails.clone()) for part in parts]
    found = mixture(parts)
    assert found.means.shape == (6, 2)  # as many as the parts have, and not one for each tail
    assert found.tails is None if tails is None else torch.equal(found.tails, tails)
    y = torch.tensor([0.3, 4.0], dtype=torch.float64)
    torch.testing.assert_close(found.log_prob(y), parts[0].log_prob(y))


def test_parts_with_other_tails_are_mixed_as_normals(skewed):
    tails = torch.tensor([0.5, 1.5], dtype=torch.float64)
    other = torch.tensor([0.2, 0.6, 2.2], dtype=torch.float64)
    parts = [skewed, skewed.with_noise_mixture(tails), skewed.with_noise_mixture(other)]
    y = torch.tensor([0.3, 4.0], dtype=torch.float64)
    expected = torch.stack([part.log_prob(y).exp() for part in parts]).mean(0).log()
    torch.testing.assert_close(mixture(parts).log_prob(y), expected)


@pytest.mark.parametrize("scale", [-3.0, 0.1])
def test_uncertainty_and_density_of_a_mixture_in_other_units(scale):
    """Of several outputs: the density of a row is that of all its outputs together."""
    mean = torch.tensor([[0.3, -1.0], [2.0, 0.1]], dtype=torch.float64)
    variance = torch.full_like(mean, 0.4)
    for likelihood in (tr.likelihoods.StudentT(4.0, 0.7), tr.likelihoods.Laplace(0.3)):
        plain = likelihood.predictive(mean, variance)
        other = plain.rescaled(5.0, scale)
        torch.testing.assert_close(other.epistemic, plain.epistemic * scale**2)
        torch.testing.assert_close(other.aleatoric, plain.aleatoric * scale**2)
        y = mean + 0.6
        at = 5.0 + scale * y
        jacobian = np.log(abs(scale))
        torch.testing.assert_close(other.log_prob(at), plain.log_prob(y) - 2 * jacobian)
        assert other.squeezed().mean.shape == (2, 2)
        column = likelihood.predictive(mean[:, :1], variance[:, :1]).squeezed()
        assert column.mean.shape == column.variance.shape == (2,)


def test_a_mixture_rescaled_twice_is_in_the_last_unit():
    mean = torch.tensor([[0.3], [2.0]], dtype=torch.float64)
    plain = tr.likelihoods.StudentT(4.0, 0.7).predictive(mean, torch.full_like(mean, 0.4))
    twice = plain.rescaled(5.0, -2.0).rescaled(1.0, 3.0)
    torch.testing.assert_close(twice.mean, 1 + 3 * (5 - 2 * plain.mean))
    torch.testing.assert_close(twice.quantile(0.2), 1 + 3 * (5 - 2 * plain.quantile(0.8)))


def test_a_share_that_is_reached_exactly_gives_its_level():
    p = CategoricalPredictive(torch.tensor([[0.25, 0.25, 0.5], [0.5, 0.5, 0.0]]), ordered=True)
    assert p.quantile(0.25).tolist() == [0, 0]
    assert p.quantile(0.5).tolist() == [1, 0]


@pytest.mark.parametrize("q", [0.0, 1.0, -0.1, 1.1])
def test_quantiles_of_impossible_shares_are_refused(skewed, q):
    for p in (skewed, NormalPredictive(*torch.ones(3, 2, 1))):
        with pytest.raises(ValueError, match="between 0 and 1"):
            p.quantile(q)
