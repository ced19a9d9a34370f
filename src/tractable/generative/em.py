"""Mixtures of normal distributions, and one step of expectation-maximization (EM).

UDL E 17.3–17.4: the responsibilities of the components for each row, and the parameters that
maximize the expected likelihood given them. Rows may have missing values (NaN), which are
integrated out in closed form (Ghahramani & Jordan, "Supervised learning from incomplete data via an
EM approach", 1994), so a step never decreases the likelihood of the known values.

Exact: everything here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

_CHUNK_NUMBERS = 1 << 21  # numbers in the covariances of rows with missing values: 16 MB
_MIN_ROWS = 1e-10  # expected rows of a component below which its mean is not changed


@dataclass(frozen=True)
class MixtureParams:
    """Components of a mixture of normal distributions, in double precision.

    Attributes:
        weights: probabilities ``[components]``.
        means: ``[components, columns]``.
        covariances: ``[components, columns, columns]``.
    """

    weights: Tensor
    means: Tensor
    covariances: Tensor

    @property
    def n_params(self) -> int:
        """Number of parameters."""
        k, d = self.means.shape
        return k * (1 + d + d * (d + 1) // 2)

    @property
    def n_free_params(self) -> int:
        """Number of free parameters: one less than all, because the weights sum to one."""
        return self.n_params - 1

    def log_joint(self, x: Tensor) -> Tensor:
        """Return ``log weight_k + log N(x; mean_k, covariance_k)``, ``[rows, components]``.

        For rows with missing values it is the density of the known ones.
        """
        found = x.new_empty(len(x), len(self.weights))
        complete = ~x.isnan().any(1)
        if bool(complete.any()):
            found[complete] = self.log_marginal(x[complete], torch.arange(x.shape[1]))
        for rows in self.chunks((~complete).nonzero().flatten()):
            found[rows] = self.with_missing(x[rows])[0]
        return found

    def chunks(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Return the indices of rows with missing values in chunks that fit into memory."""
        size = max(_CHUNK_NUMBERS // (len(self.weights) * self.means.shape[1] ** 2), 1)
        return rows.split(size) if len(rows) else ()

    def with_missing(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return densities and conditional moments of rows with missing values.

        A missing column is treated as independent of all others with variance 1 and no deviation,
        so that all rows have matrices of the same size, and the known columns are not affected.

        Returns:
            ``log_joint`` of the known values, ``[rows, components]``; deviations from the means,
            with their expectation where missing, ``[rows, components, columns]``; and their
            covariance, ``[rows, components, columns, columns]``, zero for known values.
        """
        known = (~x.isnan()).to(x.dtype)[:, None]  # [rows, 1, columns]
        both = known.unsqueeze(-1) * known.unsqueeze(-2)
        eye = torch.eye(x.shape[1], dtype=x.dtype)
        masked = self.covariances * both + eye * (1 - known).unsqueeze(-1)
        root = torch.linalg.cholesky(masked)
        deviation = torch.nan_to_num(x[:, None] - self.means) * known
        whitened = torch.linalg.solve_triangular(root, deviation.unsqueeze(-1), upper=False)
        log_det = root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        constant = 0.5 * math.log(2 * math.pi) * known.sum(-1)
        density = -0.5 * whitened.square().sum((-2, -1)) - log_det - constant
        missing = 1 - known
        across = self.covariances * missing.unsqueeze(-1) * known.unsqueeze(-2)
        slope = torch.cholesky_solve(across.mT, root).mT  # [rows, components, missing, known]
        expected = deviation + (slope @ deviation.unsqueeze(-1)).squeeze(-1)
        inner = self.covariances * missing.unsqueeze(-1) * missing.unsqueeze(-2)
        remainder = inner - slope @ across.mT
        return density + self.weights.log(), expected, (remainder + remainder.mT) / 2

    def log_marginal(self, x: Tensor, known: Tensor) -> Tensor:
        """Return ``log_joint`` of complete rows that have the columns ``known`` only."""
        if not len(known):
            return self.weights.log().expand(len(x), -1)
        root = torch.linalg.cholesky(self.covariances[:, known][:, :, known])
        deviation = (x.unsqueeze(0) - self.means[:, None, known]).mT  # [components, columns, rows]
        whitened = torch.linalg.solve_triangular(root, deviation, upper=False)
        log_det = root.diagonal(dim1=1, dim2=2).log().sum(1)
        constant = 0.5 * len(known) * math.log(2 * math.pi)
        log_density = -0.5 * whitened.square().sum(1) - log_det[:, None] - constant
        return (log_density + self.weights.log()[:, None]).T

    def conditional(
        self, x: Tensor, known: Tensor, missing: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the mixture of the columns ``missing`` given the columns ``known``.

        Args:
            x: rows of the columns ``known``.
            known: indices of the known columns.
            missing: indices of the requested columns.

        Returns:
            Log weights ``[rows, components]``, means ``[rows, components, missing]``, and
            covariances ``[components, missing, missing]``, which are the same for all rows.
        """
        log_weights = self.log_marginal(x, known).log_softmax(1)
        inner = self.covariances[:, missing][:, :, missing]
        if not len(known):
            return log_weights, self.means[:, missing].expand(len(x), -1, -1), inner
        across = self.covariances[:, missing][:, :, known]
        root = torch.linalg.cholesky(self.covariances[:, known][:, :, known])
        slope = torch.cholesky_solve(across.mT, root).mT  # [components, missing, known]
        deviation = x.unsqueeze(1) - self.means[:, known]
        means = self.means[:, missing] + torch.einsum("khs,nks->nkh", slope, deviation)
        remainder = inner - slope @ across.mT
        return log_weights, means, (remainder + remainder.mT) / 2


def missing_patterns(x: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield groups of rows with the same missing columns: row, known and missing column indices."""
    holes = x.isnan()
    if not bool(holes.any()):
        columns = torch.arange(x.shape[1])
        yield torch.arange(len(x)), columns, columns[:0]
        return
    kinds, of = torch.unique(holes, dim=0, return_inverse=True)
    for number, kind in enumerate(kinds):
        rows = (of == number).nonzero().flatten()
        yield rows, (~kind).nonzero().flatten(), kind.nonzero().flatten()


@dataclass(frozen=True)
class EMStatistics:
    """Sufficient statistics of all rows for the new parameters, relative to the old means."""

    rows: Tensor
    """Expected number of rows of each component."""
    first: Tensor
    """Sum of deviations, ``[components, columns]``."""
    second: Tensor
    """Sum of their products, ``[components, columns, columns]``."""
    log_likelihood: float
    """Log-likelihood of the known values under the old parameters, summed over rows."""


def e_step(mixture: MixtureParams, x: Tensor) -> EMStatistics:
    """Return the sums over rows, weighted by responsibilities (E 17.3), that ``m_step`` needs."""
    k, d = mixture.means.shape
    rows = x.new_zeros(k)
    first, second = x.new_zeros(k, d), x.new_zeros(k, d, d)
    total, complete = 0.0, ~x.isnan().any(1)
    if bool(complete.any()):
        joint = mixture.log_marginal(x[complete], torch.arange(d))
        share = joint.softmax(1)
        deviation = x[complete].unsqueeze(0) - mixture.means.unsqueeze(1)
        weighted = share.T.unsqueeze(-1) * deviation
        rows, first, second = share.sum(0), weighted.sum(1), weighted.mT @ deviation
        total = float(joint.logsumexp(1).sum())
    for at in mixture.chunks((~complete).nonzero().flatten()):
        joint, deviation, remainder = mixture.with_missing(x[at])
        share = joint.softmax(1)
        weighted = share.unsqueeze(-1) * deviation
        rows = rows + share.sum(0)
        first = first + weighted.sum(0)
        second = second + torch.einsum("nki,nkj->kij", weighted, deviation)
        second = second + (share[..., None, None] * remainder).sum(0)
        total += float(joint.logsumexp(1).sum())
    return EMStatistics(rows, first, second, total)


def m_step(
    old: MixtureParams,
    found: EMStatistics,
    *,
    prior_count: float = 0.0,
    prior_variance: float = 1.0,
) -> MixtureParams:
    """Return the mixture that maximizes the expected likelihood (E 17.4).

    Args:
        old: mixture whose responsibilities were computed.
        found: result of ``e_step``.
        prior_count: weight of the prior: number of rows of variance ``prior_variance`` in every
            direction around its mean that each component is treated as having seen. No covariance
            can then vanish, and the log-likelihood plus ``log_prior`` never decreases.
        prior_variance: variance of these rows.
    """
    weights = found.rows / found.rows.sum()
    held = found.rows.clamp_min(_MIN_ROWS)[:, None]
    shift = torch.where(found.rows[:, None] > _MIN_ROWS, found.first / held, 0.0)
    scatter = found.second - held[..., None] * shift[:, :, None] * shift[:, None]
    eye = torch.eye(scatter.shape[-1], dtype=scatter.dtype)
    covariance = (scatter + prior_count * prior_variance * eye) / (held[..., None] + prior_count)
    return MixtureParams(weights, old.means + shift, (covariance + covariance.mT) / 2)


def log_prior(mixture: MixtureParams, *, prior_count: float, prior_variance: float) -> float:
    """Return the log prior density of the covariances, up to a constant; see ``m_step``."""
    if prior_count == 0:
        return 0.0
    root = torch.linalg.cholesky(mixture.covariances)
    log_det = 2 * root.diagonal(dim1=1, dim2=2).log().sum()
    trace = torch.cholesky_inverse(root).diagonal(dim1=1, dim2=2).sum()
    return -0.5 * prior_count * float(log_det + prior_variance * trace)
