"""A fitted estimator with the table it was fitted to: one file of tensors and JSON, no code.

It is the estimator's own model file with one more entry in its header.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tractable import sklearn as estimators
from tractable.cli.columns import Column
from tractable.cli.errors import BadUse
from tractable.errors import InvalidModelFile
from tractable.persistence import model_file as storage

FORMAT = 1
"""Of the entry about the table."""
MODEL = "model.tr"
LEARNERS = {"tagi": "TAGI", "bbb": "BBB", "net": "Net", "laplace": "Laplace"}


@dataclass(frozen=True)
class TableModel:
    """What is needed to predict for a new file.

    Attributes:
        estimator: a fitted estimator of ``tractable.sklearn``.
        learner: its short name.
        task: regression or classification.
        target: column that is predicted.
        columns: how inputs are encoded, in order.
        ids: columns that are copied to the predictions.
        missing: what was done with missing values: refuse, drop or mean.
    """

    estimator: Any
    learner: str
    task: str
    target: str
    columns: tuple[Column, ...]
    ids: tuple[str, ...]
    missing: str

    def save(self, path: Path) -> None:
        """Write the file, atomically."""
        self.estimator.save(path)
        tensors, header = storage.read(path)
        entry = {
            "format": FORMAT,
            "learner": self.learner,
            "task": self.task,
            "target": self.target,
            "columns": [column.to_json() for column in self.columns],
            "ids": list(self.ids),
            "missing": self.missing,
        }
        storage.write(path, tensors, {**header, "table": entry})


def estimator_class(learner: str, task: str) -> Any:
    """The estimator of this learner for this task."""
    kind = "Regressor" if task == "regression" else "Classifier"
    return getattr(estimators, f"{LEARNERS[learner]}{kind}")


def load(path: Path) -> TableModel:
    """Read a model that ``tractable fit`` wrote; no code from the file is run.

    Raises:
        BadUse: no such file, of another version, or not of a table.
    """
    if path.is_dir():
        path = path / MODEL
    try:
        _, header = storage.read(path)
    except (FileNotFoundError, InvalidModelFile) as error:
        raise BadUse(str(error)) from error
    entry = header.get("table")
    if not isinstance(entry, dict):
        raise BadUse(f"{path} holds a model, but not one that `tractable fit` wrote")
    if entry.get("format") != FORMAT:
        raise BadUse(
            f"{path} has table format {entry.get('format')}, this version reads {FORMAT}: "
            f"fit the model again, or use the version of tractable that wrote it"
        )
    try:
        learner, task = str(entry["learner"]), str(entry["task"])
        if learner not in LEARNERS:
            raise KeyError(f"learner {learner!r}")
        return TableModel(
            estimator_class(learner, task).load(path),
            learner,
            task,
            str(entry["target"]),
            tuple(Column.from_json(held) for held in entry["columns"]),
            tuple(entry["ids"]),
            str(entry["missing"]),
        )
    except (KeyError, TypeError, InvalidModelFile) as error:
        raise BadUse(f"{path} is a damaged model file: {error}") from error
