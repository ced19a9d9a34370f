"""Learners: what changes parameters."""

from tractable.learners.backprop import Backprop
from tractable.learners.base import Learner, NotFitted
from tractable.learners.bbb import BayesByBackprop
from tractable.learners.callbacks import Callback, Checkpoint, EarlyStopping
from tractable.learners.ensemble import Ensemble
from tractable.learners.many import fit_many
from tractable.learners.storage import InvalidModelFile
from tractable.learners.tagi import TAGI

__all__ = [
    "TAGI",
    "Backprop",
    "BayesByBackprop",
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "Ensemble",
    "InvalidModelFile",
    "Learner",
    "NotFitted",
    "fit_many",
]
