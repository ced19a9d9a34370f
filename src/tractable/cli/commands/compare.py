"""``tractable compare``: whether the rows of two tables come from the same distribution."""

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
from tractable.cli.tables.formats import check_decimal
from tractable.cli.tables.reader import TextTable
from tractable.cli.tables.row_table import Array, RowTable

_FEWEST = 20
_SHOWN = 12
_LEAST_P = 1e-6  # below, a probability is of no use but as a bound
_TWINS = 0.05  # share of the rows of both that is worth a word


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
    """Compare, and print what differs."""
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
        _say_changes(found)
        return
    low, high = found["auroc_interval"]
    verdict = "differ" if found["differ"] else "cannot be told apart"
    output.print_line(
        f"The tables {verdict}: a classifier tells a row of one from a row of the other with "
        f"probability {found['auroc']:.3f} ({low:.3f} to {high:.3f}; 0.5 is a toss), "
        f"p {_shown(found['p_value'], '= ')}."
    )
    low, high = found["js_interval"]
    output.print_line(
        f"Jensen-Shannon divergence at least {found['js']:.4f} nats ({low:.4f} to {high:.4f}; "
        f"0.693 is nothing in common); energy distance {found['energy_distance']:.4f}."
    )
    lines = [
        [c["column"], f"{c['mean_a']}", f"{c['mean_b']}", _distance(c["wasserstein"]),
         _shown(c["p_value"]), "differs" if c["differs"] else ""]
        for c in found["columns"][:_SHOWN]
    ]  # fmt: skip
    header = ["column", f"mean {first.name}", f"mean {second.name}", "distance", "p", ""]
    output.print_table(header, lines)


def _shown(p_value: float, sign: str = "") -> str:
    return f"< {_LEAST_P:.0e}" if p_value < _LEAST_P else f"{sign}{p_value:.2g}"


def _distance(distance: float | None) -> str:
    return "–" if distance is None else f"{distance:.3f}"


def _say_changes(found: dict[str, Any]) -> None:
    """What was changed between tables of the same rows."""
    changed = [c for c in found["columns"] if c["changed"]]
    names = "column" if len(found["columns"]) == 1 else "columns"
    verdict = "differ" if found["differ"] else "are the same"
    output.print_line(
        f"The tables {verdict}: {found['paired']} rows stand in both, so they are compared row by "
        f"row; {found['changed_rows']} of them differ, in {len(changed)} of "
        f"{len(found['columns'])} {names}."
    )
    for name, count in zip(("first", "second"), found["only"], strict=True):
        if count:
            output.print_line(f"{count} rows stand in the {name} table only.")
    lines = [
        [c["column"], f"{c['changed']}", f"{c['changed'] / found['paired']:.1%}",
         f"{c['filled']}", f"{c['emptied']}"]
        for c in changed[:_SHOWN]
    ]  # fmt: skip
    if lines:
        output.print_table(["column", "rows changed", "share", "filled in", "emptied"], lines)


def compare(
    a: TextTable, b: TextTable, *, drop: tuple[str, ...], categorical: tuple[str, ...],
    level: float, seed: int, decimal: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """All of it, as JSON values; row by row, if most rows stand in both tables.

    Raises:
        UsageError: the tables have no columns in common, or too few rows.
    """
    for table in (a, b):
        if len(table) < _FEWEST:
            raise UsageError(f"{table.path.name} has {len(table)} rows: wanted at least {_FEWEST}")
    aside = {*drop, *({a.counter, b.counter} - {None} - {*categorical})}
    shared = [name for name in a.header if name in b.header and name not in aside]
    if not shared:
        raise UsageError(f"{a.path.name} and {b.path.name} have no columns in common")
    both = _joined(a, b, shared)
    made = row_table.infer_columns(
        both, categorical=[name for name in categorical if name in shared], decimal=decimal
    )
    values = np.concatenate([made.encode(table) for table in (a, b)])  # errors name the file
    notes = list(dict.fromkeys([*a.notes, *b.notes, *made.notes]))
    apart = [name for name in (*a.header, *b.header) if name not in shared and name not in aside]
    if apart:
        notes.append(f"Only in one of them, and passed over: {', '.join(apart)}.")
    same = row_matching.match_rows(values[: len(a)], values[len(a) :])
    if same is not None:
        first, second = values[: len(a)][same[0]], values[len(a) :][same[1]]
        changed = int((~row_matching.cells_equal(first, second)).any(1).sum())
        only = [len(a) - len(first), len(b) - len(second)]
        return {
            "rows": [len(a), len(b)],
            "paired": len(first),
            "changed_rows": changed,
            "only": only,
            "differ": changed > 0 or any(only),
            "columns": row_matching.column_changes(made, first, second),
            "notes": notes,
        }
    twins = len({*map(tuple, both.rows[: len(a)])} & {*map(tuple, both.rows[len(a) :])})
    if twins > _TWINS * min(len(a), len(b)):
        notes.append(
            f"{twins} rows stand in both tables: they draw the probability to below 0.5, "
            f"so it says less."
        )
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
            *(part[_some(len(part), seed)] / unit for part in parts)
        ),
        "columns": columns,
        "notes": notes,
    }  # fmt: skip


