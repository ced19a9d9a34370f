"""How far a fit got: what a checkpoint must know to go on where it stood."""

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

_MANY = 1 << 60


@dataclass
class FitRun:
    """The progress of a fit, or of the last one.

    Attributes:
        epoch: epochs done.
        epochs: epochs to do.
        rows: rows of an epoch.
        batches: batches of an epoch.
        first_record: where its records begin in the history.
        scale: held-out scale of the noise, once known.
        stopped: whether a callback has ended it.
        finished: whether nothing is left to do.
        fingerprint: fingerprint of the data, for runs that may be resumed.
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
        seen = None
        if fingerprint and isinstance(source, ArrayData):
            seen = _fingerprint(*tensors_of(source.x), source.y)
        return cls(0, epochs, len(source), source.batches, first_record, fingerprint=seen)

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
        """Return the run as JSON values."""
        if not self.epochs:
            return {"epoch": self.epoch, "scale": self.scale, "plan": None}
        plan = {k: v for k, v in asdict(self).items() if k not in ("epoch", "scale")}
        return {"epoch": self.epoch, "scale": self.scale, "plan": plan}

    @classmethod
    def from_header(cls, header: dict[str, Any]) -> FitRun:
        """Return the run that ``to_header`` described."""
        run = cls(epoch=require_at_most(header["epoch"], _MANY, "epoch"))
        if header["scale"] is not None:
            run.scale = float(require_type(header["scale"], (int, float), "scale"))
            if not 0 < run.scale < math.inf:
                raise InvalidModelFile(f"scale in the file is {run.scale}")
        plan = header["plan"]
        if plan is not None:
            require_type(plan, dict, "plan")
            for key in ("epochs", "rows", "batches"):
                setattr(run, key, require_at_most(plan[key], _MANY, key))
            require_at_most(run.epoch, run.epochs, "epoch")
            run.first_record = require_at_most(
                plan["first_record"], len(header["history"]), "first_record"
            )
            run.stopped = require_type(plan.get("stopped", False), bool, "stopped")
            run.finished = require_type(plan.get("finished", False), bool, "finished")
            seen = plan.get("fingerprint")
            run.fingerprint = None if seen is None else require_type(seen, str, "fingerprint")
        return run


def _fingerprint(*tensors: Tensor) -> str:
    seen = hashlib.sha256()
    for tensor in tensors:
        parts = [tensor.loc, tensor.variance] if isinstance(tensor, Gaussian) else [tensor]
        for part in parts:
            seen.update(part.detach().cpu().contiguous().numpy().tobytes())
    return seen.hexdigest()
