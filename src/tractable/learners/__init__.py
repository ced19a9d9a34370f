"""Learners: what changes parameters."""

from tractable.errors import InvalidModelFile, NotFitted
from tractable.learners.backprop import Backprop
from tractable.learners.bbb import BayesByBackprop
from tractable.learners.covered import Coverage, CoveredFunction, coverage
from tractable.learners.ensemble import Ensemble
from tractable.learners.heads import Output
from tractable.learners.laplace import Laplace
from tractable.learners.learner import Learner
from tractable.learners.method import BatchPosition, Method, State
from tractable.learners.network import Network
from tractable.learners.outputs import EnsembleOutputs, GaussianOutputs, Outputs, SampledOutputs
from tractable.learners.tagi import TAGI
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
    "fit_many",
]
