"""Targets with normal logarithm: SciPy, sampling, and invariants of widening."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from tractable.predictive import LogNormalPredictive, LogScale, NormalMixturePredictive

D = torch.float64


def single(mean=0.4, within=0.3, noise=0.2, rows=1):
    parts = (torch.full((1, rows, 1), value, dtype=D) for value in (mean, within, noise))
    return LogNormalPredictive(NormalMixturePredictive(*parts))


def several(rows=3, members=4):
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(members, rows, 1, generator=generator, dtype=D) / 2
    within, noise = 0.2 * torch.rand(2, members, rows, 1, generator=generator, dtype=D)
    return LogNormalPredictive(NormalMixturePredictive(draws, within, noise))


def test_one_member_is_scipys():
    truth = scipy.stats.lognorm(s=math.sqrt(0.5), scale=math.exp(0.4))
    got, y = single(), np.array([0.1, 1.0, 7.0])
    at = torch.tensor(y)[:, None]
    rows = single(rows=3)
    assert float(got.mean) == pytest.approx(truth.mean())
    assert float(got.variance) == pytest.approx(truth.var())
    assert rows.log_prob(at).numpy() == pytest.approx(truth.logpdf(y))
    assert rows.cdf(at).squeeze(1).numpy() == pytest.approx(truth.cdf(y))
    assert float(got.quantile(0.05)) == pytest.approx(truth.ppf(0.05))
    assert float(got.mode) == pytest.approx(math.exp(0.4 - 0.5), rel=1e-4)


@pytest.mark.parametrize("shift", [0.0, 0.3, -2.0])
def test_the_expected_square_of_a_shifted_log_normal(shift):
    mean, variance = torch.tensor([0.4, -1.0], dtype=D), torch.tensor([0.5, 0.01], dtype=D)
    found = LogScale(shift).square(mean, variance)
    truth = scipy.stats.lognorm(s=variance.sqrt().numpy(), scale=mean.exp().numpy())
    assert found.numpy() == pytest.approx(truth.var() + (truth.mean() - shift) ** 2)


SCALES = {"all": LogScale(), "shifted": LogScale(0.3), "line": LogScale(0.3, 1.5)}


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_moments_of_a_mixture_by_drawing(scale):
    n = 400_000
    got = LogNormalPredictive(several().logarithm, scale)
    generator = torch.Generator().manual_seed(1)
    of = got.logarithm
    which = torch.randint(len(of.means), (n,), generator=generator)
    noise = torch.randn(n, 3, 1, generator=generator, dtype=D)
    f = of.means[which] + of.epistemic_variance[which].sqrt() * noise
    expected = scale.expectation(f, of.noise_variance[which])
    noise = torch.randn(n, 3, 1, generator=generator, dtype=D)
    y = scale.inverse(f + of.noise_variance[which].sqrt() * noise)
    for truth, ours in ((y, got.variance), (expected, got.epistemic)):
        squares = (truth - truth.mean(0)).square()
        error = squares.std(0) / n**0.5
        assert bool(((squares.mean(0) - ours).abs() < 5 * error).all())
    assert bool(((y.mean(0) - got.mean).abs() < 5 * y.std(0) / n**0.5).all())
    assert torch.allclose(got.epistemic + got.aleatoric, got.variance)
    assert torch.allclose(got.cdf(got.quantile(0.9)), torch.tensor(0.9, dtype=D))
    share = (y <= got.quantile(0.9)).double().mean(0)
    assert bool(((share - 0.9).abs() < 5 * 0.3 / n**0.5).all())


def test_the_scale_has_a_line_at_its_end():
    scale = SCALES["line"]
    y = torch.linspace(-0.29, 20, 400, dtype=D, requires_grad=True)
    z = scale.forward(y)
    assert torch.allclose(scale.inverse(z), y)
    (slope,) = torch.autograd.grad(z.sum(), y)
    assert torch.allclose(slope.log(), scale.log_slope(y))
    assert bool((slope[1:] <= slope[:-1] + 1e-12).all())  # no jump, and no steeper part later
    density = LogNormalPredictive(several(rows=1).logarithm, scale)
    grid = torch.linspace(-0.3, 40, 200_001, dtype=D)
    wide = LogNormalPredictive(
        NormalMixturePredictive(*(t.expand(-1, len(grid), 1) for t in _parts(density.logarithm))),
        scale,
    )
    assert float(torch.trapezoid(wide.log_prob(grid[:, None]).exp(), grid)) == pytest.approx(
        1, abs=1e-4
    )


def _parts(mixture):
    return mixture.means, mixture.epistemic_variance, mixture.noise_variance


def test_a_shift_moves_all_but_the_spread():
    got = several()
    moved = LogNormalPredictive(got.logarithm, LogScale(0.7))
    for name in ("mean", "mode"):
        assert torch.allclose(getattr(moved, name), getattr(got, name) - 0.7)
    assert torch.allclose(moved.variance, got.variance)
    assert torch.allclose(moved.quantile(0.3), got.quantile(0.3) - 0.7)
    y = torch.tensor([[0.1], [0.5], [2.0]], dtype=D)
    assert torch.allclose(moved.log_prob(y - 0.7), got.log_prob(y))
    assert torch.allclose(moved.cdf(y - 0.7), got.cdf(y))


def test_extra_variance_off_the_data_widens_and_keeps_the_mean():
    got = several().squeezed()
    wide = got.with_extra_variance(torch.tensor([0.0, 1.0, 50.0], dtype=D))
    assert torch.allclose(wide.mean, got.mean)
    assert bool((wide.variance[1:] > 2 * got.variance[1:]).all())
    assert bool((wide.interval()[1][1:] > 2 * got.interval()[1][1:]).all())
    assert torch.allclose(wide.variance[0], got.variance[0])


def test_far_from_the_data_values_are_finite_and_not_negative():
    far = LogNormalPredictive(single(mean=0.0, within=1e5).logarithm, LogScale(0.1, 5.0))
    assert 1e2 < float(far.std) < 1e5
    assert math.isfinite(float(far.interval()[1]))
    assert far.log_prob(torch.tensor([[-1.0]], dtype=D)).tolist() == [-math.inf]
    assert far.cdf(torch.tensor([[-0.1]], dtype=D)).tolist() == [[0.0]]
    narrow = single(within=0.0, noise=0.0)
    assert float(narrow.variance) == pytest.approx(0.0, abs=1e-12)
    assert float(narrow.mean) == pytest.approx(math.exp(0.4))
    assert math.isfinite(
        float(single().squeezed().double().with_noise_scaled(torch.ones(1, dtype=D)).mean)
    )
