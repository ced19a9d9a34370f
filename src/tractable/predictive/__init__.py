"""What ``predict`` returns: the same members whatever the learner and the likelihood."""

from tractable.predictive.angle import AnglePredictive
from tractable.predictive.base import Predictive
from tractable.predictive.categorical import CategoricalPredictive
from tractable.predictive.log_normal import LogNormalPredictive, LogScale
from tractable.predictive.mixing import mixture
from tractable.predictive.normal import NormalPredictive
from tractable.predictive.normal_mixture import NormalMixturePredictive
from tractable.predictive.pooled import PooledPredictive
from tractable.predictive.returned import ReturnedPredictive
from tractable.predictive.steps import StepsPredictive
from tractable.predictive.weighted import MixturePredictive

__all__ = [
    "AnglePredictive",
    "CategoricalPredictive",
    "LogNormalPredictive",
    "LogScale",
    "MixturePredictive",
    "NormalMixturePredictive",
    "NormalPredictive",
    "PooledPredictive",
    "Predictive",
    "ReturnedPredictive",
    "StepsPredictive",
    "mixture",
]
