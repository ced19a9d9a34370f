"""Learners: algorithms that infer or optimize the parameters of a network."""

from tractable.errors import InvalidModelFile, NotFitted
from tractable.learners.learner import Learner, reinitialized
from tractable.learners.methods.backprop import Backprop
from tractable.learners.methods.base import BatchPosition, Method, State
from tractable.learners.methods.ensemble import Ensemble
from tractable.learners.methods.laplace.laplace import Laplace
from tractable.learners.methods.tagi.tagi import TAGI
from tractable.learners.methods.variational.bbb import BayesByBackprop
from tractable.learners.network.functional import Network
from tractable.learners.network.output_selection import Output
from tractable.learners.outputs import EnsembleOutputs, GaussianOutputs, Outputs, SampledOutputs
from tractable.learners.rule_coverage import Coverage, CoveredFunction, coverage
from tractable.training import Callback, Checkpoint, EarlyStopping, fit_many

__all__ = [
    "TAGI",
    "Backprop",
    "BatchPosition",
    "BayesByBackprop",
    "Callback",
    "Checkpoint",
    "Coverage",
    "CoveredFunction",
    "EarlyStopping",
    "Ensemble",
    "EnsembleOutputs",
    "GaussianOutputs",
    "InvalidModelFile",
    "Laplace",
    "Learner",
    "Method",
    "Network",
    "NotFitted",
    "Output",
    "Outputs",
    "SampledOutputs",
    "State",
    "coverage",
    "reinitialized",
    "fit_many",
]
