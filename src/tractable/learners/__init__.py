"""Learners: what changes parameters."""

from tractable.learners.base import Learner, NotFitted
from tractable.learners.callbacks import Callback, Checkpoint, EarlyStopping
from tractable.learners.storage import InvalidModelFile
from tractable.learners.tagi import TAGI

__all__ = [
    "TAGI",
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "InvalidModelFile",
    "Learner",
    "NotFitted",
]
