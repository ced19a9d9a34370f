"""Wild values among the inputs: pulled in before they set the scale of their column.

One reading of a million among hundreds of about one makes a deviation of which all others are a
ten-thousandth, and the network sees a constant column.  Training rows are therefore cut at

    median +- max(8 s, 2 q)

of each column: s is the interquartile range over 1.349, the deviation if the column were normal,
and q the distance from the median within which 99 of 100 values lie, so that a column with long
tails keeps them.  A column of which half the values are the same is left alone.  New rows are not
cut: what is far from all training rows must be seen to be.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_DEVIATIONS = 8.0
_TAIL = 2.0
_NORMAL_RANGE = 1.349  # between the quartiles, in deviations
_FEWEST_ROWS = 20


class Clipped(NamedTuple):
    """Training rows without wild values.

    Attributes:
        rows: the rows.
        counts: how many values of each column were cut.
    """

    rows: Tensor
    counts: Tensor


def clipped(x: Tensor) -> Clipped:
    """Pull in values that are far from all others of their column; NaN marks missing ones."""
    gaps = x.isnan()
    if bool(gaps.any()):
        return _with_gaps(x, gaps)
    if len(x) < _FEWEST_ROWS:
        return Clipped(x, torch.zeros(x.shape[1], dtype=torch.int64))
    ordered = x.double().sort(0).values
    low, median, high = (ordered[round(q * (len(x) - 1))] for q in (0.25, 0.5, 0.75))
    scale = (high - low) / _NORMAL_RANGE
    away = (x.double() - median).abs()
    tail = away.sort(0).values[int(0.99 * (len(x) - 1))]
    limit = torch.maximum(_DEVIATIONS * scale, _TAIL * tail)
    limit = torch.where(scale > 0, limit, torch.inf)
    counts = (away > limit).sum(0)
    if not bool(counts.any()):
        return Clipped(x, counts)
    rows = torch.clamp(x.double(), median - limit, median + limit).to(x.dtype)
    return Clipped(rows, counts)


def _with_gaps(x: Tensor, gaps: Tensor) -> Clipped:
    """The same, of the values that are there."""
    rows, counts = x.clone(), torch.zeros(x.shape[1], dtype=torch.int64)
    for number, missing in enumerate(gaps.unbind(1)):
        if not bool(missing.all()):
            held = clipped(x[~missing, number : number + 1])
            rows[~missing, number] = held.rows.squeeze(1)
            counts[number] = held.counts[0]
    return Clipped(rows, counts)
