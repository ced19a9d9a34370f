"""``tractable compare``: test whether the rows of two tables have the same distribution."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tractable import metrics
from tractable.cli import output
from tractable.cli.errors import UsageError
from tractable.cli.tables import reader, row_matching, row_table
from tractable.cli.tables.cell_formats import check_decimal
from tractable.cli.tables.reader import TextTable
from tractable.cli.tables.row_table import Array, RowTable

_MIN_ROWS = 20
_SHOWN = 12  # columns
_MIN_P = 1e-6  # smaller p-values are printed as a bound
_MAX_COMMON = 0.05  # fraction of rows in both tables from which a note is shown


def run(
    first: Path,
    second: Path,
    *,
    drop: tuple[str, ...],
    categorical: tuple[str, ...],
    decimal: str | None,
    encoding: str | None,
    level: float,
    seed: int,
    threads: int,
    json: bool,
) -> None:
    """Run the command and print the differences."""
    if not 0 < level < 1:
        raise UsageError(f"--level must lie between 0 and 1, got {level}")
    torch.set_num_threads(threads)
    check_decimal(decimal)
    tables = [reader.read_table(path, encoding=encoding) for path in (first, second)]
    found = compare(
        *tables, drop=drop, categorical=categorical, decimal=decimal, level=level, seed=seed
    )
    if json:
        output.print_json(found)
        return
    for note in found["notes"]:
        output.print_line(note)
    if found["paired"]:
        _print_changes(found)
        return
    low, high = found["auroc_interval"]
    verdict = "differ" if found["differ"] else "do not differ significantly"
    output.print_line(
        f"The tables {verdict}: a classifier of their rows has an AUC of {found['auroc']:.3f} "
        f"({low:.3f} to {high:.3f}; 0.5 for equal distributions), "
        f"p {_format_p(found['p_value'], '= ')}."
    )
    low, high = found["js_interval"]
    output.print_line(
        f"Jensen-Shannon divergence at least {found['js']:.4f} nats ({low:.4f} to {high:.4f}; "
        f"the maximum is 0.693); energy distance {found['energy_distance']:.4f}."
    )
    lines = [
        [c["column"], f"{c['mean_a']}", f"{c['mean_b']}", _format_distance(c["wasserstein"]),
         _format_p(c["p_value"]), "differs" if c["differs"] else ""]
        for c in found["columns"][:_SHOWN]
    ]  # fmt: skip
    header = ["column", f"mean {first.name}", f"mean {second.name}", "distance", "p", ""]
    output.print_table(header, lines)


def _format_p(p_value: float, sign: str = "") -> str:
    return f"< {_MIN_P:.0e}" if p_value < _MIN_P else f"{sign}{p_value:.2g}"


def _format_distance(distance: float | None) -> str:
    return "–" if distance is None else f"{distance:.3f}"


def _print_changes(found: dict[str, Any]) -> None:
    """Print the changes between two tables with the same rows."""
    changed = [c for c in found["columns"] if c["changed"]]
    names = "column" if len(found["columns"]) == 1 else "columns"
    verdict = "differ" if found["differ"] else "are the same"
    output.print_line(
        f"The tables {verdict}: {found['paired']} rows are in both, so they are compared row by "
        f"row; {found['changed_rows']} of them differ, in {len(changed)} of "
        f"{len(found['columns'])} {names}."
    )
    for name, count in zip(("first", "second"), found["only"], strict=True):
        if count:
            output.print_line(f"{count} rows are in the {name} table only.")
    lines = [
        [c["column"], f"{c['changed']}", f"{c['changed'] / found['paired']:.1%}",
         f"{c['filled']}", f"{c['emptied']}"]
        for c in changed[:_SHOWN]
    ]  # fmt: skip
    if lines:
        output.print_table(["column", "rows changed", "fraction", "filled", "emptied"], lines)


def compare(
    a: TextTable, b: TextTable, *, drop: tuple[str, ...], categorical: tuple[str, ...],
    level: float, seed: int, decimal: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the comparison as JSON values; row by row if most rows are in both tables.

    Raises:
        UsageError: the tables have no common columns or too few rows.
    """
    for table in (a, b):
        if len(table) < _MIN_ROWS:
            raise UsageError(
                f"{table.path.name} has {len(table)} rows: expected at least {_MIN_ROWS}"
            )
    excluded = {*drop, *({a.counter, b.counter} - {None} - {*categorical})}
    shared = [name for name in a.header if name in b.header and name not in excluded]
    if not shared:
        raise UsageError(f"{a.path.name} and {b.path.name} have no columns in common")
    both = _joined(a, b, shared)
    made = row_table.infer_columns(
        both, categorical=[name for name in categorical if name in shared], decimal=decimal
    )
    values = np.concatenate([made.encode(table) for table in (a, b)])  # errors name the file
    notes = list(dict.fromkeys([*a.notes, *b.notes, *made.notes]))
    unshared = [
        name for name in (*a.header, *b.header) if name not in shared and name not in excluded
    ]
    if unshared:
        notes.append(f"Ignored columns that only one table has: {', '.join(unshared)}.")
    same = row_matching.match_rows(values[: len(a)], values[len(a) :])
    if same is not None:
        return _row_changes(made, values[: len(a)], values[len(a) :], same) | {"notes": notes}
    common = len({*map(tuple, both.rows[: len(a)])} & {*map(tuple, both.rows[len(a) :])})
    if common > _MAX_COMMON * min(len(a), len(b)):
        notes.append(f"{common} rows are in both tables, which lowers the AUC.")
    x, filled = _numbers(made, values, notes)
    parts = x[: len(a)], x[len(a) :]
    result = metrics.two_sample(*parts, seed=seed)
    unit = x.std(0)
    unit[unit == 0] = 1
    columns = [_column(made, k, filled, len(a), level, seed) for k in range(len(made.columns))]
    columns.sort(key=lambda c: (c["p_value"], -_size(c["wasserstein"])))
    return {
        "rows": [len(a), len(b)],
        "paired": 0,
        "differ": result.differs(level),
        "auroc": result.auroc, "auroc_interval": list(result.auroc_interval(level)),
        "accuracy": result.accuracy, "p_value": result.p_value,
        "js": max(result.js, 0.0), "js_interval": list(result.interval(level)),
        "energy_distance": metrics.energy_distance(
            *(part[_subsample(len(part), seed)] / unit for part in parts)
        ),
        "columns": columns,
        "notes": notes,
    }  # fmt: skip


