"""Missing values as what they are: not known, but not unknowable from the rest of their row.

A cell that is filled with a number is a claim that the network believes.  Here the columns have a
model of their own, a normal distribution of all of them together, in which every column is first
brought to normal scores,

    z = Phi^-1(F(x)),    F the distribution of the column's values (of ties, its middle),

so that what is drawn for a cell is a value the column has: a Gaussian copula.  Columns of two
values, and the levels of categories, have no scores and take part as the numbers they are.  Mean
and covariance are fitted by EM to rows with gaps (Dempster, Laird & Rubin 1977; Little & Rubin,
"Statistical analysis with missing data", section 11.2).  Given the cells that are there, those that
are not have

    m = mu_m - P_mm^-1 P_mo (z_o - mu_o),    C = P_mm^-1,    P the precision matrix of all columns.

From ``N(m, C)`` the gaps of a row are filled ``DRAWS`` times.

* To *learn*, a row with gaps is a Gaussian input with the mean and the variance of these, as
  ``tractable.TAGI`` takes it; learners by gradients take the mean alone.
* To *predict*, what the network says of each of them is mixed: bends of the function and
  columns that are missing together are in the answer.  The draws are a fixed, evenly spread set,
  the same for every row, so that a row's prediction depends on no other row.

Exact: the conditional moments, for scores that are normal together.  Approximate: scores that are
not; 32 draws in place of the integral; learning with variances and without covariances.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from tractable.persistence import validation

DRAWS = 32
"""Completions of a row that a prediction mixes."""
MOST_COLUMNS = 64
"""That are modelled together; of more, each is imputed independently, from its own values."""
KNOTS = 129
"""Of the distribution of a column."""
_FEW_VALUES = 32  # up to which a column has steps: nothing is drawn between its values
_MOST_ROWS = 2_000  # that the columns' model is fitted to
_STEPS = 30  # of EM, at most
_SETTLED = 1e-3  # change of the covariance at which it ends
_PER_COLUMN = 1.0  # rows' worth of independence in the prior, for each column
_CHUNK = 1 << 21  # numbers in the matrices of rows that are looked at together
_JITTER = 1e-6  # on variances, relative
_SEED = 86_028_121


@dataclass(frozen=True, eq=False)
class Columns:
    """A model of all columns together.

    Attributes:
        mean: mean score of each column.
        covariance: covariance matrix of all scores; of more than ``MOST_COLUMNS`` columns, which
            are independent, their variances.
        table: values of each column at evenly spaced shares of it, ``[columns, KNOTS]``.
        kind: ``SMOOTH``, ``STEPS`` or ``FLAG`` (two values, low and high) for each column.
        groups: columns that are the levels of one category: one of them is high, the others low.
    """

    mean: Tensor
    covariance: Tensor
    table: Tensor
    kind: Tensor
    groups: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def fit(cls, x: Tensor, groups: Sequence[Sequence[int]] = ()) -> Columns:
        """The model of rows in which NaN marks what is missing.

        Args:
            x: ``[rows, columns]``; every column has a value somewhere.
            groups: columns that are the levels of one category.
        """
        x = x.detach().double()
        tables, kinds = [], []
        for column in x.unbind(1):
            held = column[~column.isnan()].sort().values
            different = len(held.unique())
            kinds.append(SMOOTH if different > _FEW_VALUES else STEPS if different > 2 else FLAG)
            tables.append(_knots(held, smooth=kinds[-1] == SMOOTH))
        levels = tuple(tuple(int(column) for column in group) for group in groups)
        columns = x.shape[1]
        empty = torch.zeros(columns, dtype=torch.float64)
        bare = cls(empty, empty, torch.stack(tables), torch.tensor(kinds), levels)
        chosen = torch.randperm(len(x), generator=torch.Generator().manual_seed(_SEED))
        return bare._together(bare.scores(x[chosen[:_MOST_ROWS]]))

    def _together(self, z: Tensor) -> Columns:
        """The same with mean and covariance of scores, by EM."""
        there, gaps = ~z.isnan(), z.isnan()
        count = there.sum(0).clamp_min(1)
        mean = torch.where(there, z, 0.0).sum(0) / count
        own = torch.where(there, (z - mean).square(), 0.0).sum(0) / count
        if z.shape[1] > MOST_COLUMNS:
            return replace(self, mean=mean, covariance=own)
        found = replace(self, mean=mean, covariance=torch.diag(own))
        rows, prior = len(z), _PER_COLUMN * z.shape[1]
        for _ in range(_STEPS):
            filled, doubt = z.clone(), torch.zeros_like(found.covariance)
            for at, expected, inside in found.conditional(z):
                filled[at] = expected
                doubt += inside.sum(0)
            mean = filled.mean(0)
            away = filled - mean
            new = (away.T @ away + doubt + prior * torch.diag(own)) / (rows + prior)
            change = float((new - found.covariance).abs().amax())
            found = replace(found, mean=mean, covariance=(new + new.T) / 2)
            if change < _SETTLED or not bool(gaps.any()):
                break
        return found

    # --- values and scores -----------------------------------------------------------------

    def scores(self, x: Tensor) -> Tensor:
        """Normal scores of values; of flags 0 or 1; NaN stays."""
        x = x.double().T.contiguous()
        table, last, steps = self.table.contiguous(), KNOTS - 1, self.kind[:, None] == STEPS
        below = torch.searchsorted(table, x)
        upto = torch.searchsorted(table, x, right=True)
        start = (below - 1).clamp(0, last - 1)
        left, right = table.gather(1, start), table.gather(1, start + 1)
        inside = start + ((x - left) / (right - left).clamp_min(1e-300)).clamp(0, 1)
        share = torch.where(upto > below, (below + upto - 1) / 2, inside) / last
        share = torch.where(steps, (below + upto) / (2 * KNOTS), share)
        z = torch.special.ndtri(share.clamp(0.5 / KNOTS, 1 - 0.5 / KNOTS))
        low, high = table[:, :1], table[:, -1:]
        flag = (x - low) / torch.where(high > low, high - low, 1.0)
        z = torch.where(self.kind[:, None] == FLAG, flag.clamp(0, 1), z)
        return torch.where(x.isnan(), torch.nan, z).T

    def _values(self, z: Tensor) -> Tensor:
        """The values that have these scores, ``[draws, rows, columns]``; of flags see below."""
        own = self._own.clamp_min(1e-12).sqrt()  # of ties, less than 1
        steps, share = self.kind == STEPS, torch.special.ndtr((z - self.mean) / own)
        place = share * torch.where(steps, KNOTS, KNOTS - 1)
        low = place.floor().clamp(0, KNOTS - 1)
        part = torch.where(steps, 0.0, place - low)
        start = low.long()
        stop = (start + 1).clamp(max=KNOTS - 1)
        column = torch.arange(len(self.kind)).expand_as(start)
        left, right = self.table[column, start], self.table[column, stop]
        return left + part * (right - left)

    def _flags(self, values: Tensor, expected: Tensor, normal: Tensor) -> Tensor:
        """Flags and levels drawn by their probability, which is what is expected of them.

        Args:
            values: ``[draws, rows, columns]``.
            expected: scores of rows.
            normal: what was drawn of each cell, in deviations from what is expected.
        """
        alone = {int(column) for column in (self.kind == FLAG).nonzero()}
        low, high = self.table[:, 0], self.table[:, -1]
        for group in self.groups:
            columns = list(group)
            alone -= set(columns)
            share = expected[:, columns].clamp_min(1e-6)
            ends = (share / share.sum(1, keepdim=True)).cumsum(1)
            drawn = torch.special.ndtr(-normal[..., columns[:1]])
            chosen = (drawn > ends).sum(-1).clamp(max=len(columns) - 1)
            is_high = torch.nn.functional.one_hot(chosen, len(columns)) == 1
            values[..., columns] = torch.where(is_high, high[columns], low[columns])
        for column in alone:
            is_high = torch.special.ndtr(-normal[..., column]) < expected[:, column]
            values[..., column] = torch.where(is_high, high[column], low[column])
        return values

    # --- what is missing -------------------------------------------------------------------

    def draws(self, x: Tensor) -> Tensor:
        """Rows with their gaps filled in several ways, ``[DRAWS, rows, columns]``.

        Args:
            x: ``[rows, columns]``; NaN marks what is missing.
        """
        drawn = x.expand(DRAWS, *x.shape).clone()
        if self.independent:
            self._draw_alone(x, drawn)
            return drawn
        eye = torch.eye(x.shape[1], dtype=torch.float64)
        for at, expected, inside in self.conditional(self.scores(x)):
            root = torch.linalg.cholesky_ex(inside + 1e-9 * eye).L
            moved = torch.einsum("rij,kj->kri", root, evenly(x.shape[1]))
            std = inside.diagonal(dim1=1, dim2=2).clamp_min(1e-12).sqrt()
            values = self._flags(self._values(expected + moved), expected, moved / std)
            drawn[:, at] = torch.where(x[at].isnan(), values.to(x.dtype), x[at])
        return drawn

    def _draw_alone(self, x: Tensor, drawn: Tensor) -> None:
        """Fill the gaps of ``drawn``, each by the distribution of its own column."""
        own, normal = self._own, evenly(x.shape[1])[:, None]
        std = (own + _JITTER * torch.where(own > 0, own, 1.0)).sqrt()
        holes = x.isnan().any(1).nonzero().squeeze(1)
        for at in holes.split(max(_CHUNK // (DRAWS * x.shape[1]), 1)):
            gaps = x[at].isnan()
            expected = torch.where(gaps, self.mean, 0.0)
            moved = normal.expand(-1, len(at), -1)
            values = self._flags(self._values(expected + std * moved), expected, moved)
            drawn[:, at] = torch.where(gaps, values.to(x.dtype), x[at])

    @property
    def independent(self) -> bool:
        """Whether columns say nothing of each other."""
        return self.covariance.ndim == 1 or len(self.mean) > MOST_COLUMNS

    @property
    def _own(self) -> Tensor:
        """Variance of the scores of each column."""
        return self.covariance if self.covariance.ndim == 1 else torch.diag(self.covariance)

    def expected(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Rows with their gaps filled by what is expected, and the variance of every cell."""
        filled, variance = x.clone(), torch.zeros_like(x)
        holes = x.isnan().any(1).nonzero().squeeze(1)
        for at in holes.split(max(_CHUNK // (DRAWS * x.shape[1]), 1)):
            drawn = self.draws(x[at])
            filled[at], variance[at] = drawn.mean(0), drawn.var(0, correction=0)
        return filled, variance

    def conditional(self, z: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """For rows with gaps, some at a time: which, what is expected, and its covariance.

        The covariance is zero wherever a cell is known.
        """
        own = torch.diag(self.covariance)
        regular = self.covariance + torch.diag(_JITTER * torch.where(own > 0, own, 1.0))
        precision = torch.linalg.inv(regular)
        eye = torch.eye(len(precision), dtype=torch.float64)
        holes = z.isnan().any(1).nonzero().squeeze(1)
        for at in holes.split(max(_CHUNK // len(precision) ** 2, 1)):
            rows = z[at]
            gaps = rows.isnan()
            patterns, which = torch.unique(gaps, dim=0, return_inverse=True)
            both = patterns.unsqueeze(2) & patterns.unsqueeze(1)
            blocks = torch.linalg.inv(torch.where(both, precision, eye))
            inside = torch.where(both, blocks, 0.0)[which]
            known = torch.where(gaps, 0.0, rows - self.mean)
            pull = torch.where(gaps, known @ precision, 0.0)
            moved = self.mean - torch.einsum("rij,rj->ri", inside, pull)
            yield at, torch.where(gaps, moved, rows), inside

    def scaled(self, factors: Tensor) -> Columns:
        """The same of columns that are multiplied by positive factors."""
        return replace(self, table=self.table * factors.double()[:, None])

    # --- files -----------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """As named tensors, for a file."""
        return {name: getattr(self, name).contiguous() for name in _NAMES}

    @classmethod
    def from_tensors(
        cls, tensors: dict[str, Tensor], columns: int, groups: Sequence[Sequence[int]]
    ) -> Columns:
        """What ``tensors`` gave, once it is found to be a model of so many columns."""
        like = torch.empty(columns, dtype=torch.float64)
        # Files of version 0.1 hold a diagonal matrix of many columns.
        alone = columns > MOST_COLUMNS and tensors.get("covariance", like).ndim == 1
        wanted = {
            "mean": like,
            "covariance": like if alone else like.new_empty(columns, columns),
            "table": like.new_empty(columns, KNOTS),
            "kind": torch.empty(columns, dtype=torch.int64),
        }
        validation.check_same_tensors(wanted, tensors, "missing")
        validation.check_numbers(tensors, {})
        found = cls(**tensors, groups=tuple(tuple(group) for group in groups))
        matrix, kind = found.covariance, found.kind
        own = found._own
        if bool((own < 0).any()) or not (alone or torch.equal(matrix, matrix.T)):
            raise ValueError("the columns in the file have a covariance that cannot be")
        bad = not alone and bool(
            torch.linalg.cholesky_ex(matrix + torch.diag(1e-6 * own + 1e-9)).info
        )
        if bad or not bool(((kind >= SMOOTH) & (kind <= FLAG)).all()):
            raise ValueError("the columns in the file have a covariance or a kind that cannot be")
        if bool((found.table.diff(dim=1) < 0).any()):
            raise ValueError("the values of a column in the file are not in order")
        return found


def _knots(held: Tensor, *, smooth: bool) -> Tensor:
    """Values at evenly spaced shares of sorted ones; of steps the middles of shares, and both ends.

    Args:
        held: the values of a column, sorted.
        smooth: whether there is something between two values.
    """
    rows = len(held)
    if not smooth:
        at = (torch.arange(KNOTS) + 0.5) / KNOTS * rows
        found = held[at.long().clamp(max=rows - 1)]
        found[0], found[-1] = held[0], held[-1]
        return found
    at = torch.linspace(0, rows - 1, KNOTS, dtype=torch.float64)
    low = at.long()
    above = (low + 1).clamp(max=rows - 1)
    return held[low] + (at - low) * (held[above] - held[low])


SMOOTH, STEPS, FLAG = 0, 1, 2
_NAMES = ("mean", "covariance", "table", "kind")


@cache
def evenly(columns: int) -> Tensor:
    """``[DRAWS, columns]`` normal numbers, evenly spread, of mean 0 and variance 1 in each column.

    Points of a scrambled Sobol sequence, always the same.
    """
    points = torch.quasirandom.SobolEngine(columns, scramble=True, seed=_SEED)
    normal = torch.special.ndtri(points.draw(DRAWS, dtype=torch.float64).clamp(1e-6, 1 - 1e-6))
    normal = normal - normal.mean(0)
    return normal / normal.square().mean(0).sqrt()
