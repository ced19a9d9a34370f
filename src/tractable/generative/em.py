"""Mixtures of normal distributions, and one step of expectation-maximisation.

UDL E 17.3–17.4: the responsibilities of the components for each row, and the parameters of greatest
expected likelihood given them.  Rows may have holes (NaN): what is missing is integrated out in
closed form (Ghahramani & Jordan, "Supervised learning from incomplete data via an EM approach",
1994), so a step never lowers the likelihood of what was seen.

Exact: everything here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

_EMPTY = 1e-10  # rows of a component below which its mean stays where it is


@dataclass(frozen=True)
class Mixture:
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
    def numbers(self) -> int:
        """How many numbers describe it."""
        k, d = self.means.shape
        return k * (1 + d + d * (d + 1) // 2)

    @property
    def free_numbers(self) -> int:
        """How many of them are free: the weights sum to one."""
        return self.numbers - 1

    def log_joint(self, x: Tensor) -> Tensor:
        """``log weight_k + log N(x; mean_k, covariance_k)``, ``[rows, components]``.

        Of rows with holes the density of what is there.
        """
        found = x.new_empty(len(x), len(self.weights))
        for rows, seen, _ in patterns(x):
            found[rows] = self.log_marginal(x[rows][:, seen], seen)
        return found

    def log_marginal(self, x: Tensor, seen: Tensor) -> Tensor:
        """The same for rows of the columns ``seen`` alone, without holes."""
        if not len(seen):
            return self.weights.log().expand(len(x), -1)
        root = torch.linalg.cholesky(self.covariances[:, seen][:, :, seen])
        off = (x.unsqueeze(0) - self.means[:, None, seen]).mT  # [components, columns, rows]
        whitened = torch.linalg.solve_triangular(root, off, upper=False)
        log_det = root.diagonal(dim1=1, dim2=2).log().sum(1)
        constant = 0.5 * len(seen) * math.log(2 * math.pi)
        log_density = -0.5 * whitened.square().sum(1) - log_det[:, None] - constant
        return (log_density + self.weights.log()[:, None]).T

    def given(self, x: Tensor, seen: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The mixture of the columns ``hidden``, given the columns ``seen``.

        Args:
            x: rows of the columns ``seen``.
            seen: numbers of columns.
            hidden: numbers of the others that are asked for.

        Returns:
            Log weights ``[rows, components]``, means ``[rows, components, hidden]``, and
            covariances ``[components, hidden, hidden]``, which no row changes.
        """
        log_weights = self.log_marginal(x, seen).log_softmax(1)
        inner = self.covariances[:, hidden][:, :, hidden]
        if not len(seen):
            return log_weights, self.means[:, hidden].expand(len(x), -1, -1), inner
        across = self.covariances[:, hidden][:, :, seen]
        root = torch.linalg.cholesky(self.covariances[:, seen][:, :, seen])
        slope = torch.cholesky_solve(across.mT, root).mT  # [components, hidden, seen]
        off = x.unsqueeze(1) - self.means[:, seen]
        means = self.means[:, hidden] + torch.einsum("khs,nks->nkh", slope, off)
        left = inner - slope @ across.mT
        return log_weights, means, (left + left.mT) / 2


def patterns(x: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Rows with the same holes together: their places, the columns seen, the columns hidden."""
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
class Statistics:
    """What the new parameters need to know of all rows, measured from the old means."""

    rows: Tensor
    """Expected number of rows of each component."""
    first: Tensor
    """Sum of deviations, ``[components, columns]``."""
    second: Tensor
    """Sum of their products, ``[components, columns, columns]``."""
    log_likelihood: float
    """Of what was seen, under the old parameters, summed over rows."""


def e_step(mixture: Mixture, x: Tensor) -> Statistics:
    """Responsibilities (E 17.3), summed up as the next step needs them."""
    k, d = mixture.means.shape
    rows = x.new_zeros(k)
    first, second = x.new_zeros(k, d), x.new_zeros(k, d, d)
    total = 0.0
    for places, seen, hidden in patterns(x):
        part = x[places][:, seen]
        joint = mixture.log_marginal(part, seen)
        total += float(joint.logsumexp(1).sum())
        share = joint.softmax(1)  # [rows, components]
        off = x.new_zeros(k, len(places), d)
        off[:, :, seen] = part.unsqueeze(0) - mixture.means[:, None, seen]
        if len(hidden):
            _, means, left = mixture.given(part, seen, hidden)
            off[:, :, hidden] = means.transpose(0, 1) - mixture.means[:, None, hidden]
            at = torch.meshgrid(hidden, hidden, indexing="ij")
            second[:, at[0], at[1]] += share.sum(0)[:, None, None] * left
        weighted = share.T.unsqueeze(-1) * off
        rows += share.sum(0)
        first += weighted.sum(1)
        second += weighted.mT @ off
    return Statistics(rows, first, second, total)


def m_step(
    old: Mixture, found: Statistics, *, prior_rows: float = 0.0, prior_variance: float = 1.0
) -> Mixture:
    """The parameters of greatest expected likelihood (E 17.4).

    Args:
        old: the mixture whose responsibilities were found.
        found: what ``e_step`` gave.
        prior_rows: rows of a variance ``prior_variance`` that each component is taken to have
            seen as well, in every direction around its mean: then no covariance can vanish, and
            what never falls is ``log_posterior``.
        prior_variance: their variance.
    """
    weights = found.rows / found.rows.sum()
    held = found.rows.clamp_min(_EMPTY)[:, None]
    shift = torch.where(found.rows[:, None] > _EMPTY, found.first / held, 0.0)
    scatter = found.second - held[..., None] * shift[:, :, None] * shift[:, None]
    eye = torch.eye(scatter.shape[-1], dtype=scatter.dtype)
    covariance = (scatter + prior_rows * prior_variance * eye) / (held[..., None] + prior_rows)
    return Mixture(weights, old.means + shift, (covariance + covariance.mT) / 2)


def log_prior(mixture: Mixture, *, prior_rows: float, prior_variance: float) -> float:
    """Log density of the covariances under those rows, up to a constant."""
    if prior_rows == 0:
        return 0.0
    root = torch.linalg.cholesky(mixture.covariances)
    log_det = 2 * root.diagonal(dim1=1, dim2=2).log().sum()
    trace = torch.cholesky_inverse(root).diagonal(dim1=1, dim2=2).sum()
    return -0.5 * prior_rows * float(log_det + prior_variance * trace)
