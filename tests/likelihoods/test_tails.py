"""Ratios of normal densities and distribution functions, far in the tails."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch
from torch import Tensor

from tractable.likelihoods import Bernoulli, Categorical, Laplace, probit

D = torch.float64
ARGUMENTS = np.concatenate([-np.logspace(4, -3, 60), np.linspace(0, 30, 40)]).astype(np.float32)


def hazard(t: float) -> tuple[float, float]:
    """``phi(t) / Phi(t)`` and minus its derivative, to fifty digits."""
    with mpmath.workdps(50):
        x = mpmath.mpf(t)
        ratio = mpmath.npdf(x) / mpmath.ncdf(x)
        return float(ratio), float(ratio * (ratio + x))


WANT = torch.tensor([hazard(float(t)) for t in ARGUMENTS], dtype=D)


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 3e-7), (D, 5e-8)])
@pytest.mark.parametrize("noise", [1.0, 0.25])
def test_messages_of_a_probit_keep_their_digits(
    dtype: torch.dtype, rtol: float, noise: float
) -> None:
    mean = torch.from_numpy(ARGUMENTS).to(dtype)
    scale = 2 * math.sqrt(noise)  # exact in any precision
    variance = torch.full_like(mean, 3 * noise)
    for sign in (1.0, -1.0):
        d_mu, d_var = probit.messages(
            torch.full_like(mean, sign), sign * mean * scale, variance, noise
        )
        for got, want in ((d_mu * sign * scale, WANT[:, 0]), (-d_var * scale**2, WANT[:, 1])):
            torch.testing.assert_close(got.double(), want, rtol=rtol, atol=1e-37)


@pytest.mark.parametrize("t", [-1e5, -1e6, -1e8, -1e15])
def test_beyond_all_digits_the_curvature_is_one(t: float) -> None:
    one = torch.ones(1, dtype=D)
    d_mu, d_var = probit.messages(one, t * one, 0 * one)
    assert float(d_mu) == pytest.approx(-t, rel=1e-9)
    assert float(d_var) == pytest.approx(-1, rel=1e-9)


@pytest.mark.parametrize("likelihood", [Bernoulli(), Categorical(2)])
def test_wrong_labels_far_out_send_finite_messages_in_single_precision(likelihood) -> None:
    for size in (10.0, 100.0, 1e4, 1e8, 1e15):
        mean, variance = torch.tensor([[size]]), torch.ones(1, 1)
        for label in (0, 1):
            y = likelihood.check_targets(torch.tensor([label]), torch.Size([1, 1]))
            d_mu, d_var = likelihood.messages(y, mean, variance)
            exact = likelihood.messages(y, mean.double(), variance.double())
            torch.testing.assert_close(d_mu.double(), exact[0], rtol=1e-6, atol=1e-37)
            torch.testing.assert_close(d_var.double(), exact[1], rtol=1e-6, atol=1e-37)


def moment_below(t: Tensor) -> Tensor:
    with mpmath.workdps(60):
        found = []
        for value in t.flatten().tolist():
            x = mpmath.mpf(value)
            found.append(float(x + mpmath.npdf(x) / mpmath.ncdf(x)))
        return torch.tensor(found, dtype=D).reshape(t.shape)


@pytest.mark.parametrize("b", [1e-4, 1e-2, 1.0])
def test_expected_errors_under_a_laplace_noise_keep_their_digits(b: float) -> None:
    """``E|y - z|``: as a mixture of both sides of y, with the moments of mpmath."""
    e = torch.tensor([[-5.0], [-1.0], [-0.01], [0.0], [0.3], [20.0]], dtype=D)
    for variance in (1e-4, 0.01, 0.8, 100.0):
        v = torch.full_like(e, variance)
        std = math.sqrt(variance)
        below, above = e / std - std / b, -(e / std + std / b)
        share = torch.tensor([[float(weight(float(x), std, b))] for x in e.flatten()], dtype=D)
        want = std * (share * moment_below(below) + (1 - share) * moment_below(above))
        got = Laplace(b).expected_statistic(e, torch.zeros_like(e), v)
        torch.testing.assert_close(got, want, rtol=1e-8, atol=0)


def weight(e: float, std: float, b: float) -> mpmath.mpf:
    """Probability that the output lies below the target."""
    with mpmath.workdps(60):
        x, s, scale = mpmath.mpf(e), mpmath.mpf(std), mpmath.mpf(b)
        low = mpmath.ncdf(x / s - s / scale) * mpmath.exp(-x / scale)
        high = mpmath.ncdf(-x / s - s / scale) * mpmath.exp(x / scale)
        return low / (low + high)
