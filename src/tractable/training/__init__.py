"""Training loop parts: batches, callbacks, held-out data, progress bars and threads."""

from tractable.training.callbacks import Callback, Checkpoint, EarlyStopping, EpochRecord
from tractable.training.parallel import fit_many
from tractable.training.progress import Progress

__all__ = ["Callback", "Checkpoint", "EarlyStopping", "EpochRecord", "Progress", "fit_many"]
