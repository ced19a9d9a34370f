"""Matching of the rows of two versions of a table, and the changes between them.

Rows are matched if they are in the same order, or if most of them are identical in both tables; the
remaining rows are then matched with the row that shares most cells.  Agreement by chance does not
count: rows in the same order must agree much better than rows shifted by one, and rows in another
order must be mostly distinct.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tractable.cli.tables.row_table import RowTable

Array = npt.NDArray[Any]

_MOST = 0.5  # fraction of the cells or rows that must agree
_DIFFERENT = 0.9  # fraction of the rows that must be distinct
_FEW = 2_000  # maximum number of remaining rows that are matched by similarity


def match_rows(a: Array, b: Array) -> tuple[Array, Array] | None:
    """Return the indices of matching rows in both tables; None if most rows do not match.

    Args:
        a: encoded first table, NaN where a value is missing.
        b: encoded second table, with the same columns.
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
    """Return the number of changes of each column between matching rows, most changed first."""
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
    """Return which cells agree, up to rounding; missing values agree with each other."""
    return np.isclose(a, b, rtol=1e-9, atol=0, equal_nan=True)


def _identical_rows(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the indices of identical rows, each used once."""
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
    """Return the remaining rows, matched with the row that shares most cells."""
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
