"""Quantiles by root finding against functions whose inverses are known."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Uniform
from torch.special import ndtri

from tractable.predictive import cdfs, root_finding

D = torch.float64


def stairs(y):
    """Steps of a quarter at 0, 1, 2 and 3."""
    return ((y.floor() + 1) / 4).clamp(0, 1)


@pytest.mark.parametrize(("strict", "expected"), [(False, 1.0), (True, 2.0)])
def test_at_a_step_the_share_may_have_to_be_exceeded(strict, expected):
    start = torch.tensor([0.0, 7.0], dtype=D)
    found = root_finding.invert(
        stairs, 0.5, start, torch.ones(2, dtype=D), is_discrete=True, strict=strict
    )
    assert found.tolist() == [expected] * 2


def test_a_plateau_is_passed_if_the_share_must_be_exceeded():
    def plateau(y):
        return torch.where(y < 1, y, (y - 1).clamp_min(1)) / 4

    start = torch.tensor([0.3], dtype=D)
    step = torch.ones(1, dtype=D)
    beyond = root_finding.invert(plateau, 0.25, start, step, is_discrete=False, strict=True)
    assert beyond.item() == pytest.approx(2.0)


@pytest.mark.parametrize("q", [1e-6, 0.3, 0.9])
def test_the_normal_distribution(q):
    start = torch.tensor([40.0, -3.0, 0.0], dtype=D)
    found = root_finding.invert(
        torch.special.ndtr, q, start, torch.ones(3, dtype=D), is_discrete=False
    )
    assert found.tolist() == pytest.approx([float(ndtri(torch.tensor(q, dtype=D)))] * 3, abs=1e-9)


def test_distribution_functions_outside_of_the_support():
    """Torch refuses such values, of the uniform distribution for example."""
    y = torch.tensor([-1.0, 0.0, 0.25, 1.0, 2.0], dtype=D)
    uniform = Uniform(torch.zeros(5, dtype=D), torch.ones(5, dtype=D), validate_args=True)
    assert cdfs.cdf(uniform, y).tolist() == pytest.approx([0, 0, 0.25, 1, 1], abs=1e-12)
