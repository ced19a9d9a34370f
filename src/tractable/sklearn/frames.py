"""Data frames with text, categories, truth values and dates: brought to columns of numbers.

A column of text (or of pandas' ``category``) becomes one column of 0 and 1 for each of its levels;
a date becomes days.  A level that was not seen in training is a value that is not known: it is
taken as missing (``tractable.sklearn.missing``), with a warning that names it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MOST_LEVELS = 100
"""Of a column of text; more are names, not categories."""


@dataclass(frozen=True)
class Frame:
    """How the columns of a data frame become numbers.

    Attributes:
        levels: the levels of each column of text; None for a column of numbers or dates.
    """

    levels: tuple[tuple[str, ...] | None, ...]

    @classmethod
    def of(cls, X: Any) -> Frame | None:
        """The encoding of a data frame; None for what needs none.

        Raises:
            ValueError: a column of text has more levels than rows to learn them from.
        """
        if not is_frame(X) or all(_is_number(X.iloc[:, k]) for k in range(X.shape[1])):
            return None
        return cls(tuple(_levels(X.iloc[:, k], name) for k, name in enumerate(X.columns)))

    @property
    def width(self) -> int:
        """Number of columns of numbers."""
        return sum(1 if levels is None else len(levels) for levels in self.levels)

    def encode(self, X: Any) -> Array:
        """The numbers, ``[rows, width]``; NaN where a value is missing or a level is new."""
        if not is_frame(X):
            raise ValueError(
                f"the estimator was fitted to a data frame with columns of text: give a data frame "
                f"with the same columns, not {type(X).__name__}"
            )
        parts = [
            _numbers(X.iloc[:, k]) if levels is None else _flags(X.iloc[:, k], levels)
            for k, levels in enumerate(self.levels)
        ]
        return np.concatenate(parts, axis=1) if parts else np.zeros((len(X), 0))


def is_frame(X: Any) -> bool:
    """Whether this is a data frame of pandas (or like it)."""
    return hasattr(X, "iloc") and hasattr(X, "columns") and getattr(X, "ndim", 0) == 2


def check_names(X: Any) -> None:
    """Refuse a data frame in which a column name occurs twice: columns are found by their names.

    Raises:
        ValueError: a name occurs more than once.
    """
    if is_frame(X) and not X.columns.is_unique:
        twice = list(dict.fromkeys(X.columns[X.columns.duplicated()].tolist()))
        raise ValueError(
            f"column names must be unique, and {', '.join(map(repr, twice[:5]))} "
            f"{'occurs' if len(twice) == 1 else 'occur'} more than once: rename the columns"
        )


def _is_number(column: Any) -> bool:
    kind = getattr(column.dtype, "kind", "O")
    return kind in "iufb" and not hasattr(column.dtype, "categories")


def _levels(column: Any, name: Any) -> tuple[str, ...] | None:
    if _is_number(column) or getattr(column.dtype, "kind", "O") == "M":
        return None
    held = [value for value, gone in zip(column, column.isna(), strict=True) if not gone]
    if held and all(isinstance(value, int | float | np.number) for value in held):
        return None  # numbers in a column of objects
    levels = tuple(sorted({str(value) for value in held}))
    if len(levels) > min(MOST_LEVELS, max(len(held) // 2, 2)):
        raise ValueError(
            f"column {name!r} is text with {len(levels)} different values in {len(held)} rows: "
            f"leave it out, or make numbers of it"
        )
    return levels


def _numbers(column: Any) -> Array:
    if getattr(column.dtype, "kind", "O") == "M":
        days = column.to_numpy(dtype="datetime64[ns]").astype("datetime64[s]")
        seconds = days.astype(np.int64).astype(np.float64)
        return np.where(np.isnat(days), np.nan, seconds / 86_400)[:, None]
    gone = column.isna().to_numpy(dtype=bool)
    found = np.full((len(column), 1), np.nan)
    found[~gone, 0] = column[~gone].to_numpy(dtype=np.float64)
    return found


def _flags(column: Any, levels: tuple[str, ...]) -> Array:
    places = {level: place for place, level in enumerate(levels)}
    found = np.full((len(column), len(levels)), np.nan)
    strange: dict[str, None] = {}
    for row, (value, gone) in enumerate(zip(column, column.isna(), strict=True)):
        place = None if gone else places.get(str(value))
        if place is not None:
            found[row] = 0.0
            found[row, place] = 1.0
        elif not gone:
            strange[str(value)] = None
    if strange:
        shown = ", ".join(map(repr, list(strange)[:5]))
        warnings.warn(
            f"column {column.name!r} has values that were not seen in training, which are taken "
            f"as missing: {shown}{', ...' if len(strange) > 5 else ''}",
            UserWarning,
            stacklevel=2,
        )
    return found