def _joined(a: TextTable, b: TextTable, names: list[str]) -> TextTable:
    """The rows of both in one table, of the columns that both have."""
    lines = [[row[t.header.index(n)] for n in names] for t in (a, b) for row in t.rows]
    path = Path(f"{a.path.name} and {b.path.name}")
    texts = (a.texts | b.texts).intersection(*(t.texts for t in (a, b) if not t.delimiter))
    return TextTable(path, tuple(names), lines, [*a.numbers, *b.numbers], a.delimiter, texts=texts)


def _numbers(made: RowTable, values: Array, notes: list[str]) -> tuple[Array, Array]:
    """Columns for a classifier: texts as 0 and 1 for every kind, holes marked by one more."""
    parts: list[Array] = []
    holes = np.asarray(np.isnan(values))
    filled = np.where(holes, np.nanmean(values, 0), values)
    for k, column in enumerate(made.columns):
        if column.levels:
            codes = np.where(holes[:, k], -1, values[:, k])
            parts += [(codes == level).astype(float) for level in range(len(column.levels))]
        else:
            parts.append(filled[:, k])
        if holes[:, k].any():
            parts.append(holes[:, k].astype(float))
    gaps = [name for name, some in zip(made.names, holes.T, strict=True) if some.any()]
    if gaps:
        notes.append(f"That a value is missing counts as a difference: {', '.join(gaps)}.")
    return np.stack(parts, 1), values


def _column(
    made: RowTable, k: int, values: Array, cut: int, level: float, seed: int
) -> dict[str, Any]:
    """How different one column is by itself; no distance where one table has no values of it."""
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
        p_value = _smirnov(a, b)
    tests = len(made.columns)  # Bonferroni's correction: so many columns were looked at
    return {
        "column": column.name,
        "mean_a": _typical(made, k, a), "mean_b": _typical(made, k, b),
        "wasserstein": distance,
        "p_value": min(1.0, p_value * tests), "differs": p_value * tests < 1 - level,
    }  # fmt: skip


def _size(distance: float | None) -> float:
    return math.inf if distance is None else distance


def _typical(made: RowTable, k: int, values: Array) -> str:
    """The mean of numbers, or the most frequent text and its share."""
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


def _smirnov(a: Array, b: Array) -> float:
    """The p-value of Smirnov's test, by its limiting distribution (ties make it larger)."""
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


def _permuted(a: Array, b: Array, seed: int, times: int = 2_000) -> float:
    """The p-value of Pearson's statistic of kinds, by shuffling which table a row is of."""
    codes = np.r_[a, b].astype(int)
    total = np.bincount(codes).astype(float)
    expected = total * len(a) / len(codes)
    kept = total > 0

    def statistic(counts: Any) -> Any:
        return (((counts - expected) ** 2)[..., kept] / expected[kept]).sum(-1)

    drawn = np.random.default_rng(seed).multivariate_hypergeometric(
        total.astype(int), len(a), size=times, method="marginals"
    )
    seen = statistic(np.bincount(a.astype(int), minlength=len(total)).astype(float))
    return float((1 + (statistic(drawn) >= seen - 1e-9).sum()) / (1 + times))


def _some(rows_: int, seed: int, most: int = 3_000) -> Any:
    return np.sort(np.random.default_rng(seed).permutation(rows_)[:most])
