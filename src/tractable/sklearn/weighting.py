"""Weights of rows: a row of weight 3 is one that came three times.

Whole numbers are counts, and rows are repeated so often.  Other weights say how much rows count
beside each other: they are scaled to a mean of 1, and a row is repeated as often as its weight
says, rounded so that the numbers add up (systematic resampling).  Where rows are held out, all
copies of a row are.

Approximate: of fractions, by less than one copy of each row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
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
        ends = np.cumsum(weights * (rows / weights.sum()))
        upto = np.floor(ends + 0.5 - 1e-9).astype(np.int64)
        counts = np.diff(upto, prepend=0)
    return torch.from_numpy(np.repeat(np.arange(rows), counts))
