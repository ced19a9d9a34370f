"""Conditioning on summed messages: variances stay positive and never grow; exact cases."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tractable.moments.conditioning import (
    condition,
    damping,
    observed_power,
    published_shrinkage,
    shrinkage,
)

PROPERTY = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is no failure
)

counts = st.integers(1, 10_000)
parts = st.floats(0, 1 - 1e-12)  # nearer to one, rounding may leave nothing of the rest
positive = st.floats(1e-9, 1e9)


def number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


@PROPERTY
@given(part=parts, n=counts)
def test_shrinkage_is_positive_and_never_grows(part: float, n: int) -> None:
    """n observations, each and together, remove less than the whole variance."""
    left = shrinkage(number(part) * n, n)
    assert 0 < left <= 1


@PROPERTY
@given(part=parts)
def test_one_observation_is_exact(part: float) -> None:
    torch.testing.assert_close(shrinkage(number(part), 1), 1 - number(part), rtol=1e-14, atol=0)


@PROPERTY
@given(variance=positive, noise=positive, n=counts)
def test_alike_observations_of_one_state_are_exact(variance: float, noise: float, n: int) -> None:
    """Each gives ``q = v / (v + s)``; the conjugate posterior is ``1 / (1/v + n/s)``."""
    v, s = number(variance), number(noise)
    left = shrinkage(n * v / (v + s), n)
    # The part 1 - v / (v + s) is all that is left of s, with the digits of a number near one.
    lost = 1e-15 * variance / noise
    torch.testing.assert_close(left, s / (s + n * v), rtol=1e-12 + lost, atol=0)


@PROPERTY
@given(
    information=st.lists(st.floats(0, 1e3), min_size=1, max_size=8),
    spare=st.integers(0, 3),
)
def test_unequal_observations_remove_at_most_their_information(
    information: list[float], spare: int
) -> None:
    """Against the conjugate posterior of observations with different noises."""
    ratios = torch.tensor(information, dtype=torch.float64)  # var / noise, one by one
    q = (ratios / (1 + ratios)).sum()
    exact = 1 / (1 + ratios.sum())
    assert shrinkage(q, len(information) + spare) >= exact * (1 - 1e-12)


def test_many_observations_tend_to_the_information_form() -> None:
    q = number(3.7)
    torch.testing.assert_close(shrinkage(q, 1e9), 1 / (1 + q), rtol=1e-8, atol=0)


@pytest.mark.parametrize("n", [1, 2, 30])
def test_condition_is_the_conjugate_posterior(n: int) -> None:
    """A state observed n times, all with the same value: means too, by the sum of residuals."""
    mu, var, noise, y = number(0.4), number(2.0), number(0.7), 1.9
    d_mu = n * (y - mu) / (var + noise)
    d_var = -n / (var + noise)
    mean, left = condition(mu, var, d_mu, d_var, n)
    precision = 1 / var + n / noise
    torch.testing.assert_close(left, 1 / precision, rtol=1e-14, atol=0)
    if n == 1:
        exact = (mu / var + y / noise) / precision
        torch.testing.assert_close(mean, exact, rtol=1e-14, atol=0)
    torch.testing.assert_close(mean, mu + var * d_mu, rtol=0, atol=0)


@PROPERTY
@given(
    var=st.floats(0, 1e12),
    d_var=st.floats(-1e12, 1e12),
    n=counts,
)
def test_condition_never_leaves_a_variance_that_is_not_one(
    var: float, d_var: float, n: int
) -> None:
    _, left = condition(number(1.0), number(var), number(0.5), number(d_var), n)
    assert 0 <= left <= var


def test_a_state_without_variance_is_unchanged() -> None:
    mean, left = condition(number(1.5), number(0.0), number(1e9), number(-1e9))
    assert (mean.item(), left.item()) == (1.5, 0.0)


@PROPERTY
@given(q=st.floats(0, 1e12))
def test_the_published_shrinkage_stays_positive_and_smooth(q: float) -> None:
    left = published_shrinkage(number(q))
    assert 0 < left <= 1
    if q <= 0.5:
        assert left == 1 - number(q)
    bend = torch.tensor([0.5 - 1e-6, 0.5, 0.5 + 1e-6], dtype=torch.float64)
    below, middle, above = published_shrinkage(bend)
    assert middle == 0.5
    torch.testing.assert_close(middle - below, above - middle, rtol=1e-5, atol=0)


@PROPERTY
@given(variance=st.floats(1e-3, 1e3), noise=st.floats(1e-3, 1e3), n=st.integers(1, 1000))
def test_damped_alike_observations_move_the_mean_as_their_joint_posterior(
    variance: float, noise: float, n: int
) -> None:
    """n observations of one state, each with the residual r: ``n v r / (s + n v)`` in all."""
    v, s, r = number(variance), number(noise), 1.7
    d_mu, d_var = (value.expand(n) for value in (r / (v + s), -1 / (v + s)))
    message = d_mu.sum()
    gain = damping(
        observed_power(d_mu, d_var), d_var, v.expand(n), v * message * message, torch.sum
    )
    assert 0 < gain <= 1
    torch.testing.assert_close(gain * v * message, n * v * r / (s + n * v), rtol=1e-10, atol=0)


def test_missing_observations_do_not_damp() -> None:
    d_mu = torch.tensor([0.3, 0.0], dtype=torch.float64)
    d_var = torch.tensor([-0.5, 0.0], dtype=torch.float64)
    weight = observed_power(d_mu, d_var)
    assert weight.tolist() == [pytest.approx(0.09), 0.0]
    whole = damping(weight, d_var, torch.ones(2), weight.sum(), torch.sum)
    alone = damping(weight[:1], d_var[:1], torch.ones(1), weight.sum(), torch.sum)
    assert whole == alone == 1
