"""``tractable predict``: predictions for the rows of a CSV file with a saved model."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from tractable.cli import output
from tractable.cli.errors import BadUse, unknown
from tractable.cli.folder import unwritable
from tractable.cli.table import csv_file, model_file
from tractable.cli.table.columns import encode
from tractable.cli.table.model_file import TableModel
from tractable.predictive import Predictive

Predictions = tuple[list[str], list[list[str | float]]]
"""A header, and rows of cells."""


def run(
    model: Path, data: Path, out: Path | None, *, level: float, missing: str | None, json: bool
) -> None:
    """Predict, and write or print the rows."""
    if out is not None:
        problem = f"{out} is a folder, wanted a file" if out.is_dir() else unwritable(out.parent)
        if problem is None and not out.parent.is_dir():
            problem = f"no folder {out.parent} for {out.name}"
        if problem:
            raise BadUse(problem)
    held = model_file.load(model)
    header, rows = predict(held, data, level=level, missing=missing)
    if out is not None:
        csv_file.write(out, header, rows)
        if json:
            output.as_json({"rows": len(rows), "columns": header, "out": str(out)})
        else:
            output.say(f"{len(rows)} rows of {held.target} to {out}")
    elif json:
        output.as_json([dict(zip(header, row, strict=True)) for row in rows])
    else:
        csv_file.write_rows(sys.stdout, header, rows)


def predict(model: TableModel, data: Path, *, level: float, missing: str | None) -> Predictions:
    """Predictions for every row, in order, beside the columns that identify it.

    Args:
        model: from ``model_file.load``.
        data: a CSV file with at least the columns of the training file; others are passed over.
        level: of the intervals.
        missing: ``"mean"`` fills missing values with the means of the training rows; by default
            as the model was fitted: rows are never left out, so that they can be counted on.

    Raises:
        BadUse: the file does not suit the model.
    """
    if not 0 < level < 1:
        raise BadUse(f"--level must lie between 0 and 1, got {level}")
    if missing not in (None, "mean"):
        raise unknown("way with missing values", str(missing), ["mean"])
    table = csv_file.read(data)
    names = [column.name for column in model.columns]
    table.require(names)
    gaps = table.missing(names)
    if gaps and (missing or model.missing) != "mean":
        name, rows = next(iter(gaps.items()))
        raise BadUse(
            f"{table.path.name}, column {name!r}: {len(rows)} missing values, the first in row "
            f"{rows[0]}; --missing mean fills them with the means of the training rows"
        )
    x = encode(model.columns, table)
    ids = [name for name in model.ids if name in table.header]
    header, values = _outputs(model, x, level)
    copied = [table.column(name) for name in ids]
    rows_out = [[*(c[i] for c in copied), *row] for i, row in enumerate(values)]
    return _unique([*ids, *header]), rows_out


def _outputs(model: TableModel, x: object, level: float) -> Predictions:
    # One distribution for all columns: a learner by samples draws anew at every call.
    predictive = model.estimator.predict_distribution(x)
    header, rows = _of_task(model, predictive, level)
    if predictive.novelty is None:  # a file of before the training rows were remembered
        return header, rows
    novelty = predictive.novelty.tolist()
    return [*header, "novelty"], [[*row, far] for row, far in zip(rows, novelty, strict=True)]


def _of_task(model: TableModel, predictive: Predictive, level: float) -> Predictions:
    if model.task == "regression":
        columns = [predictive.mean, predictive.std, *predictive.interval(level)]
        return ["mean", "std", "lower", "upper"], torch.stack(columns, 1).tolist()
    classes = model.estimator.classes_
    labels = classes[predictive.labels.numpy()].tolist()
    header = ["label", *(f"p_{name}" for name in classes)]
    probabilities = predictive.probs.tolist()
    return header, [[label, *row] for label, row in zip(labels, probabilities, strict=True)]


def _unique(names: list[str]) -> list[str]:
    """Names of columns, told apart where an id column is called like one of ours."""
    seen: dict[str, int] = {}
    made = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        made.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return made