def _row_changes(made: RowTable, a: Array, b: Array, same: tuple[Array, Array]) -> dict[str, Any]:
    """Return the changes between matching rows as JSON values."""
    first, second = a[same[0]], b[same[1]]
    changed = int((~row_matching.cells_equal(first, second)).any(1).sum())
    only = [len(a) - len(first), len(b) - len(second)]
    return {
        "rows": [len(a), len(b)],
        "paired": len(first),
        "changed_rows": changed,
        "only": only,
        "differ": changed > 0 or any(only),
        "columns": row_matching.column_changes(made, first, second),
    }


def _joined(a: TextTable, b: TextTable, names: list[str]) -> TextTable:
    """Return the rows of both tables, with the common columns."""
    lines = [[row[t.header.index(n)] for n in names] for t in (a, b) for row in t.rows]
    path = Path(f"{a.path.name} and {b.path.name}")
    texts = (a.texts | b.texts).intersection(*(t.texts for t in (a, b) if not t.delimiter))
    return TextTable(path, tuple(names), lines, [*a.numbers, *b.numbers], a.delimiter, texts=texts)


def _numbers(made: RowTable, values: Array, notes: list[str]) -> tuple[Array, Array]:
    """Return inputs of a classifier: text one-hot encoded, and an indicator of missing values."""
    parts: list[Array] = []
    missing = np.asarray(np.isnan(values))
    filled = np.where(missing, np.nanmean(values, 0), values)
    for k, column in enumerate(made.columns):
        if column.levels:
            codes = np.where(missing[:, k], -1, values[:, k])
            parts += [(codes == level).astype(float) for level in range(len(column.levels))]
        else:
            parts.append(filled[:, k])
        if missing[:, k].any():
            parts.append(missing[:, k].astype(float))
    gaps = [name for name, some in zip(made.names, missing.T, strict=True) if some.any()]
    if gaps:
        notes.append(f"Missing values count as differences: {', '.join(gaps)}.")
    return np.stack(parts, 1), values


