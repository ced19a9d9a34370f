"""Functions with exact moments at the edges of their arguments, against 120 digits."""

from __future__ import annotations

from typing import Any

import mpmath
import pytest
import torch

from tractable.moments import activation as act

mp = mpmath.mp.clone()
mp.dps = 120
VARIANCES = [0.0, 1e-30, 1e-12, 1e-4, 1.0, 50.0, 100.0, 1e6]
MEANS = [0.0, -1e-20, 0.5, 1.5707963, 3.1415927, -100.0, 30.0, 1e8, 3e38]


def exp(m: Any, v: Any) -> tuple[Any, Any, Any]:
    mean = mp.exp(m + v / 2)
    return mean, mp.expm1(v) * mean**2, mean


def sin(m: Any, v: Any) -> tuple[Any, Any, Any]:
    damp = mp.exp(-v / 2)
    square = (1 - mp.cos(2 * m) * mp.exp(-2 * v)) / 2
    return damp * mp.sin(m), square - (damp * mp.sin(m)) ** 2, damp * mp.cos(m)


def cos(m: Any, v: Any) -> tuple[Any, Any, Any]:
    damp = mp.exp(-v / 2)
    square = (1 + mp.cos(2 * m) * mp.exp(-2 * v)) / 2
    return damp * mp.cos(m), square - (damp * mp.cos(m)) ** 2, -damp * mp.sin(m)


def square(m: Any, v: Any) -> tuple[Any, Any, Any]:
    return m * m + v, 2 * v * v + 4 * m * m * v, 2 * m


CASES = [
    (act.exact_exp, exp), (act.exact_sin, sin), (act.exact_cos, cos), (act.square, square),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("ours", "reference"), CASES, ids=["exp", "sin", "cos", "square"])
def test_exact_moments_at_the_edges(ours: Any, reference: Any, dtype: torch.dtype) -> None:
    """Every moment that the type can hold is right to its rounding."""
    limits = torch.finfo(dtype)
    for mean in MEANS:
        for variance in VARIANCES:
            m, v = (torch.tensor(value, dtype=dtype) for value in (mean, variance))
            wanted = reference(mp.mpf(float(m)), mp.mpf(float(v)))
            # The argument of an exponential is rounded: its error counts in full.
            size = 1 + (abs(float(m)) + float(v) if reference is exp else 0.0) + float(v)
            for part, (got, want) in enumerate(zip(ours(m, v), wanted, strict=True)):
                if abs(want) > limits.max / 4:
                    assert not bool(got.isnan()), (mean, variance, part)
                    continue
                error = abs(mp.mpf(float(got)) - want)
                bound = 16 * limits.eps * size * abs(want) + 8 * limits.tiny + 1e-100
                assert error <= bound, (mean, variance, part, float(got), float(want))


def bent(low: float, m: Any, v: Any) -> tuple[Any, Any, Any]:
    """``z`` above zero and ``low * z`` below."""
    s = mp.sqrt(v)
    above = mp.ncdf(m / s) if v else mp.mpf(m > 0)
    density = mp.npdf(m / s) if v else mp.mpf(0)
    low = mp.mpf(low)
    first = m * above + s * density, m * (1 - above) - s * density
    second = (m * m + v) * above + m * s * density, (m * m + v) * (1 - above) - m * s * density
    mean = first[0] + low * first[1]
    return mean, second[0] + low**2 * second[1] - mean**2, above + low * (1 - above)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    ("ours", "low"),
    [(act.exact_relu, 0.0), (act.exact_absolute, -1.0), (act.exact_leaky_relu, 0.01)],
)
def test_bent_lines_at_the_edges(ours: Any, low: float, dtype: torch.dtype) -> None:
    """Right to the rounding of the moments that go in."""
    eps = torch.finfo(dtype).eps
    for mean in (0.0, -1e-20, 0.5, -3.0, 1e4, -1e15):
        for variance in (0.0, 1e-30, 1e-12, 1.0, 100.0, 1e30):
            m, v = (torch.tensor(value, dtype=dtype) for value in (mean, variance))
            wanted = bent(low, mp.mpf(float(m)), mp.mpf(float(v)))
            scales = (abs(float(m)) + float(v) ** 0.5, float(v), 1.0)
            for got, want, scale in zip(ours(m, v), wanted, scales, strict=True):
                if scale == 1.0 and mean == variance == 0:
                    continue  # the slope at the bend itself is a convention
                error = abs(float(mp.mpf(float(got)) - want))
                assert error <= 64 * eps * scale + 1e-37, (mean, variance, float(got), float(want))
