"""Progress of a fit, as a checkpoint stores it to resume the fit."""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from tractable.errors import InvalidModelFile
from tractable.gaussian import Gaussian
from tractable.persistence.validation import require_at_most, require_type
from tractable.training.data import ArrayData, LoaderData
from tractable.training.inputs import tensors_of

_MAX_COUNT = 1 << 60  # largest number of epochs or rows that a file may contain


@dataclass
class FitRun:
    """The progress of the current or most recent fit.

    Attributes:
        epoch: number of finished epochs.
        epochs: number of epochs in total.
        rows: number of rows in an epoch.
        batches: number of batches in an epoch.
        first_record: index of its first record in the history.
        scale: factor on the noise variance from held-out rows; None before it is computed.
        stopped: whether a callback has stopped the fit.
        finished: whether the fit is complete.
        fingerprint: SHA-256 of the data, for a fit that may be resumed; otherwise None.
    """

    epoch: int = 0
    epochs: int = 0
    rows: int = 0
    batches: int = 0
    first_record: int = 0
    scale: float | None = None
    stopped: bool = False
    finished: bool = False
    fingerprint: str | None = None

    @classmethod
    def planned(
        cls, epochs: int, source: ArrayData | LoaderData, first_record: int, *, fingerprint: bool
    ) -> FitRun:
        """Return a fit that has not started."""
        digest = None
        if fingerprint and isinstance(source, ArrayData):
            digest = _fingerprint(*tensors_of(source.x), source.y)
        return cls(0, epochs, len(source), source.batches, first_record, fingerprint=digest)

    def differs(self, other: FitRun) -> str | None:
        """Return why this run cannot continue the other one, as text; None if it can."""
        for key in ("epochs", "rows", "batches"):
            mine, theirs = getattr(self, key), getattr(other, key)
            if mine != theirs:
                return f"it was written by a fit with {key} = {theirs}, this one has {mine}"
        both = self.fingerprint is not None and other.fingerprint is not None
        if both and self.fingerprint != other.fingerprint:
            return "it was written by a fit to other data"
        return None

    def to_header(self) -> dict[str, Any]:
        """Return the progress and settings of the fit as JSON values."""
        if not self.epochs:
            return {"epoch": self.epoch, "scale": self.scale, "plan": None}
        plan = {k: v for k, v in asdict(self).items() if k not in ("epoch", "scale")}
        return {"epoch": self.epoch, "scale": self.scale, "plan": plan}

    @classmethod
    def from_header(cls, header: dict[str, Any]) -> FitRun:
        """Return the run that ``to_header`` described."""
        run = cls(epoch=require_at_most(header["epoch"], _MAX_COUNT, "epoch"))
        if header["scale"] is not None:
            run.scale = float(require_type(header["scale"], (int, float), "scale"))
            if not 0 < run.scale < math.inf:
                raise InvalidModelFile(
                    f"scale in the file is {run.scale}, expected a positive number"
                )
        plan = header["plan"]
        if plan is not None:
            require_type(plan, dict, "plan")
            for key in ("epochs", "rows", "batches"):
                setattr(run, key, require_at_most(plan[key], _MAX_COUNT, key))
            require_at_most(run.epoch, run.epochs, "epoch")
            run.first_record = require_at_most(
                plan["first_record"], len(header["history"]), "first_record"
            )
            run.stopped = require_type(plan.get("stopped", False), bool, "stopped")
            run.finished = require_type(plan.get("finished", False), bool, "finished")
            digest = plan.get("fingerprint")
            if digest is not None:
                run.fingerprint = require_type(digest, str, "fingerprint")
        return run


def _fingerprint(*tensors: Tensor) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        parts = [tensor.loc, tensor.variance] if isinstance(tensor, Gaussian) else [tensor]
        for part in parts:
            digest.update(part.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