def _column(
    made: RowTable, k: int, values: Array, cut: int, level: float, seed: int
) -> dict[str, Any]:
    """Return the difference of one column; no distance if one table has no values."""
    column = made.columns[k]
    a, b = values[:cut, k], values[cut:, k]
    a, b = a[~np.isnan(a)], b[~np.isnan(b)]
    if not (len(a) and len(b)):
        distance, p_value = None, 0.0
    elif column.levels:
        kinds = range(len(column.levels))
        shares = [np.array([np.mean(part == kind) for kind in kinds]) for part in (a, b)]
        distance = float(np.abs(shares[0] - shares[1]).sum() / 2)
        p_value = _permuted(a, b, seed)
    else:
        both = np.r_[a, b]
        unit = both.std() or 1.0
        distance = metrics.wasserstein(a, b) / unit
        p_value = _kolmogorov_smirnov(a, b)
    tests = len(made.columns)  # Bonferroni correction for the number of columns
    return {
        "column": column.name,
        "mean_a": _describe(made, k, a), "mean_b": _describe(made, k, b),
        "wasserstein": distance,
        "p_value": min(1.0, p_value * tests), "differs": p_value * tests < 1 - level,
    }  # fmt: skip


def _size(distance: float | None) -> float:
    return math.inf if distance is None else distance


def _describe(made: RowTable, k: int, values: Array) -> str:
    """Return the mean of numbers, or the most frequent text and its frequency."""
    column = made.columns[k]
    if not len(values):
        return "missing"
    if column.is_date:
        return column.decode(values.mean(keepdims=True))[0]
    if not column.levels:
        return f"{values.mean():.4g}"
    code, count = np.unique(values, return_counts=True)
    best = int(count.argmax())
    return f"{column.levels[int(code[best])]} {count[best] / len(values):.0%}"


def _kolmogorov_smirnov(a: Array, b: Array) -> float:
    """Return the p-value of the two-sample Kolmogorov-Smirnov test.

    By the asymptotic distribution with Stephens' correction, which ties make conservative; scipy's
    ``ks_2samp`` has other digits.
    """
    grid = np.sort(np.r_[a, b])
    gap = np.abs(
        np.searchsorted(np.sort(a), grid, "right") / len(a)
        - np.searchsorted(np.sort(b), grid, "right") / len(b)
    ).max()
    size = np.sqrt(len(a) * len(b) / (len(a) + len(b)))
    root = (size + 0.12 + 0.11 / size) * gap
    if root < 0.2:
        return 1.0
    terms = np.arange(1, 101)
    total = 2 * np.sum((-1.0) ** (terms - 1) * np.exp(-2 * terms**2 * root**2))
    return float(min(max(total, 0.0), 1.0))


def _permuted(a: Array, b: Array, seed: int, n_permutations: int = 2_000) -> float:
    """Return the p-value of Pearson's chi-squared statistic by permutation of the tables."""
    codes = np.r_[a, b].astype(int)
    total = np.bincount(codes).astype(float)
    expected = total * len(a) / len(codes)
    kept = total > 0

    def statistic(counts: Any) -> Any:
        return (((counts - expected) ** 2)[..., kept] / expected[kept]).sum(-1)

    drawn = np.random.default_rng(seed).multivariate_hypergeometric(
        total.astype(int), len(a), size=n_permutations, method="marginals"
    )
    observed = statistic(np.bincount(a.astype(int), minlength=len(total)).astype(float))
    return float((1 + (statistic(drawn) >= observed - 1e-9).sum()) / (1 + n_permutations))


def _subsample(rows_: int, seed: int, max_rows: int = 3_000) -> Any:
    return np.sort(np.random.default_rng(seed).permutation(rows_)[:max_rows])
