"""``tractable predict``: predictions of a saved model for the rows of a table."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tractable import metrics
from tractable.cli import output
from tractable.cli.errors import UsageError, unknown_name
from tractable.cli.tables import model_file, reader, target, writer
from tractable.cli.tables.columns import encode
from tractable.cli.tables.model_file import TableModel
from tractable.cli.tables.reader import TextTable
from tractable.predictive import Predictive
from tractable.report.formatting import format_number

MISSING = ("infer", "mean", "refuse")
UNKNOWN = ("missing", "refuse")
_AT_ONCE = 4096  # rows in a batch: rows with missing values are repeated
_DIGITS = 7
_FARTHEST = 1e12  # standard deviations; their squares, times variances of weights, fit in float32

Cell = str | float
Predictions = tuple[list[str], list[list[Cell]]]
"""A header, and rows of cells."""


@dataclass(frozen=True)
class PredictOptions:
    """Options of ``tractable predict``.

    Attributes:
        level: coverage of the intervals.
        missing: ``infer`` imputes missing values from the other columns, ``mean`` replaces them by
            the means of the training rows, ``refuse`` raises an error; default: ``infer``, unless
            the model was fitted with ``mean``.  Rows are never dropped, so that the output has as
            many rows as the input.
        unknown: treatment of levels that are not in the training data: ``missing`` or ``refuse``.
        keep: columns to copy to the output, or ``all``.
        encoding: encoding of a text file.
    """

    level: float = 0.9
    missing: str | None = None
    unknown: str = "missing"
    keep: str | None = None
    encoding: str | None = None

    def check(self) -> None:
        """Raise an error for invalid options."""
        if not 0 < self.level < 1:
            raise UsageError(f"--level must lie between 0 and 1, got {self.level}")
        if self.missing not in (None, *MISSING):
            raise unknown_name("--missing mode", str(self.missing), MISSING)
        if self.unknown not in UNKNOWN:
            raise unknown_name("--unknown mode", self.unknown, UNKNOWN)


def run(model: Path, data: Path, out: Path | None, options: PredictOptions, *, json: bool) -> None:
    """Predict, and write or print the rows; print notes to standard error."""
    if out is not None:
        writer.check_output_path(out)
    options.check()
    held = model_file.load(model)
    table = reader.read_table(data, encoding=options.encoding)
    notes = list[str]()
    header, rows = predict(held, table, options, notes)
    for note in notes:
        sys.stderr.write(f"note: {note}\n")
    if out is not None:
        copied = [name for name in header if name in table.header]
        formats = writer.column_formats(table, copied)
        writer.write_table(out, header, writer.typed_rows(header, rows, formats, out))
        if json:
            output.print_json({"rows": len(rows), "columns": header, "out": str(out)})
        else:
            output.print_line(f"{len(rows)} predictions of {held.target} written to {out}")
    elif json:
        output.print_json([dict(zip(header, row, strict=True)) for row in rows])
    else:
        writer.write_csv_rows(sys.stdout, header, rows)


def predict(
    model: TableModel, table: TextTable, options: PredictOptions, notes: list[str]
) -> Predictions:
    """Return a table with one line per row: identifying columns, then the predictions.

    Args:
        model: model of ``model_file.load``.
        table: table with at least the input columns of the model.
        options: options of the command.
        notes: list to which notes are appended.

    Raises:
        UsageError: the table does not fit the model.
    """
    names = [column.name for column in model.columns]
    table.require(names)
    kept = _kept(model, table, options.keep)
    how = options.missing or ("mean" if model.missing == "mean" else "infer")
    gaps = table.missing(names)
    if gaps and how == "refuse":
        name, rows = next(iter(gaps.items()))
        raise UsageError(
            f"{table.path.name}, column {name!r}: {len(rows)} missing values, the first in row "
            f"{rows[0]}; --missing infer imputes them, --missing mean replaces them by the means "
            f"of the training rows"
        )
    _note_unknown_levels(model, table, options, notes)
    x = encode(model.columns, table, fill=how == "mean", unknown=options.unknown == "missing")
    _refuse_far(model, table, x)
    if gaps and how == "infer":
        listed = ", ".join(f"{name} ({len(rows)})" for name, rows in gaps.items())
        notes.append(f"missing values are imputed, and intervals are wider accordingly: {listed}")
    header, values, scored = _outputs(model, x, table, options.level)
    if scored:
        notes.append(scored)
    copied = [table.column(name) for name in kept]
    rows_out = [[*(c[i] for c in copied), *row] for i, row in enumerate(values)]
    return writer.unique_names([*kept, *header]), rows_out


def _refuse_far(model: TableModel, table: TextTable, x: Any) -> None:
    """Raise an error for values whose squares overflow in float32."""
    scaler, at = model.estimator.input_scaler_, 0
    far = np.abs(x - scaler.mean.numpy()) > _FARTHEST * scaler.scale.numpy()
    for column in model.columns:
        rows = np.flatnonzero(far[:, at : at + column.width].any(1))
        at += column.width
        if len(rows):
            cell, row = table.column(column.name)[rows[0]], table.numbers[rows[0]]
            raise UsageError(
                f"{table.path.name}, column {column.name!r}, row {row}: {cell!r} is more than "
                f"{_FARTHEST:g} standard deviations from the training rows"
            )


def _kept(model: TableModel, table: TextTable, keep: str | None) -> list[str]:
    """Return the names of the columns to copy: ids and the selected ones."""
    ids = [name for name in model.ids if name in table.header]
    if keep is None:
        return ids
    selected = list(table.header) if keep == "all" else [n.strip() for n in keep.split(",")]
    table.require(selected)
    return [*ids, *(name for name in selected if name not in ids)]


def _note_unknown_levels(
    model: TableModel, table: TextTable, options: PredictOptions, notes: list[str]
) -> None:
    for column in model.columns:
        levels = column.unknown_levels(table)
        if not levels or options.unknown == "refuse":
            continue
        folded = {level.lower(): level for level in column.levels}
        near = [f"{s!r} for {folded[s.lower()]!r}" for s in levels if s.lower() in folded]
        shown = ", ".join(map(repr, levels[:5])) + (", ..." if len(levels) > 5 else "")
        hint = f" (is it {near[0]}?)" if near else ""
        notes.append(
            f"column {column.name!r}: {shown} not in the training data, treated as missing{hint}"
        )


def _outputs(
    model: TableModel, x: Any, table: TextTable, level: float
) -> tuple[list[str], list[list[Cell]], str]:
    """Return header and rows, and the test metrics as text if the table has the target."""
    truth = _truth(model, table)
    header, rows, parts = list[str](), list[list[Cell]](), list[dict[str, float]]()
    for start in range(0, len(x), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        # Call once, because learners that predict by samples draw new ones at each call.
        predictive = model.estimator.predictive(x[some])
        header, found = _of_task(model, predictive, level)
        if predictive.novelty is not None:  # None for models without stored training rows
            header = [*header, "distance"]
            distances = predictive.novelty.tolist()
            found = [[*row, d] for row, d in zip(found, distances, strict=True)]
        rows += [[_short(cell) for cell in row] for row in found]
        if truth is not None:
            parts.append(_score(model, predictive, truth[some], level))
    return header, rows, _metrics_text(model, parts, level) if parts else ""


def _short(cell: Cell) -> Cell:
    return float(f"{cell:.{_DIGITS}g}") if isinstance(cell, float) else cell


def _of_task(model: TableModel, predictive: Predictive, level: float) -> Predictions:
    if model.task == "regression":
        columns = [predictive.mean, predictive.std, *predictive.interval(level)]
        return ["mean", "std", "lower", "upper"], torch.stack(columns, 1).tolist()
    classes = model.estimator.classes_
    labels = classes[predictive.labels.numpy()].tolist()
    header = ["label", *(f"p_{name}" for name in classes)]
    probabilities = predictive.probs.tolist()
    return header, [[label, *row] for label, row in zip(labels, probabilities, strict=True)]


# --- metrics, if the table has the target -----------------------------------------------------


def _truth(model: TableModel, table: TextTable) -> Any:
    """Return the targets in the table; None unless it has all of them."""
    if model.target not in table.header or table.missing([model.target]):
        return None
    if model.task == "classification":
        cells = np.array(table.column(model.target))
        return cells if set(cells) <= set(map(str, model.estimator.classes_)) else None
    try:
        return target.infer_target(table, model.target, "regression").values
    except UsageError:
        return None


def _score(model: TableModel, predictive: Predictive, y: Any, level: float) -> dict[str, float]:
    if model.task == "classification":
        names = [str(name) for name in model.estimator.classes_]
        labels = torch.tensor([names.index(label) for label in y])
        return {"rows": len(y), "right": float((predictive.labels == labels).sum())}
    targets = torch.as_tensor(y)
    error = (predictive.unwrapped(targets) - predictive.mean).square().sum()
    inside = metrics.coverage(predictive, targets, level) * len(y)
    return {"rows": len(y), "square": float(error), "inside": inside}


def _metrics_text(model: TableModel, parts: list[dict[str, float]], level: float) -> str:
    rows = sum(part["rows"] for part in parts)
    start = f"the file has the target {model.target!r}: on its {rows:.0f} rows, "
    if model.task == "classification":
        return f"{start}the accuracy is {100 * sum(p['right'] for p in parts) / rows:.1f} %"
    rmse = (sum(part["square"] for part in parts) / rows) ** 0.5
    coverage = 100 * sum(part["inside"] for part in parts) / rows
    return (
        f"{start}the RMSE is {format_number(rmse)} and the coverage of {100 * level:g} % intervals "
        f"is {coverage:.1f} %"
    )
