"""Two tables of the same rows: which row of one is which row of the other, and what was changed.

Rows stand in both if they come in the same order, or if most of them are in both to the last cell;
then those that are left are paired with the row that has most cells in common.  Cells that agree by
chance do not count: rows in order must agree far better than each with the next one's partner, and
rows in any order must be mostly different from each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tractable.cli.tables.row_table import RowTable

Array = npt.NDArray[Any]

_MOST = 0.5  # of the cells, or of the rows
_DIFFERENT = 0.9  # share of the rows that are there once
_FEW = 2_000  # rows left over, above which they are not paired


def match_rows(a: Array, b: Array) -> tuple[Array, Array] | None:
    """Positions of the rows that are the same ones, in both tables; None if most are not.

    Args:
        a: numbers of the first table, NaN where a value is missing.
        b: numbers of the second, in the same columns.
    """
    if len(a) == len(b):
        same, by_chance = cells_equal(a, b).mean(), cells_equal(a, np.roll(b, 1, 0)).mean()
        if same == 1 or (same >= _MOST and 1 - same < _MOST * (1 - by_chance)):
            return np.arange(len(a)), np.arange(len(b))
    first, second = _identical_rows(a, b)
    once = min(len(np.unique(part, axis=0)) / len(part) for part in (a, b))
    if once < _DIFFERENT or len(first) <= _MOST * min(len(a), len(b)):
        return None
    more = _most_similar(a, b, _remaining(first, len(a)), _remaining(second, len(b)))
    return np.r_[first, more[0]], np.r_[second, more[1]]


def column_changes(made: RowTable, a: Array, b: Array) -> list[dict[str, Any]]:
    """What was changed in each column between rows that are the same ones, most changed first."""
    found = []
    for k, column in enumerate(made.columns):
        old, new = a[:, k], b[:, k]
        changed = ~cells_equal(old, new)
        filled, emptied = changed & np.isnan(old), changed & np.isnan(new)
        found.append(
            {
                "column": column.name,
                "changed": int(changed.sum()),
                "filled": int(filled.sum()),
                "emptied": int(emptied.sum()),
            }
        )
    return sorted(found, key=lambda entry: -entry["changed"])


def cells_equal(a: Array, b: Array) -> Array:
    """Which cells agree, to the rounding of a file; a missing value agrees with another."""
    return np.isclose(a, b, rtol=1e-9, atol=0, equal_nan=True)


def _identical_rows(a: Array, b: Array) -> tuple[Array, Array]:
    """Rows that are in both to the last cell, each used once."""
    waiting: dict[bytes, list[int]] = {}
    for at in reversed(range(len(b))):
        waiting.setdefault(b[at].tobytes(), []).append(at)
    found = [(at, waiting[key].pop()) for at, key in _row_keys(a) if waiting.get(key)]
    both = np.array(found, dtype=int).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _row_keys(a: Array) -> list[tuple[int, bytes]]:
    return [(at, row.tobytes()) for at, row in enumerate(a)]


def _remaining(taken: Array, rows: int) -> Array:
    return np.setdiff1d(np.arange(rows), taken)


def _most_similar(a: Array, b: Array, left: Array, right: Array) -> tuple[Array, Array]:
    """Rows left over, each with the one that has most cells in common, if those are most."""
    found: list[tuple[int, int]] = []
    free = list(right)
    for at in left if max(len(left), len(right)) <= _FEW else []:
        if not free:
            break
        common = cells_equal(a[at], b[free]).mean(1)
        best = int(common.argmax())
        if common[best] >= _MOST:
            found.append((int(at), int(free.pop(best))))
    both = np.array(found, dtype=int).reshape(-1, 2)
    return both[:, 0], both[:, 1]
