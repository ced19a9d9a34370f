"""Preprocessing of the inputs: data frames, outliers, sample weights and standardization.

``fit`` applies these steps to the training rows, in this order: encode a data frame, repeat rows by
their weights, clip outliers, standardize. Missing values stay NaN
(``tractable.sklearn.imputation``).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tractable.training.standardizer import Standardizer

Array = npt.NDArray[Any]

MAX_LEVELS = 100
"""Maximum number of levels of a text column; columns with more hold names or free text."""

_MAX_DEVIATIONS = 8.0  # a normal column of a million rows has no value beyond 5 deviations
_MAX_TAIL_RATIO = 2.0  # relative to the 99 % quantile, which keeps columns with heavy tails
_IQR_OF_NORMAL = 1.349  # interquartile range of a normal distribution, in standard deviations
_MIN_ROWS = 20  # with fewer rows, quantiles do not show what is an outlier


# --- data frames -------------------------------------------------------------------------------


@dataclass(frozen=True)
class FrameEncoder:
    """The encoding of the columns of a data frame as numbers.

    A column of text, or of pandas' ``category`` type, becomes one column of 0 and 1 for each level
    (one-hot). A date becomes a number of days. A level that is not among the training data is
    missing (NaN) and is imputed like other missing values; a warning names it.

    Attributes:
        levels: levels of each column of text; None for a column of numbers or dates.
    """

    levels: tuple[tuple[str, ...] | None, ...]

    @classmethod
    def from_frame(cls, X: Any) -> FrameEncoder | None:
        """Return the encoder of a data frame; None for arrays and for frames of numbers only.

        Raises:
            ValueError: a column of text has too many levels for its number of rows.
        """
        if not is_frame(X) or all(_is_numeric(X.iloc[:, k]) for k in range(X.shape[1])):
            return None
        return cls(tuple(_levels(X.iloc[:, k], name) for k, name in enumerate(X.columns)))

    @property
    def n_columns(self) -> int:
        """Number of encoded columns."""
        return sum(1 if levels is None else len(levels) for levels in self.levels)

    def encode(self, X: Any) -> Array:
        """Return the encoded columns, ``(rows, n_columns)``.

        Values are NaN where the frame has no value, or a level that is not among ``levels``.

        Raises:
            ValueError: ``X`` is not a data frame.
        """
        if not is_frame(X):
            raise ValueError(
                f"the estimator was fitted to a data frame with columns of text or dates: pass a "
                f"data frame with the same columns, not {type(X).__name__}"
            )
        parts = [
            _as_numbers(X.iloc[:, k]) if levels is None else _one_hot(X.iloc[:, k], levels)
            for k, levels in enumerate(self.levels)
        ]
        return np.concatenate(parts, axis=1) if parts else np.zeros((len(X), 0))


def is_frame(X: Any) -> bool:
    """Return whether an object is a pandas data frame, or has the same interface."""
    return hasattr(X, "iloc") and hasattr(X, "columns") and getattr(X, "ndim", 0) == 2


def check_unique_names(X: Any) -> None:
    """Raise if a column name of a data frame is not unique; columns are looked up by name.

    Raises:
        ValueError: a name occurs more than once.
    """
    if is_frame(X) and not X.columns.is_unique:
        repeated = list(dict.fromkeys(X.columns[X.columns.duplicated()].tolist()))
        raise ValueError(
            f"column names must be unique, and {', '.join(map(repr, repeated[:5]))} "
            f"{'occurs' if len(repeated) == 1 else 'occur'} more than once: rename the columns"
        )


def _is_numeric(column: Any) -> bool:
    kind = getattr(column.dtype, "kind", "O")
    return kind in "iufb" and not hasattr(column.dtype, "categories")


def _levels(column: Any, name: Any) -> tuple[str, ...] | None:
    if _is_numeric(column) or getattr(column.dtype, "kind", "O") == "M":
        return None
    values = [v for v, is_missing in zip(column, column.isna(), strict=True) if not is_missing]
    if values and all(isinstance(value, int | float | np.number) for value in values):
        return None  # numbers in a column of type object
    levels = tuple(sorted({str(value) for value in values}))
    if len(levels) > min(MAX_LEVELS, max(len(values) // 2, 2)):
        raise ValueError(
            f"column {name!r} is text with {len(levels)} different values in {len(values)} rows, "
            f"too many for categories: drop the column, or convert it to numbers"
        )
    return levels


def _as_numbers(column: Any) -> Array:
    if getattr(column.dtype, "kind", "O") == "M":
        dates = column.to_numpy(dtype="datetime64[ns]").astype("datetime64[s]")
        seconds = dates.astype(np.int64).astype(np.float64)
        return np.where(np.isnat(dates), np.nan, seconds / 86_400)[:, None]
    is_missing = column.isna().to_numpy(dtype=bool)
    numbers = np.full((len(column), 1), np.nan)
    numbers[~is_missing, 0] = column[~is_missing].to_numpy(dtype=np.float64)
    return numbers


def _one_hot(column: Any, levels: tuple[str, ...]) -> Array:
    index = {level: k for k, level in enumerate(levels)}
    encoded = np.full((len(column), len(levels)), np.nan)
    unknown: dict[str, None] = {}  # a set that keeps the order
    for row, (value, is_missing) in enumerate(zip(column, column.isna(), strict=True)):
        k = None if is_missing else index.get(str(value))
        if k is not None:
            encoded[row] = 0.0
            encoded[row, k] = 1.0
        elif not is_missing:
            unknown[str(value)] = None
    if unknown:
        shown = ", ".join(map(repr, list(unknown)[:5]))
        warnings.warn(
            f"column {column.name!r} has values that are not among the training data, and are "
            f"treated as missing: {shown}{', ...' if len(unknown) > 5 else ''}",
            UserWarning,
            stacklevel=2,
        )
    return encoded


# --- sample weights ----------------------------------------------------------------------------


def repeat_by_weight(sample_weight: Any, n_rows: int) -> Tensor:
    """Return the original row of each copy, when rows are repeated by their weights.

    Integer weights are the numbers of copies. Other weights are relative: they are scaled to a mean
    of 1 over the rows of positive weight, and rounded so that the total is kept (systematic
    resampling). Approximate: fractional weights, by less than one copy of each row.

    Args:
        sample_weight: weights, ``(n_rows,)``, or one number for all rows.
        n_rows: number of rows.

    Raises:
        ValueError: the shape is wrong, or weights are negative, not finite or all zero.

    >>> repeat_by_weight([2, 0, 1], 3).tolist(), repeat_by_weight([0.5, 0.5, 2.0], 3).tolist()
    ([0, 0, 2], [1, 2, 2])
    """
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {weights.shape}, expected ({n_rows},)")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample_weight must be finite and not negative")
    if not weights.sum() > 0:
        raise ValueError("sample_weight is zero for all rows: at least one must be positive")
    if (weights == np.round(weights)).all():
        n_copies = weights.astype(np.int64)
    else:
        ends = np.cumsum(weights * (np.count_nonzero(weights) / weights.sum()))
        rounded = np.floor(ends + 0.5 - 1e-9).astype(np.int64)  # the ends, so that errors cancel
        n_copies = np.diff(rounded, prepend=0)
    return torch.from_numpy(np.repeat(np.arange(n_rows), n_copies))


def without_zero_weights(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return inputs, targets and weights without the rows of weight 0.

    Inputs that cannot be indexed by rows, for example of different lengths, are returned unchanged,
    because the checks of the estimator raise a better error.

    >>> without_zero_weights([[1], [2], [3]], ["a", "b", "c"], [1, 0, 2])
    ([[1], [3]], ['a', 'c'], array([1., 2.]))
    """
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
        lengths = [part.shape[0] if hasattr(part, "shape") else len(part) for part in (X, y)]
    except (TypeError, ValueError, IndexError):
        return X, y, sample_weight
    kept = np.flatnonzero(weights)  # NaN is not zero, and is refused later
    if weights.ndim != 1 or lengths != [len(weights)] * 2 or len(kept) in (0, len(weights)):
        return X, y, sample_weight
    return _rows_at(X, kept), _rows_at(y, kept), weights[kept]


