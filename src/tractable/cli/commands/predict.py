"""``tractable predict``: predictions for the rows of a file with a saved model."""

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
_AT_ONCE = 4096  # rows: a row with gaps is predicted in many ways
_DIGITS = 7
_FARTHEST = 1e12  # standard deviations; their squares, times variances of weights, fit in float32

Cell = str | float
Predictions = tuple[list[str], list[list[Cell]]]
"""A header, and rows of cells."""


@dataclass(frozen=True)
class Choices:
    """What the user chose; see ``tractable predict --help``.

    Attributes:
        level: of the intervals.
        missing: ``infer`` takes missing values as unknown, ``mean`` fills them with the means of
            the training rows, ``refuse`` refuses them; by default ``infer``, unless the model was
            fitted with filled ones.  Rows are never left out, so that they can be counted on.
        unknown: what levels are that were not seen in training: ``missing``, or a mistake
            (``refuse``).
        keep: columns of the file to copy, or ``all``.
        encoding: of the file, if it is text.
    """

    level: float = 0.9
    missing: str | None = None
    unknown: str = "missing"
    keep: str | None = None
    encoding: str | None = None

    def check(self) -> None:
        """Refuse what can be seen to be wrong without the data."""
        if not 0 < self.level < 1:
            raise UsageError(f"--level must lie between 0 and 1, got {self.level}")
        if self.missing not in (None, *MISSING):
            raise unknown_name("way with missing values", str(self.missing), MISSING)
        if self.unknown not in UNKNOWN:
            raise unknown_name("way with unknown levels", self.unknown, UNKNOWN)


def run(model: Path, data: Path, out: Path | None, choices: Choices, *, json: bool) -> None:
    """Predict, and write or print the rows; what a reader should know goes to standard error."""
    if out is not None:
        writer.check_output_path(out)
    choices.check()
    held = model_file.load(model)
    table = reader.read_table(data, encoding=choices.encoding)
    notes = list[str]()
    header, rows = predict(held, table, choices, notes)
    for note in notes:
        sys.stderr.write(f"note: {note}\n")
    if out is not None:
        copied = [name for name in header if name in table.header]
        ways = writer.column_formats(table, copied)
        writer.write_table(out, header, writer.typed_rows(header, rows, ways, out))
        if json:
            output.print_json({"rows": len(rows), "columns": header, "out": str(out)})
        else:
            output.print_line(f"{len(rows)} rows of {held.target} to {out}")
    elif json:
        output.print_json([dict(zip(header, row, strict=True)) for row in rows])
    else:
        writer.write_csv_rows(sys.stdout, header, rows)


def predict(model: TableModel, table: TextTable, choices: Choices, notes: list[str]) -> Predictions:
    """Predictions for every row, in order, beside the columns that identify it.

    Args:
        model: from ``model_file.load``.
        table: has at least the columns of the training file; others are passed over.
        choices: what the user chose.
        notes: what a reader should know is added.

    Raises:
        UsageError: the file does not suit the model.
    """
    names = [column.name for column in model.columns]
    table.require(names)
    kept = _kept(model, table, choices.keep)
    how = choices.missing or ("mean" if model.missing == "mean" else "infer")
    gaps = table.missing(names)
    if gaps and how == "refuse":
        name, rows = next(iter(gaps.items()))
        raise UsageError(
            f"{table.path.name}, column {name!r}: {len(rows)} missing values, the first in row "
            f"{rows[0]}; --missing infer takes them as unknown, --missing mean fills them with the "
            f"means of the training rows"
        )
    _say_unknown(model, table, choices, notes)
    x = encode(model.columns, table, fill=how == "mean", unknown=choices.unknown == "missing")
    _refuse_far(model, table, x)
    if gaps and how == "infer":
        listed = ", ".join(f"{name} ({len(rows)})" for name, rows in gaps.items())
        notes.append(f"missing values are inferred, and widen the answer: {listed}")
    header, values, scored = _outputs(model, x, table, choices.level)
    if scored:
        notes.append(scored)
    copied = [table.column(name) for name in kept]
    rows_out = [[*(c[i] for c in copied), *row] for i, row in enumerate(values)]
    return writer.unique_names([*kept, *header]), rows_out


def _refuse_far(model: TableModel, table: TextTable, x: Any) -> None:
    """Refuse values so far from the training rows that nothing can be computed in float32."""
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
    """Names of the columns to copy: those that identify rows, and those asked for."""
    ids = [name for name in model.ids if name in table.header]
    if keep is None:
        return ids
    wanted = list(table.header) if keep == "all" else [n.strip() for n in keep.split(",")]
    table.require(wanted)
    return [*ids, *(name for name in wanted if name not in ids)]


def _say_unknown(model: TableModel, table: TextTable, choices: Choices, notes: list[str]) -> None:
    for column in model.columns:
        strange = column.strange(table)
        if not strange or choices.unknown == "refuse":
            continue
        folded = {level.lower(): level for level in column.levels}
        near = [f"{s!r} for {folded[s.lower()]!r}" for s in strange if s.lower() in folded]
        shown = ", ".join(map(repr, strange[:5])) + (", ..." if len(strange) > 5 else "")
        hint = f" (is it {near[0]}?)" if near else ""
        notes.append(
            f"column {column.name!r}: {shown} not seen in training, taken as missing{hint}"
        )


def _outputs(
    model: TableModel, x: Any, table: TextTable, level: float
) -> tuple[list[str], list[list[Cell]], str]:
    """Header and rows, and a sentence on how good they are where the file has the target."""
    truth = _truth(model, table)
    header, rows, parts = list[str](), list[list[Cell]](), list[dict[str, float]]()
    for start in range(0, len(x), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        # One distribution for all columns: a learner by samples draws anew at every call.
        predictive = model.estimator.predictive(x[some])
        header, found = _of_task(model, predictive, level)
        if predictive.novelty is not None:  # not of a file of before rows were remembered
            header = [*header, "novelty"]
            far = predictive.novelty.tolist()
            found = [[*row, n] for row, n in zip(found, far, strict=True)]
        rows += [[_short(cell) for cell in row] for row in found]
        if truth is not None:
            parts.append(_score(model, predictive, truth[some], level))
    return header, rows, _words(model, parts, level) if parts else ""


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


# --- how good they are, where that can be told ------------------------------------------------


def _truth(model: TableModel, table: TextTable) -> Any:
    """The targets that the file has, if it has all of them."""
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
        seen = torch.tensor([names.index(label) for label in y])
        return {"rows": len(y), "right": float((predictive.labels == seen).sum())}
    seen = torch.as_tensor(y)
    error = (predictive.unwrapped(seen) - predictive.mean).square().sum()
    inside = metrics.coverage(predictive, seen, level) * len(y)
    return {"rows": len(y), "square": float(error), "inside": inside}


def _words(model: TableModel, parts: list[dict[str, float]], level: float) -> str:
    rows = sum(part["rows"] for part in parts)
    start = f"the file has {model.target!r}; on its {rows:.0f} rows "
    if model.task == "classification":
        return f"{start}{100 * sum(p['right'] for p in parts) / rows:.1f} % of the labels are right"
    rmse = (sum(part["square"] for part in parts) / rows) ** 0.5
    inside = 100 * sum(part["inside"] for part in parts) / rows
    return (
        f"{start}the RMSE is {format_number(rmse)}, and {100 * level:g} % intervals hold "
        f"{inside:.1f} %"
    )
