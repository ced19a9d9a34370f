"""How good predictions are, and how different two samples are.

``tractable.metrics.predictions`` scores a ``Predictive`` against what was observed;
``distances`` measures two samples against each other, ``transport`` moves one distribution onto
another, and ``two_sample`` asks a classifier whether it can tell two tables apart.
"""

from tractable.metrics.distances import (
    energy_distance,
    inception_score,
    js_divergence,
    mmd,
    sliced_wasserstein,
)
from tractable.metrics.predictions import (
    Reliability,
    accuracy,
    brier,
    coverage,
    ece,
    error_rate,
    lppd,
    nll,
    reliability,
    rmse,
    sharpness,
)
from tractable.metrics.transport import (
    earth_mover,
    transport_constraints,
    wasserstein,
    wasserstein_of_normals,
)
from tractable.metrics.two_sample import TwoSample, two_sample

__all__ = [
    "Reliability",
    "TwoSample",
    "accuracy",
    "brier",
    "coverage",
    "earth_mover",
    "ece",
    "energy_distance",
    "error_rate",
    "inception_score",
    "js_divergence",
    "lppd",
    "mmd",
    "nll",
    "reliability",
    "rmse",
    "sharpness",
    "sliced_wasserstein",
    "transport_constraints",
    "two_sample",
    "wasserstein",
    "wasserstein_of_normals",
]
