"""Training around the learning methods: batches, epochs' callbacks, hold-out, progress, threads."""

from tractable.training.callbacks import Callback, Checkpoint, EarlyStopping, EpochRecord
from tractable.training.parallel import fit_many
from tractable.training.progress import Progress

__all__ = ["Callback", "Checkpoint", "EarlyStopping", "EpochRecord", "Progress", "fit_many"]
