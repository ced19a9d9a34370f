"""Predict for the rows of a CSV file with a model that ``tractable fit`` wrote."""

from __future__ import annotations

from pathlib import Path

import torch

from tractable.cli.columns import encode
from tractable.cli.csv_file import read
from tractable.cli.errors import BadUse, unknown
from tractable.cli.model_file import TableModel

Predictions = tuple[list[str], list[list[str | float]]]
"""A header, and rows of cells."""


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
    table = read(data)
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