def _rows_at(data: Any, rows: npt.NDArray[Any]) -> Any:
    if hasattr(data, "iloc"):
        return data.iloc[rows]
    if isinstance(data, list | tuple):
        return [data[row] for row in rows]
    return data[rows] if hasattr(data, "__getitem__") else np.asarray(data)[rows]


# --- outliers and standardization --------------------------------------------------------------


class ClippedRows(NamedTuple):
    """Training rows without extreme values.

    Attributes:
        rows: the rows, ``[rows, columns]``.
        counts: number of values that were clipped in each column, ``[columns]``.
    """

    rows: Tensor
    counts: Tensor


def clip_outliers(x: Tensor) -> ClippedRows:
    """Clip values that are far from all others of their column; NaN stays NaN.

    A single value of a million among hundreds of values near one determines the standard deviation,
    and the standardized column is then nearly constant. Values are therefore clipped at

        median +- max(8 s, 2 q),

    where s is the interquartile range divided by 1.349 (the standard deviation of a normal column),
    and q is the distance from the median that contains 99 % of the values, so that columns with
    heavy tails are not changed. A column with an interquartile range of zero is not changed either.
    New rows are not clipped: their distance from the training rows must remain visible.

    Args:
        x: training rows, ``[rows, columns]``.
    """
    is_missing = x.isnan()
    if bool(is_missing.any()):
        return _clip_with_gaps(x, is_missing)
    if len(x) < _MIN_ROWS:
        return ClippedRows(x, torch.zeros(x.shape[1], dtype=torch.int64))
    ordered = x.double().sort(0).values
    low, median, high = (ordered[round(q * (len(x) - 1))] for q in (0.25, 0.5, 0.75))
    scale = (high - low) / _IQR_OF_NORMAL
    distance = (x.double() - median).abs()
    tail = distance.sort(0).values[int(0.99 * (len(x) - 1))]
    limit = torch.maximum(_MAX_DEVIATIONS * scale, _MAX_TAIL_RATIO * tail)
    limit = torch.where(scale > 0, limit, torch.inf)
    counts = (distance > limit).sum(0)
    if not bool(counts.any()):
        return ClippedRows(x, counts)
    rows = torch.clamp(x.double(), median - limit, median + limit).to(x.dtype)
    return ClippedRows(rows, counts)


