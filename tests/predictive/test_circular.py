"""Angles of every concentration and variance against numerical integration."""

import math

import pytest
import scipy.special
import scipy.stats
import torch

from tractable.likelihoods import VonMises
from tractable.predictive import circular, mixture

D = torch.float64
TURN = 2 * math.pi
CASES = [
    (kappa, variance)
    for kappa in (1e-3, 2.0, 60.0, 250.0, 1e6)
    for variance in (1e-8, 1e-4, 0.02, 10.0)
]


def density(kappa, variance, ways):
    """Return the density of the angle from the mean, by a sum over outputs or over the noise."""
    t = torch.linspace(-9, 9, 2001, dtype=D).unsqueeze(1)
    std = math.sqrt(variance)
    if variance < 1 / kappa:
        weight = (-0.5 * t * t).softmax(0)
        log_p = -2 * kappa * torch.sin((ways - std * t) / 2) ** 2
        return (weight * log_p.exp()).sum(0) / (TURN * scipy.special.i0e(kappa))
    noise = t / 9 * min(math.pi, 9 / math.sqrt(kappa))
    weight = (-2 * kappa * torch.sin(noise / 2) ** 2).softmax(0)
    turns = (ways - noise).unsqueeze(0) + TURN * torch.arange(-5.0, 6).reshape(-1, 1, 1)
    normal = torch.exp(-0.5 * turns**2 / variance).sum(0) / math.sqrt(TURN * variance)
    return (weight * normal).sum(0)


@pytest.mark.parametrize("dtype", [torch.float32, D])
@pytest.mark.parametrize(("kappa", "variance"), CASES)
def test_predictions_of_angles(kappa, variance, dtype):
    z = torch.tensor([[3.0], [-0.4]], dtype=dtype)
    p = VonMises(kappa).predictive(z, torch.full_like(z, variance))
    width = min(math.pi, 10 * math.sqrt(variance + 1 / kappa))
    ways = torch.linspace(-width, width, 1501, dtype=D)
    share = density(kappa, variance, ways)
    mass = share.clone()
    mass[[0, -1]] *= 0.5  # the trapezoidal rule
    mass = mass / mass.sum()
    if kappa * math.exp(-variance / 2) > 0.1:  # otherwise all directions are equally likely
        torch.testing.assert_close(p.mean, z, rtol=0, atol=1e-6)
    spread = float((mass * ways**2).sum())
    assert p.variance.flatten().tolist() == pytest.approx([spread] * 2, rel=1e-4)
    own = min(variance, spread) if variance < 0.3 else None
    if own is not None:
        assert p.epistemic.flatten().tolist() == pytest.approx([own] * 2, rel=1e-3, abs=1e-15)
    exact = p.double()
    at = ways[::300].unsqueeze(1).expand(-1, 2).unsqueeze(-1)
    for y, want in zip(at, share[::300].tolist(), strict=True):
        # Otherwise there are too few nodes for the evidence.
        resolved = kappa * variance < 50 or variance > 0.5
        if want > 1e-12 and resolved:
            got = exact.log_prob(z.double() + y).exp()
            assert got.tolist() == pytest.approx([want] * 2, rel=1e-5)
    total = torch.cat([torch.zeros(1), (0.5 * (share[1:] + share[:-1])).cumsum(0)])
    total = total / total[-1]
    for q in (0.05, 0.4, 0.95):
        way = exact.quantile(q) - exact.mean
        if float(way.abs().max()) < width:
            got = torch.stack([_at(ways, total, float(w)) for w in way.flatten()])
            assert got.tolist() == pytest.approx([q, q], abs=2e-4)
        assert exact.cdf(exact.quantile(q)).flatten().tolist() == pytest.approx([q, q], abs=1e-9)
    drawn = p.unwrapped(p.sample(4_000, torch.Generator().manual_seed(0))).double() - exact.mean
    assert scipy.stats.kstest(
        drawn[:, 0, 0].numpy(), lambda x: _at(ways, total, torch.as_tensor(x)).numpy()
    ).pvalue > (1e-4 if dtype == D else 1e-6)
    assert torch.isfinite(p.interval(0.9)[0]).all()


def _at(ways, total, x):
    """Linear interpolation of a table."""
    x = torch.as_tensor(x, dtype=D)
    place = ((x - ways[0]) / (ways[1] - ways[0])).clamp(0, len(ways) - 1.000001)
    low = place.floor().long()
    return total[low] + (place - low) * (total[low + 1] - total[low])


@pytest.mark.parametrize("kappa", [0.5, 2.0, 50.0, 1e4])
@pytest.mark.parametrize("variance", [0.0, 0.3])
def test_modes(kappa, variance):
    z = torch.tensor([[4.0], [-4.0], [7.0], [0.5]], dtype=D)
    p = VonMises(kappa).predictive(z, torch.full_like(z, variance))
    off = torch.remainder(p.mode - z + math.pi, TURN) - math.pi
    assert off.abs().max() < 1e-9
    both = mixture([p, p]).mode
    assert (torch.remainder(both - z + math.pi, TURN) - math.pi).abs().max() < 1e-6
    pooled = p.mixture_over_draws(2)
    top = pooled.elementwise_log_prob(pooled.mode)
    for way in torch.linspace(-math.pi, math.pi, 500, dtype=D):
        assert (pooled.elementwise_log_prob(way.expand(2, 1)) <= top + 1e-6).all()


def test_a_mixture_of_narrow_angles_on_both_sides_of_half_a_turn():
    z = torch.tensor([[3.1], [-3.0]], dtype=D)
    p = VonMises(1e5).predictive(z, torch.full_like(z, 1e-6)).mixture_over_draws(2)
    drawn = p.unwrapped(p.sample(20_000, torch.Generator().manual_seed(0)))
    off = drawn - p.mean
    assert float(p.variance) == pytest.approx(float(off.square().mean()), rel=0.02)
    for q in (0.1, 0.4, 0.6, 0.9):
        share = float((drawn <= p.quantile(q)).double().mean())
        assert share == pytest.approx(q, abs=0.015)


def test_narrow_and_wide_rows_beside_each_other():
    """Each row has the same result as alone, whichever series is used."""
    z = torch.tensor([[0.5], [0.5]], dtype=D)
    variance = torch.tensor([[1e-8], [4.0]], dtype=D)
    both = VonMises(1e4).predictive(z, variance)
    for row in range(2):
        alone = VonMises(1e4).predictive(z[row : row + 1], variance[row : row + 1])
        for q in (0.05, 0.5, 0.8):
            torch.testing.assert_close(both.quantile(q)[row], alone.quantile(q)[0])
            at = alone.quantile(q).expand(2, 1)
            torch.testing.assert_close(both.cdf(at)[row], alone.cdf(at[:1])[0])


@pytest.mark.parametrize("n", [6, 12])
def test_the_edgeworth_series_of_a_sum_of_uniform_numbers(n):
    """Cumulants of a standardized uniform number: -6/5 and 48/7; the remainder is of order n^-3."""
    at = torch.linspace(-3, 3, 31, dtype=D)
    one = torch.ones((), dtype=D)
    found = circular._edgeworth(at, -1.2 / n * one, 48 / 7 / n**2 * one)
    x = at.numpy() * math.sqrt(n / 12) + n / 2
    terms = [
        (-1) ** k * math.comb(n, k) * (x - k).clip(0) ** n / math.factorial(n) for k in range(n + 1)
    ]
    assert found.numpy() == pytest.approx(sum(terms), abs=0.02 / n**3)
