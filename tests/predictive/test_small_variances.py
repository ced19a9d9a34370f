"""Predictions at small and large variances: logarithms, shared noise, negative units."""

import math

import pytest
import torch
import torch.distributions as dist

from tractable.likelihoods import Laplace, MultivariateNormal, Poisson, StudentT
from tractable.predictive import (
    DistributionMixturePredictive,
    LogNormalPredictive,
    LogScale,
    MixturePredictive,
    NormalMixturePredictive,
    NormalPredictive,
)
from tractable.testing import check_predictive

D = torch.float64


@pytest.mark.parametrize("dtype", [torch.float32, D])
@pytest.mark.parametrize("variance", [1e-12, 1e-8, 1e-5, 1e-2, 1.0])
@pytest.mark.parametrize("top", [math.inf, 2.0, math.exp(0.5)])
def test_variance_of_a_log_normal_target(top, variance, dtype):
    draws = torch.tensor([[[0.5], [-2.0], [3.0]]], dtype=dtype)
    within = torch.full_like(draws, variance / 2)
    p = LogNormalPredictive(
        NormalMixturePredictive(draws, within, within.clone()), LogScale(0.0, top)
    )
    e = torch.linspace(-10, 10, 200_001, dtype=D)
    weight = (-0.5 * e * e).softmax(0)
    for row, m in enumerate((0.5, -2.0, 3.0)):
        # deviations from the value at the mean, without cancellation
        edge = math.log(top) if math.isfinite(top) else math.inf
        move = e * variance**0.5
        start = math.exp(min(m, edge))
        off = start * torch.expm1(move.clamp(max=max(edge - m, 0)))
        off = off + start * math.exp(max(min(edge - m, 50), 0)) * (move - max(edge - m, 0)).clamp(0)
        if m > edge:
            down = start * torch.expm1(move - (edge - m))
            off = torch.where(move < edge - m, down + start * (edge - m), start * move)
        mean = (weight * off).sum()
        truth = float((weight * (off - mean).square()).sum())
        assert float(p.variance[row]) == pytest.approx(truth, rel=1e-4 if dtype == D else 2e-4)
        assert float(p.epistemic[row]) <= float(p.variance[row])


# --- noise that outputs share --------------------------------------------------------------------


def correlated(dtype=D):
    likelihood = MultivariateNormal(2, [[0.5, 0.3], [0.3, 0.4]])
    mean = torch.tensor([[0.1, 0.2], [1.0, -1.0], [0.0, 2.0], [0.4, 0.4]], dtype=dtype)
    return likelihood.predictive(mean, torch.full_like(mean, 0.1))


@pytest.mark.parametrize("dtype", [torch.float32, D])
def test_members_of_correlated_predictions_agree(dtype):
    check_predictive(correlated(dtype), n_samples=5_000)


def test_more_correlated_noise_changes_density_and_samples():
    p = correlated()
    factors = torch.tensor([[4.0, 1.0]], dtype=D).expand(4, 2)
    wide = p.with_noise_scaled(factors)
    scale = torch.tensor([2.0, 1.0], dtype=D)
    total = torch.tensor([[0.5, 0.3], [0.3, 0.4]], dtype=D) * torch.outer(scale, scale)
    total = total + 0.1 * torch.eye(2, dtype=D)
    truth = dist.MultivariateNormal(p.mean, total)
    y = torch.ones(4, 2, dtype=D)
    torch.testing.assert_close(wide.log_prob(y), truth.log_prob(y))
    drawn = wide.sample(40_000, torch.Generator().manual_seed(0))[:, 1]
    torch.testing.assert_close(drawn.T.cov(), total, rtol=0.05, atol=0.02)


def test_heavy_tails_of_correlated_noise():
    p = correlated()
    tails = torch.tensor([0.25, 1.0, 4.0], dtype=D)
    heavy = p.with_noise_mixture(tails)
    y = torch.ones(4, 2, dtype=D)
    each = torch.stack(
        [p.with_noise_scaled(torch.full((4, 2), float(t), dtype=D)).log_prob(y) for t in tails]
    )
    torch.testing.assert_close(heavy.log_prob(y), each.logsumexp(0) - math.log(3))
    torch.testing.assert_close(heavy.epistemic, p.epistemic)
    torch.testing.assert_close(heavy.aleatoric, p.aleatoric * 1.75)


# --- units that turn the order round -------------------------------------------------------------


@pytest.mark.parametrize("likelihood", [Laplace(0.4), StudentT(5.0, 0.3), Poisson()])
def test_negative_units_turn_quantiles_round(likelihood):
    mean = torch.tensor([[0.3], [1.2]], dtype=D)
    p = likelihood.predictive(mean, torch.full_like(mean, 0.2))
    turned = p.rescaled(1.0, -0.5)
    drawn = turned.sample(20_000, torch.Generator().manual_seed(0))
    for q in (0.1, 0.5, 0.9):
        at = turned.quantile(q)
        assert ((drawn <= at).double().mean(0) >= q - 0.015).all()
        assert ((drawn < at).double().mean(0) <= q + 0.015).all()
        share = (drawn <= at).double().mean(0)
        torch.testing.assert_close(turned.cdf(at), share, rtol=0, atol=0.015)


# --- predictions without a distribution function ------------------------------------------------


def test_an_error_in_a_distribution_function_is_raised():
    class Broken(NormalPredictive):
        def cdf(self, y):
            raise TypeError("unsupported operand")

    one = torch.ones(2, 1)
    with pytest.raises(TypeError, match="unsupported operand"):
        MixturePredictive((Broken(one, one, one),), (1,)).quantile(0.5)


def test_without_a_distribution_function_samples_serve_and_are_kept():
    angles = dist.VonMises(torch.zeros(1, 2, 1, dtype=D), torch.full((1, 2, 1), 4.0, dtype=D))
    p = DistributionMixturePredictive(angles, torch.ones(1, 1, 1, dtype=D))
    both = MixturePredictive((p, p), (1, 1))
    assert not both.has_cdf
    calls = []
    object.__setattr__(p, "sample", lambda *given: calls.append(1) or type(p).sample(p, *given))
    low, high = p.interval(0.9)
    assert len(calls) == 1
    assert (low < high).all()