def _clip_with_gaps(x: Tensor, is_missing: Tensor) -> ClippedRows:
    """Clip each column by itself, because the columns have different numbers of values."""
    rows, counts = x.clone(), torch.zeros(x.shape[1], dtype=torch.int64)
    for k, missing in enumerate(is_missing.unbind(1)):
        if not bool(missing.all()):
            column = clip_outliers(x[~missing, k : k + 1])
            rows[~missing, k] = column.rows.squeeze(1)
            counts[k] = column.counts[0]
    return ClippedRows(rows, counts)


def standardizer_of(x: Tensor, names: Sequence[str] | None = None) -> Standardizer:
    """Return the standardizer of columns, computed from the values that are not missing.

    Args:
        x: ``[rows, columns]``; NaN marks missing values.
        names: names of the columns, for error messages.

    Raises:
        ValueError: a column has no values.
    """
    if not bool(x.isnan().any()):
        return Standardizer.fit(x)
    parts = []
    for k, column in enumerate(x.unbind(1)):
        values = column[~column.isnan()]
        if not len(values):
            name = f"column {k}" if names is None else f"column {names[k]!r}"
            raise ValueError(f"{name} has no values: drop the column")
        parts.append(Standardizer.fit(values.unsqueeze(1)))
    return Standardizer(
        torch.cat([part.mean for part in parts]),
        torch.cat([part.scale for part in parts]),
        torch.cat([part.constant for part in parts]),
    )


def category_columns(x: Tensor) -> list[list[int]]:
    """Return groups of adjacent columns that are the one-hot encoding of a category.

    The values of a group are 0 and 1, with one 1 in every row.

    >>> category_columns(torch.tensor([[0.3, 1.0, 0.0], [0.5, 0.0, 1.0], [0.1, 0.0, 1.0]]))
    [[1, 2]]
    """
    groups, first = list[list[int]](), 0
    while first < x.shape[1]:
        stop = _end_of_category(x, first)
        if stop > first + 1:
            groups.append(list(range(first, stop)))
        first = max(stop, first + 1)
    return groups


def _end_of_category(x: Tensor, first: int) -> int:
    """Return the column after the category that begins at ``first``; ``first`` if there is none."""
    has_value, sums = ~x[:, first].isnan(), torch.zeros(len(x), dtype=x.dtype)
    for k in range(first, x.shape[1]):
        column = x[:, k]
        values = column[has_value]
        same_gaps = bool((column.isnan() != has_value).all())
        if not same_gaps or not bool(((values == 0) | (values == 1)).all()):
            return first
        sums = sums + torch.where(has_value, column, 0.0)
        if bool((sums > 1).any()):
            return first
        if bool((sums[has_value] == 1).all()):
            return k + 1
    return first
