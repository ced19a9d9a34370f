"""Model diagnostics: error decomposition, calibration of the epistemic variance, and remedies.

Every study returns a frozen ``Result``: ``print`` shows its table and its advice, ``plot()`` draws
it, ``to_json()`` writes it.  Studies that train models take a *maker*, a function from a seed to an
untrained learner, and use all cores.
"""

from tractable.diagnostics.bias_variance import BiasVariance, bias_variance
from tractable.diagnostics.capacity import Capacity, Size, capacity
from tractable.diagnostics.curvature import Curvature, curvature
from tractable.diagnostics.descent import Descent, Momentum, NormalizedStep, descent
from tractable.diagnostics.implicit import Implicit, implicit, modified_loss
from tractable.diagnostics.learning_curve import Expected, MoreData, more_data
from tractable.diagnostics.regions import Regions, most_regions, regions
from tractable.diagnostics.regularizers import Remedies, Remedy, remedies
from tractable.diagnostics.result import Result
from tractable.diagnostics.summary import LayerSummary, Summary, summary

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
