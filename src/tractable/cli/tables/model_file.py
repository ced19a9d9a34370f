"""Model files of `tractable fit`: a fitted estimator and the encoding of its table.

The file is that of the estimator with an additional entry in its header; it has no code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tractable import sklearn as estimators
from tractable.cli.errors import UsageError
from tractable.cli.tables.cell_formats import DATE_FORMATS, NUMBER_FORMATS
from tractable.cli.tables.columns import Column
from tractable.errors import InvalidModelFile
from tractable.persistence import model_file as storage
from tractable.persistence import validation
from tractable.persistence.validation import require_type

FORMAT = 1
"""Version of the entry of the table."""
MODEL = "model.tr"
TASKS = {"regression": "Regressor", "classification": "Classifier"}
LEARNERS = {"tagi": "TAGI", "bbb": "BBB", "net": "Backprop", "laplace": "Laplace"}


@dataclass(frozen=True)
class TableModel:
    """A fitted model of a table.

    Attributes:
        estimator: fitted estimator of ``tractable.sklearn``.
        learner: short name of the learner.
        task: ``regression`` or ``classification``.
        target: name of the target.
        columns: encodings of the input columns, in order.
        ids: columns that are copied to the predictions.
        missing: treatment of missing values: infer, refuse, drop or mean.
    """

    estimator: Any
    learner: str
    task: str
    target: str
    columns: tuple[Column, ...]
    ids: tuple[str, ...]
    missing: str

    def save(self, path: Path) -> None:
        """Write the file atomically."""
        tensors, header = self.estimator.pack()
        storage.write(path, tensors, {**header, "table": self.entry()})

    def entry(self) -> dict[str, Any]:
        """Return the description of the table as JSON values."""
        return {
            "format": FORMAT,
            "learner": self.learner,
            "task": self.task,
            "target": self.target,
            "columns": [column.to_json() for column in self.columns],
            "ids": list(self.ids),
            "missing": self.missing,
        }


def estimator_class(learner: str, task: str) -> Any:
    """Return the estimator class of a learner and task."""
    return getattr(estimators, f"{LEARNERS[learner]}{TASKS[task]}")


def load(path: Path) -> TableModel:
    """Return a model that ``tractable fit`` wrote; no code of the file is executed.

    Raises:
        UsageError: the file does not exist, has another version, or holds another model.
    """
    if path.is_dir():
        path = path / MODEL
    try:
        return read(path)
    except (FileNotFoundError, InvalidModelFile) as error:
        raise UsageError(str(error)) from error


def read(path: Path) -> TableModel:
    """Return a model, with the exceptions of ``tractable.persistence``.

    Raises:
        FileNotFoundError: there is no such file.
        InvalidModelFile: the file has another version, is damaged, or holds another model.
    """
    tensors, header = storage.read(path)
    entry = header.get("table")
    if not isinstance(entry, dict):
        raise InvalidModelFile(f"{path} holds a model, but not one of `tractable fit`")
    version = entry.get("format")
    if type(version) is not int or version != FORMAT:
        raise InvalidModelFile(
            f"{path} has table format {version}, this version reads {FORMAT}: "
            f"fit the model again, or use the version of tractable that wrote it"
        )
    with storage.as_invalid_file(path):
        learner, task = (require_type(entry[name], str, name) for name in ("learner", "task"))
        if learner not in LEARNERS or task not in TASKS:
            raise InvalidModelFile(f"{path} is a damaged model file: {learner!r} for {task!r}")
        estimator = estimator_class(learner, task).unpack(path, tensors, header)
        columns = tuple(_column(held) for held in entry["columns"])
        if sum(column.width for column in columns) != estimator.n_features_in_:
            raise InvalidModelFile(f"{path} is a damaged model file: its columns do not match")
        model = TableModel(
            estimator,
            learner,
            task,
            require_type(entry["target"], str, "target"),
            columns,
            tuple(require_type(name, str, "a name") for name in entry["ids"]),
            require_type(entry["missing"], str, "missing"),
        )
        if model.missing not in ("infer", "refuse", "drop", "mean"):
            raise InvalidModelFile(f"{path} is a damaged model file: missing {model.missing!r}")
        validation.check_roundtrip(({}, entry), ({}, model.entry()))
    return model


def _column(held: dict[str, Any]) -> Column:
    column = Column.from_json(held)
    for text in (column.name, column.kind, column.notation, *column.levels):
        require_type(text, str, "a column")
    formats = NUMBER_FORMATS if column.kind != "date" else DATE_FORMATS
    plain = column.kind in ("numeric", "date") and not column.levels and column.notation in formats
    if not (plain or (column.kind == "categorical" and column.levels)):
        raise InvalidModelFile(f"column {column.name!r} is of the kind {column.kind!r}")
    known = [math.isfinite(require_type(value, (int, float), "a mean")) for value in column.fill]
    if known and not (all(known) and len(known) == column.width):
        raise InvalidModelFile(f"column {column.name!r} is filled with {column.fill}")
    return column
