"""Weights of rows: a row of weight 3 is one that came three times.

Whole numbers are counts, and rows are repeated so often.  Other weights say how much rows count
beside each other: those above 0 are scaled to a mean of 1, and a row is repeated as often as its
weight says, rounded so that the numbers add up (systematic resampling).  Rows of weight 0 are left
out.  Where rows are held out, folds are drawn over distinct rows, and all copies of a row are in
the same fold.

Weights of classes (``class_weight``) are a change of the prior: rows are learnt as they are, and
predicted probabilities are multiplied by the weights and normalized.  That is exact for a model
that is right, and no row is left out or held out more often because its class is rare.

Approximate: of fractions, by less than one copy of each row.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import compute_sample_weight
from torch import Tensor

from tractable.predictive import CategoricalPredictive
from tractable.sklearn.ordered import positions

Array = npt.NDArray[Any]


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


def of_classes(class_weight: Any, labels: Array, classes: Array) -> Tensor:
    """Return the factor on the probability of each class.

    Args:
        class_weight: None, ``"balanced"`` for weights against the number of rows of each class, or
            a dict from labels to weights, 1 for those that it does not name.
        labels: labels of the rows.
        classes: all labels.

    >>> of_classes("balanced", np.array(["a", "a", "a", "b"]), np.array(["a", "b"])).tolist()
    [0.6666666666666666, 2.0]
    """
    found = np.ones(len(classes))
    if class_weight is None:
        return torch.from_numpy(found)
    if isinstance(class_weight, dict):
        found = np.array([class_weight.get(label, 1.0) for label in classes.tolist()], dtype=float)
    found[positions(labels, classes)] = compute_sample_weight(class_weight, labels)
    if not np.isfinite(found).all() or (found < 0).any() or not found.any():
        raise ValueError(
            f"class_weight must be finite, not negative and not 0 for all classes; got "
            f"{class_weight!r}"
        )
    return torch.from_numpy(found)


def check_streamed(class_weight: Any) -> None:
    """Refuse weights that need all rows, in a stream."""
    if class_weight is not None and not isinstance(class_weight, dict):
        raise ValueError(
            f"class_weight={class_weight!r} needs all rows at once: give partial_fit a dict of "
            f"labels and weights"
        )


def reweighted(of: CategoricalPredictive, weights: Tensor, counts: Tensor) -> CategoricalPredictive:
    """Return probabilities that are never zero by rounding, multiplied by weights of the classes.

    With n rows and their shares s of the classes, ``(n_k + 1) / (n + K)``,

        p <- (1 - e) p + e s,    e = 1 / (n + 2),    then    p <- w p / sum(w p).

    Approximate: the mutual information between label and weights of the network stays as it was,
    as far as the entropy of the label allows.

    Args:
        of: the probabilities under the shares of the training rows.
        weights: weights of the classes.
        counts: number of training rows of each class.
    """
    rows = counts.sum()
    shares, least = (counts + 1) / (rows + len(counts)), 1 / (rows + 2)
    found = weights * ((1 - least) * of.probabilities + least * shares)
    found = found / found.sum(-1, keepdim=True)
    return replace(of, probabilities=found, expected_entropy=partial(_remaining, found, of))


def _remaining(probabilities: Tensor, before: CategoricalPredictive) -> Tensor:
    entropy = torch.special.entr(probabilities).sum(-1)
    return (entropy - before.epistemic).clamp_min(0)
