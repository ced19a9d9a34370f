"""Model diagnostics: error decomposition, calibration of the epistemic variance, and remedies.

Every function returns a frozen ``DiagnosticResult``: ``print`` shows its table and recommendation,
``plot()`` draws it, ``to_json()`` writes it.  Functions that train models take a *factory*, a
function from a seed to an untrained learner, and use all cores.
"""

from tractable.diagnostics.bias_variance import BiasVariance, bias_variance
from tractable.diagnostics.capacity import Capacity, SizeResult, capacity
from tractable.diagnostics.curvature import Curvature, curvature
from tractable.diagnostics.descent import Descent, Momentum, NormalizedStep, descent
from tractable.diagnostics.implicit import (
    ImplicitRegularization,
    implicit_regularization,
    modified_loss,
)
from tractable.diagnostics.learning_curve import LearningCurve, LossForecast, learning_curve
from tractable.diagnostics.regions import Regions, max_regions, regions
from tractable.diagnostics.regularizers import (
    RegularizerComparison,
    RegularizerResult,
    compare_regularizers,
)
from tractable.diagnostics.result import DiagnosticResult
from tractable.diagnostics.summary import LayerSummary, Summary, summary

__all__ = [
    "BiasVariance",
    "Capacity",
    "Curvature",
    "Descent",
    "DiagnosticResult",
    "ImplicitRegularization",
    "LayerSummary",
    "LearningCurve",
    "LossForecast",
    "Momentum",
    "NormalizedStep",
    "Regions",
    "RegularizerComparison",
    "RegularizerResult",
    "SizeResult",
    "Summary",
    "bias_variance",
    "capacity",
    "compare_regularizers",
    "curvature",
    "descent",
    "implicit_regularization",
    "learning_curve",
    "max_regions",
    "modified_loss",
    "regions",
    "summary",
]
