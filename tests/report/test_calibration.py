"""Coverage of the report: counts by their distribution function, as by the intervals themselves."""

import pytest
import torch

from tractable import metrics
from tractable.likelihoods import NegativeBinomial, Normal, Poisson
from tractable.report.calibration import LEVELS, interval_coverage


@pytest.mark.parametrize("likelihood", [NegativeBinomial(0.8), Poisson(), Normal(0.5)])
def test_coverage_is_that_of_the_intervals(likelihood):
    rng = torch.Generator().manual_seed(0)
    mean = torch.randn(60, 1, generator=rng, dtype=torch.float64)
    predictive = likelihood.predictive(mean, 0.1 + mean.square() / 4)
    y = torch.poisson(torch.exp(1.2 * mean), generator=rng)
    shares = [metrics.coverage(predictive, y, level) for level in LEVELS]
    assert interval_coverage(predictive, y) == shares
    assert 0 < shares[0] < shares[-1] <= 1
