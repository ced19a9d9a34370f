"""Scores of held-out rows, on which calibration and model selection rest."""

from __future__ import annotations

import math

import pytest
import torch

from tractable.likelihoods import Bernoulli, NegativeBinomial, Normal
from tractable.likelihoods.outliers import robust_chi2

D = torch.float64


def rows(seed: int = 0, n: int = 40) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    mean = torch.randn(n, 2, generator=draw, dtype=D)
    variance = torch.rand(n, 2, generator=draw, dtype=D)
    return mean + torch.randn(n, 2, generator=draw, dtype=D), mean, variance


@pytest.mark.parametrize("outliers", [False, True])
def test_scores_of_rows_under_a_normal_noise(outliers: bool) -> None:
    y, mean, variance = rows()
    y[3, 0] += 50.0
    noise = 0.3
    found = Normal(math.sqrt(noise), 2).held_out_log_prob(y, mean, variance, outliers=outliers)
    total = variance + noise
    square = (y - mean) ** 2 / total
    square = robust_chi2(square) if outliers else square
    expected = -0.5 * (square + (2 * math.pi * total).log()).sum(1)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)


def test_scores_of_rows_with_missing_targets() -> None:
    y, mean, variance = rows()
    y[0, 1] = math.nan
    found = Normal(0.5, 2, missing=True).held_out_log_prob(y, mean, variance)
    each = torch.distributions.Normal(mean, (variance + 0.25).sqrt(), validate_args=False)
    expected = each.log_prob(y.nan_to_num()).masked_fill(y.isnan(), 0.0).sum(1)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)


def test_every_row_of_every_part_counts_for_the_scale_of_labels() -> None:
    """Parts of other sizes: the scale is that of the greatest sum, not of the sum of means."""
    sure, unsure = torch.full((2, 1), 4.0, dtype=D), torch.full((30, 1), 4.0, dtype=D)
    parts = [
        (Bernoulli(), torch.zeros(2, 1, dtype=D), sure, torch.full_like(sure, 0.1)),
        (Bernoulli(), torch.ones(30, 1, dtype=D), unsure, torch.full_like(unsure, 0.1)),
    ]

    def total(scale: float) -> float:
        found = 0.0
        for _, y, mean, variance in parts:
            likelihood = Bernoulli()
            likelihood.rescale(scale)
            found += float(likelihood.predictive(mean, variance).log_prob(y).sum())
        return found

    scale = Bernoulli().held_out_scale(parts)
    assert all(total(scale) >= total(scale * factor) for factor in (0.5, 0.8, 1.25, 2.0))


def test_a_dispersion_begins_at_one() -> None:
    likelihood = NegativeBinomial()
    found = likelihood.parameter_from_statistic(likelihood.statistic)
    assert float(found) == pytest.approx(1.0, rel=1e-9)
