"""Sums, products and quotients with constants of every kind, and a Gaussian met twice."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tractable import Gaussian
from tractable.testing.gaussians import REGIMES, assert_moments_agree, gaussian, generator

LOC = torch.tensor([1.5, -2.0, 4.0], dtype=torch.float64)


@pytest.fixture
def g() -> Any:
    return Gaussian(LOC, torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64))


def moments(z: Any) -> tuple[torch.Tensor, torch.Tensor]:
    assert isinstance(z, Gaussian)
    return z.loc, z.variance


CONSTANTS = [
    2,
    -0.75,
    torch.tensor(3),
    torch.tensor([16, 200, 255], dtype=torch.uint8),
    torch.tensor([-7, 3, 2], dtype=torch.int8),
    torch.tensor([0.1, 1e30, -2.0]),
    torch.tensor([[0.3], [-4.0]], dtype=torch.float64),
]


@pytest.mark.parametrize("c", CONSTANTS, ids=str)
def test_a_constant_of_any_type_counts_with_its_value(g: Any, c: Any) -> None:
    """Integers neither wrap around nor round: as torch computes with the means."""
    value = torch.as_tensor(c).to(torch.float64)
    ones = torch.ones_like(value)
    cases = [
        (g + c, LOC + value, g.variance * ones),
        (c + g, LOC + value, g.variance * ones),
        (g - c, LOC - value, g.variance * ones),
        (c - g, value - LOC, g.variance * ones),
        (g * c, LOC * value, g.variance * value**2),
        (c * g, LOC * value, g.variance * value**2),
        (g / c, LOC / value, g.variance / value**2),
    ]
    for z, loc, variance in cases:
        torch.testing.assert_close(moments(z), (loc, variance), rtol=1e-14, atol=0)


def test_other_spellings(g: Any) -> None:
    pairs = [
        (torch.subtract(g, 1), g - 1),
        (g.subtract(1), g - 1),
        (torch.rsub(g, 1, alpha=2), 1 - 2 * g),
        (torch.multiply(g, 2), g * 2),
        (g.multiply(2), g * 2),
        (torch.divide(g, 2), g / 2),
        (g.true_divide(2), g / 2),
        (torch.negative(g), -g),
        (g.add(1, alpha=3), g + 3),
        (torch.absolute(g), abs(g)),
    ]
    for a, b in pairs:
        torch.testing.assert_close(moments(a), moments(b), rtol=0, atol=0)


def test_a_wider_constant_widens_both_moments(g: Any) -> None:
    narrow: Any = Gaussian(LOC.float(), 0.5)
    for z in (narrow + LOC, narrow - LOC, LOC - narrow, narrow * LOC, narrow / LOC):
        assert (z.dtype, z.loc.dtype, z.variance.dtype) == (torch.float64,) * 3


@pytest.mark.parametrize("regime", REGIMES)
def test_a_gaussian_met_twice_is_not_independent_of_itself(regime: str) -> None:
    x: Any = gaussian((6,), regime, generator("twice"))
    for function in (
        lambda a: a + a,
        lambda a: torch.add(a, a, alpha=-3),
        lambda a: a - a,
        lambda a: torch.sub(a, a, alpha=0.5),
        lambda a: a * a,
        lambda a: a**2,
    ):
        assert_moments_agree(function(x), function, x)


def test_a_quotient_linearises_its_divisor() -> None:
    """Eq. (14) on ``x * (1 / y)``, with ``1 / y`` by eq. (10)."""
    x: Any = Gaussian(LOC, 0.2)
    y: Any = Gaussian(torch.tensor([2.0, -3.0, 0.5], dtype=torch.float64), 1e-3)
    inverse, spread = 1 / y.loc, y.variance / y.loc**4
    wanted = x.variance * spread + x.variance * inverse**2 + LOC**2 * spread
    torch.testing.assert_close(moments(x / y), (LOC * inverse, wanted))
    torch.testing.assert_close(moments(LOC / y), (LOC * inverse, LOC**2 * spread))
    torch.testing.assert_close(moments(2.0 / y), (2 * inverse, 4 * spread))


def test_powers(g: Any) -> None:
    assert all(torch.equal(a, b) for a, b in zip(moments(g**1), (g.loc, g.variance), strict=True))
    loc, variance = moments(Gaussian(torch.zeros(2), 1.0) ** 0)
    assert loc.tolist() == [1, 1]
    assert variance.tolist() == [0, 0]
    exponent = torch.tensor([3.0, 2.5, 0.0], dtype=torch.float64)
    base = LOC.abs()
    _, variance = moments(Gaussian(base, 0.1) ** exponent)
    torch.testing.assert_close(variance, 0.1 * (exponent * base ** (exponent - 1)) ** 2)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda g: torch.div(g, 2, rounding_mode="floor"), "rounding_mode must be None"),
        (lambda g: torch.pow(g, g), "exponent must be a constant"),
        (lambda g: torch.pow(torch.ones(3), g), "exponent must be a constant"),
    ],
)
def test_refusals(g: Any, function: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        function(g)
