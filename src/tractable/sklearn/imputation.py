"""Imputation of missing values by a Gaussian copula of the inputs.

A missing value that is replaced by a single number is treated as known by the network. Here the
columns have a joint distribution: a normal distribution of normal scores,

    z = Phi^-1(F(x)),    F the distribution function of the column (for ties, its mean),

so that every imputed value is one that the column has. Columns with two values, and the levels of
categories, have no scores and enter as numbers. Mean and covariance are estimated by EM from rows
with missing values (Dempster, Laird & Rubin 1977; Little & Rubin, "Statistical analysis with
missing data", section 11.2). Given the observed values o of a row, the missing values m have

    mean  mu_m - P_mm^-1 P_mo (z_o - mu_o),    covariance  P_mm^-1,    P the precision matrix.

From this distribution the missing values of a row are drawn ``N_DRAWS`` times.

* For learning, a row with missing values is a Gaussian input with mean and variance of the draws,
  as ``tractable.TAGI`` accepts it; gradient-based learners use the mean.
* For predicting, the predictions for all draws are mixed, which accounts for nonlinear functions
  and for columns that are missing together. The draws are a fixed set of evenly spread points, the
  same for every row, so that the prediction for a row does not depend on the other rows.

Exact: the conditional moments, for jointly normal scores. Approximate: the assumption that scores
are jointly normal; 32 draws in place of an integral; learning with variances without covariances.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import torch
from torch import Tensor

from tractable.gaussian import Gaussian
from tractable.persistence import validation

N_DRAWS = 32
"""Number of draws of the missing values of a row that a prediction mixes."""
MAX_COLUMNS = 64
"""Maximum number of columns with a joint distribution; more columns are independent, because the
conditional moments take a matrix inverse of all columns for each row."""
N_KNOTS = 129
"""Number of quantiles that represent the distribution of a column."""
_MAX_STEP_VALUES = 32  # a column with more distinct values is interpolated between its quantiles
_MAX_ROWS = 2_000  # for the estimation of mean and covariance
_MAX_EM_STEPS = 30
_TOLERANCE = 1e-3  # largest change of the covariance of scores, at which EM stops
_PRIOR_ROWS = 1.0  # rows of independent columns that the prior counts for, per column
_CHUNK = 1 << 21  # numbers in the matrices of rows that are processed together
_JITTER = 1e-6  # added to variances, relative
_SEED = 86_028_121  # of the draws, the same for every estimator

CONTINUOUS, STEPS, BINARY = 0, 1, 2
"""Kinds of columns: many values, few values, two values."""
_TENSORS = ("mean", "covariance", "table", "kind")


@dataclass(frozen=True, eq=False)
class GaussianCopula:
    """The joint distribution of the columns.

    Attributes:
        mean: mean score of each column, ``[columns]``.
        covariance: ``[columns, columns]``; variances ``[columns]`` for independent columns.
        table: quantiles of each column at evenly spaced levels, ``[columns, N_KNOTS]``.
        kind: ``CONTINUOUS``, ``STEPS`` or ``BINARY`` for each column, ``[columns]``.
        groups: columns that are the levels of one category, of which one is 1 and the others 0.
    """

    mean: Tensor
    covariance: Tensor
    table: Tensor
    kind: Tensor
    groups: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def fit(cls, x: Tensor, groups: Sequence[Sequence[int]] = ()) -> GaussianCopula:
        """Return the distribution estimated from rows, ``[rows, columns]``, with NaN for gaps."""
        x = x.detach().double()
        tables, kinds = [], []
        for column in x.unbind(1):
            values = column[~column.isnan()].sort().values
            n_distinct = len(values.unique())
            kind = STEPS if n_distinct > 2 else BINARY
            kinds.append(CONTINUOUS if n_distinct > _MAX_STEP_VALUES else kind)
            tables.append(_quantiles(values, interpolate=kinds[-1] == CONTINUOUS))
        levels = tuple(tuple(int(column) for column in group) for group in groups)
        zeros = torch.zeros(x.shape[1], dtype=torch.float64)
        marginals = cls(zeros, zeros, torch.stack(tables), torch.tensor(kinds), levels)
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(_SEED))
        return marginals._with_moments(marginals.scores(x[order[:_MAX_ROWS]]))

    def _with_moments(self, z: Tensor) -> GaussianCopula:
        """Return a copy with the mean and covariance of scores, estimated by EM."""
        has_value, is_missing = ~z.isnan(), z.isnan()
        count = has_value.sum(0).clamp_min(1)
        mean = torch.where(has_value, z, 0.0).sum(0) / count
        marginal = torch.where(has_value, (z - mean).square(), 0.0).sum(0) / count
        if z.shape[1] > MAX_COLUMNS:
            return replace(self, mean=mean, covariance=marginal)
        found = replace(self, mean=mean, covariance=torch.diag(marginal))
        n_rows, prior = len(z), _PRIOR_ROWS * z.shape[1]
        for _ in range(_MAX_EM_STEPS):
            filled, conditional_covariance = z.clone(), torch.zeros_like(found.covariance)
            for rows, expected, covariance in found.conditional(z):
                filled[rows] = expected
                conditional_covariance += covariance.sum(0)
            mean = filled.mean(0)
            centered = filled - mean
            scatter = centered.T @ centered + conditional_covariance + prior * torch.diag(marginal)
            new = scatter / (n_rows + prior)
            change = float((new - found.covariance).abs().amax())
            found = replace(found, mean=mean, covariance=(new + new.T) / 2)
            if change < _TOLERANCE or not bool(is_missing.any()):
                break
        return found

    # --- values and scores -----------------------------------------------------------------

    def scores(self, x: Tensor) -> Tensor:
        """Return normal scores of values, ``[rows, columns]``; 0 or 1 for binary columns."""
        x = x.double().T.contiguous()
        table, last, steps = self.table.contiguous(), N_KNOTS - 1, self.kind[:, None] == STEPS
        below = torch.searchsorted(table, x)
        upto = torch.searchsorted(table, x, right=True)
        start = (below - 1).clamp(0, last - 1)
        left, right = table.gather(1, start), table.gather(1, start + 1)
        inside = start + ((x - left) / (right - left).clamp_min(1e-300)).clamp(0, 1)
        level = torch.where(upto > below, (below + upto - 1) / 2, inside) / last
        level = torch.where(steps, (below + upto) / (2 * N_KNOTS), level)
        z = torch.special.ndtri(level.clamp(0.5 / N_KNOTS, 1 - 0.5 / N_KNOTS))
        low, high = table[:, :1], table[:, -1:]
        binary = (x - low) / torch.where(high > low, high - low, 1.0)
        z = torch.where(self.kind[:, None] == BINARY, binary.clamp(0, 1), z)
        return torch.where(x.isnan(), torch.nan, z).T

    def _values(self, z: Tensor) -> Tensor:
        """Return the values with these scores, ``[draws, rows, columns]``; see ``_draw_binary``."""
        std = self._variance.clamp_min(1e-12).sqrt()  # less than 1 for columns with ties
        steps, level = self.kind == STEPS, torch.special.ndtr((z - self.mean) / std)
        position = level * torch.where(steps, N_KNOTS, N_KNOTS - 1)
        low = position.floor().clamp(0, N_KNOTS - 1)
        fraction = torch.where(steps, 0.0, position - low)
        start = low.long()
        stop = (start + 1).clamp(max=N_KNOTS - 1)
        column = torch.arange(len(self.kind)).expand_as(start)
        left, right = self.table[column, start], self.table[column, stop]
        return left + fraction * (right - left)

    def _draw_binary(self, values: Tensor, expected: Tensor, normal: Tensor) -> Tensor:
        """Draw binary columns and categories with their probability, which is their expectation.

        Args:
            values: draws of the other columns, ``[draws, rows, columns]``; changed in place.
            expected: expected scores, ``[rows, columns]``.
            normal: standardized draws of each score, ``[draws, rows, columns]``.
        """
        single = {int(column) for column in (self.kind == BINARY).nonzero()}
        low, high = self.table[:, 0], self.table[:, -1]
        for group in self.groups:
            columns = list(group)
            single -= set(columns)
            probability = expected[:, columns].clamp_min(1e-6)
            ends = (probability / probability.sum(1, keepdim=True)).cumsum(1)
            uniform = torch.special.ndtr(-normal[..., columns[:1]])
            level = (uniform > ends).sum(-1).clamp(max=len(columns) - 1)
            is_high = torch.nn.functional.one_hot(level, len(columns)) == 1
            values[..., columns] = torch.where(is_high, high[columns], low[columns])
        for column in single:
            is_high = torch.special.ndtr(-normal[..., column]) < expected[:, column]
            values[..., column] = torch.where(is_high, high[column], low[column])
        return values

    # --- imputation ------------------------------------------------------------------------

    def draws(self, x: Tensor) -> Tensor:
        """Return copies of rows with missing values drawn, ``[N_DRAWS, rows, columns]``."""
        drawn = x.expand(N_DRAWS, *x.shape).clone()
        if self.independent:
            self._draw_independently(x, drawn)
            return drawn
        eye = torch.eye(x.shape[1], dtype=torch.float64)
        for rows, expected, covariance in self.conditional(self.scores(x)):
            root = torch.linalg.cholesky_ex(covariance + 1e-9 * eye).L
            deviation = torch.einsum("rij,kj->kri", root, sobol_normals(x.shape[1]))
            std = covariance.diagonal(dim1=1, dim2=2).clamp_min(1e-12).sqrt()
            values = self._values(expected + deviation)
            values = self._draw_binary(values, expected, deviation / std)
            drawn[:, rows] = torch.where(x[rows].isnan(), values.to(x.dtype), x[rows])
        return drawn

    def _draw_independently(self, x: Tensor, drawn: Tensor) -> None:
        """Fill the missing values of ``drawn`` from the distribution of their own column."""
        variance, normal = self._variance, sobol_normals(x.shape[1])[:, None]
        std = (variance + _JITTER * torch.where(variance > 0, variance, 1.0)).sqrt()
        incomplete = x.isnan().any(1).nonzero().squeeze(1)
        for rows in incomplete.split(max(_CHUNK // (N_DRAWS * x.shape[1]), 1)):
            is_missing = x[rows].isnan()
            expected = torch.where(is_missing, self.mean, 0.0)
            deviation = normal.expand(-1, len(rows), -1)
            values = self._draw_binary(
                self._values(expected + std * deviation), expected, deviation
            )
            drawn[:, rows] = torch.where(is_missing, values.to(x.dtype), x[rows])

    @property
    def independent(self) -> bool:
        """Whether the columns are independent."""
        return self.covariance.ndim == 1 or len(self.mean) > MAX_COLUMNS

    @property
    def _variance(self) -> Tensor:
        """Variance of the scores of each column."""
        return self.covariance if self.covariance.ndim == 1 else torch.diag(self.covariance)

    def expected(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows with missing values replaced by their mean, and the variances of values."""
        filled, variance = x.clone(), torch.zeros_like(x)
        incomplete = x.isnan().any(1).nonzero().squeeze(1)
        for rows in incomplete.split(max(_CHUNK // (N_DRAWS * x.shape[1]), 1)):
            drawn = self.draws(x[rows])
            filled[rows], variance[rows] = drawn.mean(0), drawn.var(0, correction=0)
        return filled, variance

    def conditional(self, z: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield the distribution of missing normal scores given the known ones, by blocks of rows.

        Args:
            z: normal scores of the columns, ``[rows, columns]``; NaN marks missing values.

        Yields:
            Row numbers; conditional means ``[rows, columns]``, equal to the score where it is
            known; covariances ``[rows, columns, columns]``, zero where a score is known.
        """
        variance = torch.diag(self.covariance)
        jitter = _JITTER * torch.where(variance > 0, variance, 1.0)
        precision = torch.linalg.inv(self.covariance + torch.diag(jitter))
        eye = torch.eye(len(precision), dtype=torch.float64)
        incomplete = z.isnan().any(1).nonzero().squeeze(1)
        for rows in incomplete.split(max(_CHUNK // len(precision) ** 2, 1)):
            scores = z[rows]
            is_missing = scores.isnan()
            patterns, pattern_of_row = torch.unique(is_missing, dim=0, return_inverse=True)
            both_missing = patterns.unsqueeze(2) & patterns.unsqueeze(1)
            blocks = torch.linalg.inv(torch.where(both_missing, precision, eye))
            covariance = torch.where(both_missing, blocks, 0.0)[pattern_of_row]
            known = torch.where(is_missing, 0.0, scores - self.mean)
            pull = torch.where(is_missing, known @ precision, 0.0)
            expected = self.mean - torch.einsum("rij,rj->ri", covariance, pull)
            yield rows, torch.where(is_missing, expected, scores), covariance

    def scaled(self, factors: Tensor) -> GaussianCopula:
        """Return the distribution of the columns multiplied by positive factors, ``[columns]``."""
        return replace(self, table=self.table * factors.double()[:, None])

    # --- files -----------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """Return the state as named tensors, for a file."""
        return {name: getattr(self, name).contiguous() for name in _TENSORS}

    @classmethod
    def from_tensors(
        cls, tensors: dict[str, Tensor], n_columns: int, groups: Sequence[Sequence[int]]
    ) -> GaussianCopula:
        """Return the distribution with the tensors of a file, after checking them.

        Args:
            tensors: as ``tensors`` returned them.
            n_columns: the number of columns that is expected.
            groups: columns that are the levels of one category.

        Raises:
            ValueError: the tensors are not those of a distribution of so many columns.
        """
        like = torch.empty(n_columns, dtype=torch.float64)
        # Files of version 0.1 contain a diagonal matrix for many columns.
        is_vector = n_columns > MAX_COLUMNS and tensors.get("covariance", like).ndim == 1
        expected = {
            "mean": like,
            "covariance": like if is_vector else like.new_empty(n_columns, n_columns),
            "table": like.new_empty(n_columns, N_KNOTS),
            "kind": torch.empty(n_columns, dtype=torch.int64),
        }
        validation.check_same_tensors(expected, tensors, "imputer")
        validation.check_numbers(tensors, {})
        found = cls(**tensors, groups=tuple(tuple(group) for group in groups))
        matrix, kind, variance = found.covariance, found.kind, found._variance
        if bool((variance < 0).any()) or not (is_vector or torch.equal(matrix, matrix.T)):
            raise ValueError(
                "the covariance of the columns in the file is negative or not symmetric"
            )
        is_singular = not is_vector and bool(
            torch.linalg.cholesky_ex(matrix + torch.diag(1e-6 * variance + 1e-9)).info
        )
        if is_singular or not bool(((kind >= CONTINUOUS) & (kind <= BINARY)).all()):
            raise ValueError("the file has an indefinite covariance or an unknown kind of a column")
        if bool((found.table.diff(dim=1) < 0).any()):
            raise ValueError("the quantiles of a column in the file are not in ascending order")
        return found


@dataclass(frozen=True, eq=False)
class ImputedRows:
    """Standardized rows, of which some have missing values.

    Attributes:
        x: the rows, with missing values replaced by their expectation, ``[rows, columns]``.
        imputer: distribution of the columns; needed if values are missing.
        given: the rows with NaN for missing values; None if no value is missing.
        variance: variance of every value; None if no value is missing.
        copy_of: original row of each copy of a weighted row; None without weights.
    """

    x: Tensor
    imputer: GaussianCopula | None = None
    given: Tensor | None = None
    variance: Tensor | None = None
    copy_of: Tensor | None = None

    @classmethod
    def from_gaps(
        cls, x: Tensor, imputer: GaussianCopula, copy_of: Tensor | None = None
    ) -> ImputedRows:
        """Return rows whose missing values, marked by NaN, are imputed."""
        if not bool(x.isnan().any()):
            return cls(x, imputer, copy_of=copy_of)
        filled, variance = imputer.expected(x)
        return cls(filled, imputer, x, variance, copy_of)

    def __len__(self) -> int:
        return len(self.x)

    @cached_property
    def n_distinct(self) -> int:
        """Number of rows without copies."""
        return len(self.x) if self.copy_of is None else len(self.copy_of.unique())

    def with_copies(self, distinct: Tensor) -> Tensor:
        """Return the row numbers of all copies of distinct rows, which are numbered in order."""
        if self.copy_of is None:
            return distinct
        return torch.isin(self.copy_of, self.copy_of.unique()[distinct]).nonzero().squeeze(1)

    def at(self, rows: Tensor) -> ImputedRows:
        """Return some of the rows, without the information which are copies."""
        if self.given is None or self.variance is None:
            return ImputedRows(self.x[rows], self.imputer)
        given = self.given[rows]
        if not bool(given.isnan().any()):
            return ImputedRows(self.x[rows], self.imputer)
        return ImputedRows(self.x[rows], self.imputer, given, self.variance[rows])

    def as_gaussian(self, factors: Tensor) -> Tensor:
        """Return inputs for learning: Gaussian if values are missing, columns times factors."""
        by = factors.to(self.x)
        if self.variance is None:
            return self.x * by
        return Gaussian(self.x * by, self.variance * by * by)

    def completions(self) -> Tensor | None:
        """Return samples of the completed rows; None if no value is missing."""
        if self.given is None or self.imputer is None:
            return None
        return self.imputer.draws(self.given)


def _quantiles(values: Tensor, *, interpolate: bool) -> Tensor:
    """Return quantiles of sorted values at evenly spaced levels, ``[N_KNOTS]``.

    Args:
        values: values of a column, sorted.
        interpolate: whether to interpolate between values; else the minimum, the maximum, and the
            value at the middle of each interval of levels.
    """
    n_rows = len(values)
    if not interpolate:
        position = (torch.arange(N_KNOTS) + 0.5) / N_KNOTS * n_rows
        found = values[position.long().clamp(max=n_rows - 1)]
        found[0], found[-1] = values[0], values[-1]
        return found
    position = torch.linspace(0, n_rows - 1, N_KNOTS, dtype=torch.float64)
    low = position.long()
    above = (low + 1).clamp(max=n_rows - 1)
    return values[low] + (position - low) * (values[above] - values[low])


@cache
def sobol_normals(n_columns: int) -> Tensor:
    """Return ``[N_DRAWS, n_columns]`` evenly spread normal numbers of mean 0 and variance 1.

    They are the points of a scrambled Sobol sequence, the same in every call.
    """
    points = torch.quasirandom.SobolEngine(n_columns, scramble=True, seed=_SEED)
    uniform = points.draw(N_DRAWS, dtype=torch.float64).clamp(1e-6, 1 - 1e-6)
    normal = torch.special.ndtri(uniform)
    normal = normal - normal.mean(0)
    return normal / normal.square().mean(0).sqrt()
