"""Learners: what changes parameters."""

from tractable.errors import InvalidModelFile, NotFitted
from tractable.learners.backprop import Backprop
from tractable.learners.bbb import BayesByBackprop
from tractable.learners.covered import Coverage, Covered, coverage
from tractable.learners.ensemble import Ensemble
from tractable.learners.heads import Output
from tractable.learners.laplace import Laplace
from tractable.learners.learner import Learner
from tractable.learners.method import Method, Position, State
from tractable.learners.network import Network
from tractable.learners.outputs import Draws, Mixed, Moments, Outputs
from tractable.learners.tagi import TAGI
from tractable.training import Callback, Checkpoint, EarlyStopping, fit_many

__all__ = [
    "TAGI",
    "Backprop",
    "BayesByBackprop",
    "Callback",
    "Checkpoint",
    "Coverage",
    "Covered",
    "Draws",
    "EarlyStopping",
    "Ensemble",
    "InvalidModelFile",
    "Laplace",
    "Learner",
    "Method",
    "Mixed",
    "Moments",
    "Network",
    "NotFitted",
    "Output",
    "Outputs",
    "Position",
    "State",
    "coverage",
    "fit_many",
]
