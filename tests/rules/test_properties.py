"""What holds for any moments: no variance is negative, NaN or infinite."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.rules.cases import BILINEAR, ELEMENTWISE, LINEAR, Case, Curve, label
from tractable import Gaussian
from tractable.rules import activation_moments

PROPERTY = settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is no failure
)

# Zeros, the smallest numbers, and numbers whose squares and products still fit.
means = st.one_of(
    st.sampled_from([0.0, -0.0, 1e-300, -1e-30, 1.0, -1e8, 1e60]), st.floats(-1e60, 1e60)
)
variances = st.one_of(st.sampled_from([0.0, 5e-324, 1e-300, 1.0, 1e60]), st.floats(0, 1e60))


@st.composite
def gaussian(
    draw: st.DrawFn,
    shape: tuple[int, ...],
    locs: st.SearchStrategy[float] = means,
    spreads: st.SearchStrategy[float] = variances,
) -> Gaussian:
    """A Gaussian made of a few drawn numbers, repeated to the shape."""
    n = torch.Size(shape).numel()
    moments = []
    for numbers in (locs, spreads):
        drawn = draw(st.lists(numbers, min_size=1, max_size=5))
        moments.append(torch.tensor((drawn * n)[:n], dtype=torch.float64).reshape(shape))
    return Gaussian(*moments)


def assert_a_variance(z: object) -> None:
    assert isinstance(z, Gaussian)
    assert bool(torch.isfinite(z.loc).all()), z
    assert bool(torch.isfinite(z.variance).all()), z
    assert bool((z.variance >= 0).all()), z


@pytest.mark.parametrize("case", [*LINEAR, *BILINEAR], ids=label)
@PROPERTY
@given(data=st.data())
def test_variance_of_a_map(case: Case, data: st.DataObject) -> None:
    assert_a_variance(case.function(*(data.draw(gaussian(shape)) for shape in case.shapes)))


# Skip arguments for which the torch function overflows or is undefined.
DOMAIN = {
    "exp": st.floats(-300, 100),
    "cube": st.floats(-1e30, 1e30),
    "power of two": st.floats(-1e60, 1e60),
}
POSITIVE = st.floats(1e-3, 1e60)


@pytest.mark.parametrize("mode", ["linear", "exact"])
@pytest.mark.parametrize("curve", ELEMENTWISE, ids=label)
@PROPERTY
@given(data=st.data())
def test_variance_of_a_curve(curve: Curve, mode: str, data: st.DataObject) -> None:
    locs = POSITIVE if curve.positive else DOMAIN.get(curve.name, means)
    spreads = st.floats(0, 100) if curve.name == "exp" else variances
    z = data.draw(gaussian((6,), locs, spreads))
    with activation_moments(mode):  # type: ignore[arg-type]
        assert_a_variance(curve.function(z))


@pytest.mark.parametrize("curve", [c for c in ELEMENTWISE if c.exact], ids=label)
@PROPERTY
@given(data=st.data())
def test_a_curve_explains_no_more_than_its_variance(curve: Curve, data: st.DataObject) -> None:
    """``cov(a, z)^2 <= var(a) var(z)``: messages never remove more than the whole variance."""
    z = data.draw(gaussian((6,), st.floats(-100, 100), st.floats(0, 100)))
    z.loc.requires_grad_()
    with activation_moments("exact"):
        a = curve.function(z)
    assert isinstance(a, Gaussian)
    ones = torch.ones_like(a.loc)
    (slope,) = torch.autograd.grad([a.loc, a.variance], [z.loc], [ones, ones])
    assert bool((slope**2 * z.variance <= a.variance * (1 + 1e-9) + 1e-300).all())
