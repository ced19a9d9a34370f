"""What ``predict`` returns: the same members whatever the learner and the likelihood."""

from tractable.predictive.base import Predictive
from tractable.predictive.categorical import CategoricalPredictive
from tractable.predictive.circular import CircularPredictive
from tractable.predictive.distribution_mixture import DistributionMixturePredictive
from tractable.predictive.joint import JointPredictive
from tractable.predictive.log_density import LogDensityPredictive
from tractable.predictive.log_normal import LogNormalPredictive, LogScale
from tractable.predictive.mixtures import MixturePredictive, mixture
from tractable.predictive.multivariate_normal import MultivariateNormalPredictive
from tractable.predictive.normal import NormalPredictive
from tractable.predictive.normal_mixture import NormalMixturePredictive
from tractable.predictive.steps import StepsPredictive

__all__ = [
    "CategoricalPredictive",
    "CircularPredictive",
    "DistributionMixturePredictive",
    "JointPredictive",
    "LogDensityPredictive",
    "LogNormalPredictive",
    "LogScale",
    "MixturePredictive",
    "MultivariateNormalPredictive",
    "NormalMixturePredictive",
    "NormalPredictive",
    "Predictive",
    "StepsPredictive",
    "mixture",
]
