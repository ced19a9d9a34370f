"""Model diagnostics: error decomposition, calibration of the epistemic variance, and remedies.

Every study returns a frozen ``Result``: ``print`` shows its table and its advice, ``plot()`` draws
it, ``to_json()`` writes it.  Studies that train models take a *maker*, a function from a seed to an
untrained learner, and use all cores.
"""

from tractable.study.bias_variance import BiasVariance, bias_variance
from tractable.study.capacity import Capacity, Size, capacity
from tractable.study.curvature import Curvature, curvature
from tractable.study.descent import Descent, Momentum, NormalizedStep, descent
from tractable.study.implicit import Implicit, implicit, modified_loss
from tractable.study.more_data import Expected, MoreData, more_data
from tractable.study.regions import Regions, most_regions, regions
from tractable.study.remedies import Remedies, Remedy, remedies
from tractable.study.result import Result
from tractable.study.summary import LayerSummary, Summary, summary

__all__ = [
    "BiasVariance",
    "Capacity",
    "Curvature",
    "Descent",
    "Expected",
    "Implicit",
    "LayerSummary",
    "Momentum",
    "MoreData",
    "NormalizedStep",
    "Regions",
    "Remedies",
    "Remedy",
    "Result",
    "Size",
    "Summary",
    "bias_variance",
    "capacity",
    "curvature",
    "descent",
    "implicit",
    "modified_loss",
    "more_data",
    "most_regions",
    "regions",
    "remedies",
    "summary",
]
