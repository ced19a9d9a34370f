"""Weights of rows: a row of weight 3 is one that came three times.

Whole numbers are counts, and rows are repeated so often.  Other weights say how much rows count
beside each other: those above 0 are scaled to a mean of 1, and a row is repeated as often as its
weight says, rounded so that the numbers add up (systematic resampling).  Rows of weight 0 are left
out.  Where rows are held out, folds are drawn over distinct rows, and all copies of a row are in
the same fold.

A weight of a class is one of all its rows (``class_weight``, as scikit-learn has it): the weights
of row and class are multiplied.

Approximate: of fractions, by less than one copy of each row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import compute_sample_weight
from torch import Tensor


def copies(sample_weight: Any, rows: int) -> Tensor:
    """The number of the row that each copy is of, in order.

    >>> copies([2, 0, 1], 3).tolist(), copies([0.5, 0.5, 2.0], 3).tolist()
    ([0, 0, 2], [1, 2, 2])
    """
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(rows, float(weights))
    if weights.shape != (rows,):
        raise ValueError(f"sample_weight has the shape {weights.shape}, wanted ({rows},)")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample_weight must be finite and not negative")
    if not weights.sum() > 0:
        raise ValueError("sample_weight is zero for all rows: there is nothing to learn from")
    if (weights == np.round(weights)).all():
        counts = weights.astype(np.int64)
    else:
        ends = np.cumsum(weights * (np.count_nonzero(weights) / weights.sum()))
        upto = np.floor(ends + 0.5 - 1e-9).astype(np.int64)
        counts = np.diff(upto, prepend=0)
    return torch.from_numpy(np.repeat(np.arange(rows), counts))


def counted(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return inputs, targets and weights without the rows of weight 0.

    What cannot be taken apart, such as parts of different lengths, is returned as it is, to be
    refused by the checks of the estimator.

    >>> counted([[1], [2], [3]], ["a", "b", "c"], [1, 0, 2])
    ([[1], [3]], ['a', 'c'], array([1., 2.]))
    """
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
        rows = [part.shape[0] if hasattr(part, "shape") else len(part) for part in (X, y)]
    except (TypeError, ValueError, IndexError):
        return X, y, sample_weight
    kept = np.flatnonzero(weights)  # a NaN is kept, and refused later
    if weights.ndim != 1 or rows != [len(weights)] * 2 or len(kept) in (0, len(weights)):
        return X, y, sample_weight
    return _rows_at(X, kept), _rows_at(y, kept), weights[kept]


def _rows_at(data: Any, rows: npt.NDArray[Any]) -> Any:
    if hasattr(data, "iloc"):
        return data.iloc[rows]
    if isinstance(data, list | tuple):
        return [data[row] for row in rows]
    return data[rows] if hasattr(data, "__getitem__") else np.asarray(data)[rows]


def with_classes(sample_weight: Any, class_weight: Any, labels: npt.NDArray[Any]) -> Any:
    """Weights of rows times those of their classes; None if there are neither.

    Args:
        sample_weight: weights of rows, or None.
        class_weight: None, ``"balanced"`` for weights against the number of rows of each class, or
            a dict from labels to weights, 1 for those that it does not name.
        labels: labels of the rows.

    >>> with_classes(None, "balanced", np.array(["a", "a", "a", "b"])).tolist()[2:]
    [0.6666666666666666, 2.0]
    """
    if class_weight is None:
        return sample_weight
    of_classes = compute_sample_weight(class_weight, labels)
    if sample_weight is None:
        return of_classes
    copies(sample_weight, len(labels))  # which refuses what cannot be
    return of_classes * np.asarray(sample_weight, dtype=np.float64)


def streamed(class_weight: Any, labels: npt.NDArray[Any]) -> Tensor | None:
    """Copies of the rows of one call of a stream, each row as often as its class weighs."""
    if class_weight is None:
        return None
    if not isinstance(class_weight, dict):
        raise ValueError(
            f"class_weight={class_weight!r} needs all rows at once: give partial_fit a dict of "
            f"labels and weights"
        )
    weights = compute_sample_weight(class_weight, labels)
    if (weights != np.round(weights)).any() or (weights < 1).any():
        raise ValueError(
            f"class_weight must be whole numbers from 1 in partial_fit, which repeats rows so "
            f"often; got {class_weight}"
        )
    return copies(weights, len(labels))
