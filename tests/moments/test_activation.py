"""Slopes against autograd, exact moments against quadrature, and their behavior far out."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from scipy import integrate, stats
from torch import Tensor

from tractable.moments import activation as act

POINTS = torch.tensor([-30.0, -3.2, -0.7, -1e-3, 2e-3, 0.4, 1.9, 11.0], dtype=torch.float64)

VALUE_AND_SLOPE: list[tuple[Any, Any, dict[str, Any]]] = [
    (act.relu, F.relu, {}),
    (act.leaky_relu, F.leaky_relu, {"negative_slope": 0.2}),
    (act.tanh, torch.tanh, {}),
    (act.sigmoid, torch.sigmoid, {}),
    (act.softplus, F.softplus, {"beta": 1.5}),
    (act.gelu, F.gelu, {}),
    (act.gelu, F.gelu, {"approximate": "tanh"}),
    (act.silu, F.silu, {}),
    (act.elu, F.elu, {"alpha": 0.6}),
    (act.exp, torch.exp, {}),
    (act.sin, torch.sin, {}),
    (act.cos, torch.cos, {}),
    (act.absolute, torch.abs, {}),
    (act.reciprocal, torch.reciprocal, {}),
    (act.log, torch.log, {}),
    (act.sqrt, torch.sqrt, {}),
]


@pytest.mark.parametrize(("ours", "theirs", "options"), VALUE_AND_SLOPE)
def test_value_and_slope(ours: Any, theirs: Any, options: dict[str, Any]) -> None:
    points = POINTS.abs() if ours in (act.log, act.sqrt) else POINTS
    value, slope = ours(points, **options)
    points = points.clone().requires_grad_()
    wanted = theirs(points, **options)
    torch.testing.assert_close(value, wanted.detach(), rtol=1e-14, atol=1e-300)
    (gradient,) = torch.autograd.grad(wanted.sum(), points)
    torch.testing.assert_close(slope.to(gradient.dtype), gradient, rtol=1e-11, atol=1e-15)


EXACT: list[tuple[Any, Any]] = [
    (act.exact_relu, lambda z: max(z, 0.0)),
    (lambda mu, var: act.exact_leaky_relu(mu, var, 0.2), lambda z: z if z > 0 else 0.2 * z),
    (lambda mu, var: act.exact_leaky_relu(mu, var, -0.5), lambda z: z if z > 0 else -0.5 * z),
    (act.exact_absolute, abs),
    (act.exact_exp, math.exp),
    (act.exact_sin, math.sin),
    (act.exact_cos, math.cos),
    (act.square, lambda z: z * z),
]


@pytest.mark.parametrize(("mu", "sigma"), [(-2.1, 0.6), (-0.4, 1.3), (0.0, 0.8), (0.9, 0.3)])
@pytest.mark.parametrize(("ours", "function"), EXACT)
def test_exact_moments(ours: Any, function: Any, mu: float, sigma: float) -> None:
    def expected(value: Any) -> float:
        def integrand(z: float) -> float:
            return value(z) * stats.norm.pdf(z, mu, sigma)

        low, high = mu - 12 * sigma, mu + 12 * sigma
        points = [0.0] if low < 0 < high else None
        return float(
            integrate.quad(integrand, low, high, points=points, epsabs=1e-13, limit=200)[0]
        )

    mean = expected(function)
    variance = expected(lambda z: (function(z) - mean) ** 2)
    covariance = expected(lambda z: (function(z) - mean) * (z - mu))
    got = ours(torch.tensor(mu, dtype=torch.float64), torch.tensor(sigma**2, dtype=torch.float64))
    want = [torch.tensor(w, dtype=torch.float64) for w in (mean, variance, covariance / sigma**2)]
    torch.testing.assert_close(list(got), want, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("exact", "slopes"),
    [(act.exact_relu, (1, 0)), (act.exact_absolute, (1, -1)), (act.exact_leaky_relu, (1, 0.01))],
)
def test_far_from_the_kink_a_branch_keeps_its_digits(
    exact: Any, slopes: tuple[float, float], sign: int, dtype: torch.dtype
) -> None:
    """``E[a^2] - E[a]^2`` would leave nothing of a variance of 0.01 around a mean of 10,000."""
    mu = sign * torch.tensor([10.0, 1e4, 1e20, 1e37], dtype=dtype)
    var = torch.full_like(mu, 0.01)
    slope = torch.full_like(mu, slopes[0] if sign > 0 else slopes[1])
    mean, variance, j = exact(mu, var)
    torch.testing.assert_close(mean, mu * slope, rtol=1e-6, atol=0)
    torch.testing.assert_close(variance, var * slope**2, rtol=1e-5, atol=0)
    torch.testing.assert_close(j, slope, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 0.02), (torch.float64, 1e-8)], ids=str
)
@pytest.mark.parametrize("alpha", [-1.0, -3.0, -5.5, -8.0])
def test_the_lower_tail_of_relu_keeps_its_digits(
    alpha: float, dtype: torch.dtype, tolerance: float
) -> None:
    """Where hardly anything passes: ``N(t; alpha, 1) = density(alpha) exp(alpha t - t^2 / 2)``."""

    def moment(k: int) -> float:
        def integrand(t: float) -> float:
            return t**k * math.exp(alpha * t - t * t / 2)

        passed = integrate.quad(integrand, 0, 40, epsabs=0, epsrel=1e-11)[0]
        return float(passed * stats.norm.pdf(alpha))

    mu = torch.tensor(3 * alpha, dtype=dtype)
    got = act.exact_relu(mu, torch.full_like(mu, 9.0))
    want = [3 * moment(1), 9 * (moment(2) - moment(1) ** 2), moment(0)]
    torch.testing.assert_close(
        list(got), [torch.tensor(w, dtype=dtype) for w in want], rtol=tolerance, atol=0
    )


@pytest.mark.parametrize(
    ("exact", "slope"), [(act.exact_sin, torch.cos), (act.exact_cos, torch.sin)]
)
def test_a_small_variance_keeps_its_digits(exact: Any, slope: Any) -> None:
    mu = torch.tensor([0.3, 1.2, -2.5])
    var = torch.full_like(mu, 1e-9)
    torch.testing.assert_close(exact(mu, var)[1], var * slope(mu) ** 2, rtol=1e-5, atol=0)


def test_slopes_stay_finite_far_out() -> None:
    far = torch.tensor([-1e38, -1e20, 1e20, 1e38])
    curves: list[Any] = [act.relu, act.leaky_relu, act.tanh, act.sigmoid, act.softplus, act.gelu]
    curves += [lambda mu: act.gelu(mu, "tanh"), act.silu, act.elu, act.sin, act.cos, act.absolute]
    for curve in curves:
        value, slope = curve(far)
        assert bool(torch.isfinite(value).all())
        assert bool(torch.isfinite(slope.to(value.dtype)).all())


def test_relu_keeps_its_slope_as_booleans() -> None:
    """A quarter of the memory, and zero at zero (eq. 48)."""
    value, slope = act.relu(torch.tensor([-1.0, 0.0, 2.0]))
    assert slope.dtype == torch.bool
    assert slope.tolist() == [False, False, True]
    assert isinstance(value, Tensor)


@pytest.mark.parametrize("mu", [-1.4, -0.3, 0.0, 0.8, 1.5])
@pytest.mark.parametrize("sigma", [0.2, 1.0, 2.0])
@pytest.mark.parametrize(
    ("ours", "function", "width"),
    [
        (act.bounded_sigmoid, lambda z: 1 / (1 + math.exp(-z)), 2),
        (act.bounded_tanh, math.tanh, 1),
    ],
)
def test_bounded_moments_near_zero(
    ours: Any, function: Any, width: float, mu: float, sigma: float
) -> None:
    """The mean within 0.005 of the range, the variance 0.9 to 1.3 times, as stated."""
    mu, sigma = mu * width, sigma * width

    def expected(value: Any) -> float:
        edges = {"epsabs": 1e-12, "limit": 200}
        low, high = mu - 10 * sigma, mu + 10 * sigma
        found = integrate.quad(
            lambda z: value(z) * stats.norm.pdf(z, mu, sigma), low, high, **edges
        )
        return float(found[0])

    mean = expected(function)
    variance = expected(lambda z: (function(z) - mean) ** 2)
    got = ours(torch.tensor(mu, dtype=torch.float64), torch.tensor(sigma**2, dtype=torch.float64))
    assert abs(got[0].item() - mean) < 0.005 * 2 / width
    assert 0.9 < got[1].item() / variance < 1.3
    assert got[2].item() ** 2 * sigma**2 <= got[1].item() * (1 + 1e-12)
