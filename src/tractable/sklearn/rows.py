"""Rows with gaps on their way to a learner: filled, or filled in several ways and mixed.

What may stand in a gap is said by ``tractable.sklearn.missing``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tractable.data import Standardizer
from tractable.gaussian import Gaussian
from tractable.predictive import Predictive, mixture
from tractable.sklearn.missing import Columns


@dataclass(frozen=True, eq=False)
class Rows:
    """Standardised rows to learn from or to judge by, some with gaps.

    Attributes:
        x: the rows, gaps filled by what is expected.
        columns: the model of the columns; needed where cells are missing.
        given: the rows with NaN where a cell is missing; None if none is.
        variance: variance of every cell; None if none is missing.
        origin: the number of the row that each is a copy of; None if none is.
    """

    x: Tensor
    columns: Columns | None = None
    given: Tensor | None = None
    variance: Tensor | None = None
    origin: Tensor | None = None

    @classmethod
    def of(cls, x: Tensor, columns: Columns, origin: Tensor | None = None) -> Rows:
        """Rows in which NaN marks what is missing."""
        if not bool(x.isnan().any()):
            return cls(x, columns, origin=origin)
        filled, variance = columns.expected(x)
        return cls(filled, columns, x, variance, origin)

    @cached_property
    def distinct(self) -> int:
        """Number of rows that are no copies of each other."""
        return len(self.x) if self.origin is None else len(self.origin.unique())

    def copies_of(self, chosen: Tensor) -> Tensor:
        """Return all copies of some of the distinct rows, which are numbered in order."""
        if self.origin is None:
            return chosen
        return torch.isin(self.origin, self.origin.unique()[chosen]).nonzero().squeeze(1)

    def __len__(self) -> int:
        return len(self.x)

    def at(self, rows: Tensor) -> Rows:
        """Some of them."""
        if self.given is None or self.variance is None:
            return Rows(self.x[rows], self.columns)
        given = self.given[rows]
        if not bool(given.isnan().any()):
            return Rows(self.x[rows], self.columns)
        return Rows(self.x[rows], self.columns, given, self.variance[rows])

    def uncertain(self, weights: Tensor) -> Tensor:
        """To learn from: Gaussian inputs where cells are missing, columns multiplied by factors."""
        by = weights.to(self.x)
        if self.variance is None:
            return self.x * by
        return Gaussian(self.x * by, self.variance * by * by)

    def completions(self) -> Tensor | None:
        """The rows with their gaps filled in several ways; None if there are none."""
        if self.given is None or self.columns is None:
            return None
        return self.columns.draws(self.given)


def mixed(parts: Sequence[Predictive]) -> Predictive:
    """The mixture of predictions of the same rows with their gaps filled in several ways."""
    found = mixture(list(parts))
    novelty = [part.novelty for part in parts if part.novelty is not None]
    return found.with_novelty(torch.stack(novelty).mean(0)) if len(novelty) == len(parts) else found


def levels_of(x: Tensor) -> list[list[int]]:
    """Columns that are the levels of a category: beside each other, 0 and 1, and one of them 1.

    >>> levels_of(torch.tensor([[0.3, 1.0, 0.0], [0.5, 0.0, 1.0], [0.1, 0.0, 1.0]]))
    [[1, 2]]
    """
    groups, number = list[list[int]](), 0
    while number < x.shape[1]:
        stop = _end_of_levels(x, number)
        if stop > number + 1:
            groups.append(list(range(number, stop)))
        number = max(stop, number + 1)
    return groups


def _end_of_levels(x: Tensor, first: int) -> int:
    """After the last level of the category whose first column this is; itself if there is none."""
    there, sums = ~x[:, first].isnan(), torch.zeros(len(x), dtype=x.dtype)
    for number in range(first, x.shape[1]):
        column = x[:, number]
        held = column[there]
        same = bool((column.isnan() != there).all())
        if not same or not bool(((held == 0) | (held == 1)).all()):
            return first
        sums = sums + torch.where(there, column, 0.0)
        if bool((sums > 1).any()):
            return first
        if bool((sums[there] == 1).all()):
            return number + 1
    return first


def scaler_of(x: Tensor, names: Sequence[str] | None = None) -> Standardizer:
    """What standardises columns, by the cells that are there.

    Args:
        x: ``[rows, columns]``; NaN marks what is missing.
        names: names of the columns.

    Raises:
        ValueError: a column has no values at all.
    """
    if not bool(x.isnan().any()):
        return Standardizer.fit(x)
    parts = []
    for number, column in enumerate(x.unbind(1)):
        held = column[~column.isnan()]
        if not len(held):
            name = f"column {number}" if names is None else f"column {names[number]!r}"
            raise ValueError(f"{name} has no values at all: leave it out")
        parts.append(Standardizer.fit(held.unsqueeze(1)))
    return Standardizer(
        torch.cat([part.mean for part in parts]),
        torch.cat([part.scale for part in parts]),
        torch.cat([part.constant for part in parts]),
    )
