"""``tractable impute``: imputation of missing values from the other columns of a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tractable import infer
from tractable.cli import output
from tractable.cli.commands.density import mixture
from tractable.cli.errors import CommandError, UsageError, one_line
from tractable.cli.tables import reader, row_table, writer
from tractable.cli.tables.cell_formats import check_decimal
from tractable.cli.tables.row_table import Array, RowTable
from tractable.errors import TractableError
from tractable.generative import GenerativeModel
from tractable.infer import Imputation

_MEMBERS = 8  # a single mixture ignores the uncertainty of its parameters


def run(
    data: Path,
    model: Path | None,
    out: Path | None,
    *,
    ids: tuple[str, ...],
    drop: tuple[str, ...],
    categorical: tuple[str, ...],
    decimal: str | None,
    encoding: str | None,
    n_samples: int,
    sample: bool,
    level: float | None,
    seed: int,
    threads: int,
    json: bool,
) -> None:
    """Impute missing values, and write or print the table."""
    _check(n_samples, level, out)
    check_decimal(decimal)
    torch.set_num_threads(threads)
    table = reader.read_table(data, encoding=encoding)
    held: GenerativeModel | None
    if model is None:
        made = row_table.infer_columns(
            table, ids=ids, drop=drop, categorical=categorical, decimal=decimal
        )
        values = made.encode(table)
        held = None
    else:
        held, made = row_table.load(model)
        values = made.encode(table)
    missing = np.isnan(values)
    if not missing.any():
        raise UsageError(f"{table.path.name} has no missing values in {', '.join(made.names)}")
    for note in made.notes:
        sys.stderr.write(f"note: {note}\n")
    held = held or _fitted(table, made, values, seed)
    generator = torch.Generator().manual_seed(seed)
    found = infer.impute(held, values, n_samples=n_samples, generator=generator)
    filled = (found.draws[0] if sample else _point_estimate(found, made)).double().numpy()
    header = list(table.header)
    lines: list[list[Any]] = [list(row) for row in table.rows]
    cells = made.decode(filled)
    for k, name in enumerate(made.names):
        at = header.index(name)
        for i in np.flatnonzero(missing[:, k]):
            lines[i][at] = cells[i][k]
    if level is not None:
        _with_interval(header, lines, found, made, level)
    header, formats = writer.unique_names(header), _formats(table, made)
    if out is not None:
        lines = writer.typed_rows(header, lines, formats, out)
    if table.counter is not None:
        header[0] = ""  # as in the file
    if out is not None:
        writer.write_table(out, header, lines)
        _report(out, {n: int(missing[:, k].sum()) for k, n in enumerate(made.names)}, json)
    elif json:
        output.print_json([dict(zip(header, line, strict=True)) for line in lines])
    else:
        writer.write_csv_rows(sys.stdout, header, lines)


def _check(n_samples: int, level: float | None, out: Path | None) -> None:
    if n_samples < 2:
        raise UsageError(f"--n-samples must be at least 2, got {n_samples}")
    if level is not None and not 0 < level < 1:
        raise UsageError(f"--level must lie between 0 and 1, got {level}")
    if out is not None:
        writer.check_output_path(out)


def _formats(table: reader.TextTable, made: RowTable) -> dict[str, str]:
    """Return the formats of numbers and dates, by column of the output."""
    found = writer.column_formats(table, [name for name in table.header if name not in made.names])
    for column in made.columns:
        if not column.levels:
            found |= {column.name + part: column.notation for part in ("", "_lower", "_upper")}
    return found


def _report(out: Path, filled: dict[str, int], json: bool) -> None:
    """Print the number of imputed values of each column."""
    some = {name: count for name, count in filled.items() if count}
    if json:
        output.print_json({"out": str(out), "imputed": some})
        return
    words = ", ".join(f"{name} {count}" for name, count in some.items())
    output.print_line(f"{sum(some.values())} values imputed ({words}): {out}")


def _fitted(table: reader.TextTable, made: RowTable, values: Array, seed: int) -> GenerativeModel:
    """Return a model of the rows, with missing values integrated out."""
    some = ~np.isnan(values).all(1)
    try:
        return mixture(made, None, seed, _MEMBERS).fit(values[some])
    except TractableError as error:
        raise UsageError(f"{table.path.name}: {made.with_column_names(one_line(error))}") from error
    except (ArithmeticError, RuntimeError) as error:
        raise CommandError(f"training failed: {one_line(error)}") from error


def _point_estimate(found: Imputation, made: RowTable) -> torch.Tensor:
    """Return the mean of numbers and the most frequent sample of text."""
    best = found.mean.clone()
    for k, column in enumerate(made.columns):
        if column.levels:
            codes = found.draws[:, :, k].round()
            best[:, k] = torch.where(found.missing[:, k], codes.mode(0).values, best[:, k])
    return best


def _with_interval(
    header: list[str], lines: list[list[Any]], found: Imputation, made: RowTable, level: float
) -> None:
    """Append columns with the prediction intervals of imputed numbers."""
    low, high = (part.double().numpy() for part in found.interval(level))
    for k, column in enumerate(made.columns):
        missing = found.missing[:, k].numpy()
        if column.levels or not missing.any():
            continue
        header += [f"{column.name}_lower", f"{column.name}_upper"]
        ends = [column.decode(part[:, k]) for part in (low, high)]
        for i, line in enumerate(lines):
            line += [ends[0][i], ends[1][i]] if missing[i] else ["", ""]
