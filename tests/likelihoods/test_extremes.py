"""Densities and predictions at the ends of the range of numbers."""

from __future__ import annotations

import math

import pytest
import torch

from tractable.likelihoods import NegativeBinomial, Poisson

OUTPUTS = (-1e4, -200.0, -5.0, 0.0, 5.0, 50.0, 88.0, 89.0, 200.0, 709.0, 710.0, 1e4)


@pytest.mark.parametrize("likelihood", [Poisson(), Poisson("softplus"), NegativeBinomial(2.0)])
def test_log_densities_of_counts_are_finite_and_those_of_double_precision(likelihood) -> None:
    smallest = torch.finfo(torch.float32).min
    for z in OUTPUTS:
        for y in (0.0, 3.0, 1e4):
            rows = torch.full((1, 1), z), torch.full((1, 1), y)
            exact = likelihood.log_prob(rows[1].double(), rows[0].double())
            got = likelihood.log_prob(rows[1], rows[0])
            assert got.dtype == torch.float32
            assert bool(torch.isfinite(got).all())
            torch.testing.assert_close(
                got.double(), exact.clamp_min(smallest), rtol=1e-6, atol=1e-6
            )
            evidence = likelihood.log_evidence(rows[1], rows[0], torch.zeros(1, 1))
            torch.testing.assert_close(evidence, got, rtol=1e-4, atol=1e-4)


def test_a_rate_of_poisson_is_known_at_every_output() -> None:
    for z in (-20.0, 0.0, 60.0, 89.0, 500.0):
        exact = 3 * z - math.exp(z) - math.log(6)
        got = Poisson().log_prob(torch.full((1, 1), 3.0), torch.full((1, 1), z))
        assert float(got) == pytest.approx(max(exact, torch.finfo(torch.float32).min), rel=1e-6)
