"""Metrics of predictions, and of the difference between two samples.

``tractable.metrics.predictions`` compares a ``Predictive`` with observed targets,
``sample_distances`` contains distances between samples and between distributions, and
``two_sample`` is a test for equal distributions by a classifier.
"""

from tractable.metrics.predictions import (
    Reliability,
    accuracy,
    brier,
    coverage,
    ece,
    error_rate,
    lppd,
    mean_interval_width,
    nll,
    reliability,
    rmse,
)
from tractable.metrics.sample_distances import (
    energy_distance,
    inception_score,
    js_divergence,
    optimal_transport_plan,
    sliced_wasserstein,
    squared_mmd,
    squared_wasserstein_normals,
    transport_constraints,
    wasserstein,
)
from tractable.metrics.two_sample import TwoSampleResult, two_sample

__all__ = [
    "Reliability",
    "TwoSampleResult",
    "accuracy",
    "brier",
    "coverage",
    "optimal_transport_plan",
    "ece",
    "energy_distance",
    "error_rate",
    "inception_score",
    "js_divergence",
    "lppd",
    "squared_mmd",
    "nll",
    "reliability",
    "rmse",
    "mean_interval_width",
    "sliced_wasserstein",
    "transport_constraints",
    "two_sample",
    "wasserstein",
    "squared_wasserstein_normals",
]
