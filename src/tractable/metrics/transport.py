"""Moving one distribution onto another: Wasserstein distances.

In one dimension the cheapest plan keeps the order, so sorting is enough; on a few outcomes it is a
linear program (UDL E 15.10–15.13); between normal distributions there is a closed form.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tractable.errors import MissingExtra


def wasserstein(
    a: Any, b: Any, *, a_weights: Any = None, b_weights: Any = None, p: int = 1
) -> float:
    """Wasserstein distance of two one-dimensional samples.

    ``(integral over u of |A(u) - B(u)|^p)^(1/p)`` with the quantile functions of both, which is
    exact for samples of any sizes and weights.

    Args:
        a: numbers.
        b: numbers.
        a_weights: their probabilities up to a factor; by default all equal.
        b_weights: the same for ``b``.
        p: power, at least 1.

    >>> wasserstein([0.0, 1.0], [2.0])
    1.5
    """
    if p < 1:
        raise ValueError(f"p must be at least 1, got {p}")
    x, ends_a = _quantiles(a, a_weights, "a")
    y, ends_b = _quantiles(b, b_weights, "b")
    if x.shape == y.shape and torch.equal(ends_a, ends_b):
        steps = torch.diff(ends_a, prepend=ends_a.new_zeros(1))
        return float((steps * (x - y).abs() ** p).sum() ** (1 / p))
    ends = torch.cat([ends_a, ends_b]).sort().values
    steps = torch.diff(ends, prepend=ends.new_zeros(1))
    middle = ends - steps / 2
    at_a = torch.searchsorted(ends_a, middle).clamp_max(len(x) - 1)
    at_b = torch.searchsorted(ends_b, middle).clamp_max(len(y) - 1)
    return float((steps * (x[at_a] - y[at_b]).abs() ** p).sum() ** (1 / p))


def _quantiles(values: Any, weights: Any, name: str) -> tuple[Tensor, Tensor]:
    """Sorted values, and the share of the distribution up to each."""
    x = torch.as_tensor(values, dtype=torch.float64).detach().flatten()
    if not x.numel() or not bool(x.isfinite().all()):
        raise ValueError(f"{name} must be at least one finite number, got {x.numel()} values")
    x, order = x.sort()
    if weights is None:
        ends = torch.arange(1, len(x) + 1, dtype=x.dtype, device=x.device) / len(x)
        return x, ends
    w = torch.as_tensor(weights, dtype=torch.float64, device=x.device).detach().flatten()
    if w.shape != x.shape or bool((w < 0).any()) or not float(w.sum()) > 0:
        raise ValueError(
            f"the weights of {name} must be one number from 0 per value and not all zero, got "
            f"{w.numel()} for {x.numel()} values"
        )
    w = w[order] / w.sum()
    x, w = x[w > 0], w[w > 0]
    ends = w.cumsum(0)
    return x, ends / ends[-1]


def probabilities(values: Any, name: str) -> Tensor:
    """A discrete distribution in double precision, with a sum of exactly one."""
    p = torch.as_tensor(values, dtype=torch.float64).detach()
    if p.ndim != 1 or not bool(are_probabilities(p)):
        raise ValueError(f"{name} must be probabilities that sum to one, got {p.tolist()}")
    return p / p.sum()


def are_probabilities(p: Tensor) -> Tensor:
    """Whether the last dimension holds a distribution: from 0 on, a sum of one, and no NaN."""
    return (p >= 0).all(-1) & ((p.sum(-1) - 1).abs() <= 1e-4)


def transport_constraints(rows: int, columns: int) -> Tensor:
    """The matrix of the linear program of transport (UDL E 15.11).

    The plan ``P [rows, columns]``, row by row, must have the given row sums and column sums.

    >>> transport_constraints(4, 4).shape
    torch.Size([8, 16])
    """
    eye_rows = torch.eye(rows, dtype=torch.float64)
    eye_columns = torch.eye(columns, dtype=torch.float64)
    ones_rows = torch.ones(rows, dtype=torch.float64)
    ones_columns = torch.ones(columns, dtype=torch.float64)
    return torch.cat([torch.kron(eye_rows, ones_columns[None]),
                      torch.kron(ones_rows[None], eye_columns)])  # fmt: skip


def _constraints(rows: int, columns: int) -> Any:
    """The same matrix, sparse: two ones in each of its ``rows * columns`` columns."""
    from scipy import sparse

    over_rows = sparse.kron(sparse.eye_array(rows), np.ones((1, columns)))
    over_columns = sparse.kron(np.ones((1, rows)), sparse.eye_array(columns))
    return sparse.vstack([over_rows, over_columns], format="csc")


def earth_mover(p: Any, q: Any, cost: Any = None) -> tuple[float, Tensor, Tensor]:
    """The cheapest plan that moves one discrete distribution onto another (UDL E 15.10–15.13).

    Args:
        p: probabilities.
        q: probabilities.
        cost: price of moving one unit, ``[len(p), len(q)]``; by default ``|i - j|``.

    Returns:
        The cost, the plan ``[len(p), len(q)]``, and the dual variables of ``p`` (the critic ``f``
        of E 15.13, where the cost is a distance on common outcomes).

    Raises:
        MissingExtra: scipy is not installed.
    """
    try:
        from scipy.optimize import linprog
    except ImportError as error:
        raise MissingExtra(
            "earth_mover solves a linear program by scipy, which comes with the extra sklearn: pip "
            "install 'tractable[sklearn]'; in one dimension metrics.wasserstein needs no scipy"
        ) from error

    first, second = probabilities(p, "p"), probabilities(q, "q")
    n, m = len(first), len(second)
    if cost is None:
        cost = (torch.arange(n)[:, None] - torch.arange(m)[None]).abs()
    price = torch.as_tensor(cost, dtype=torch.float64).detach()
    if price.shape != (n, m):
        raise ValueError(f"cost must be [{n}, {m}], got shape {tuple(price.shape)}")
    found = linprog(
        price.flatten().numpy(), A_eq=_constraints(n, m),
        b_eq=torch.cat([first, second]).numpy(), bounds=(0, None), method="highs",
    )  # fmt: skip
    if not found.success:
        raise ArithmeticError(f"the linear program of transport was not solved: {found.message}")
    dual = torch.from_numpy(found.eqlin.marginals[:n].copy())
    return float(found.fun), torch.from_numpy(found.x.copy()).reshape(n, m), dual


def wasserstein_of_normals(mean_a: Any, covariance_a: Any, mean_b: Any, covariance_b: Any) -> float:
    """Squared 2-Wasserstein distance of two normal distributions.

    ``|m_a - m_b|^2 + tr(A + B - 2 (A^1/2 B A^1/2)^1/2)``; for single numbers
    ``(m_a - m_b)^2 + (s_a - s_b)^2`` with standard deviations, which is what UDL E 15.21 means.

    Args:
        mean_a: mean of the first, a vector (or a number).
        covariance_a: its covariance, a matrix (or a variance).
        mean_b: mean of the second.
        covariance_b: its covariance, a matrix (or a variance).
    """
    means = [torch.atleast_1d(torch.as_tensor(m, dtype=torch.float64)) for m in (mean_a, mean_b)]
    a, b = (
        torch.atleast_2d(torch.as_tensor(c, dtype=torch.float64))
        for c in (covariance_a, covariance_b)
    )
    root = _root(a)
    cross = _root(root @ b @ root)
    between = (means[0] - means[1]).square().sum()
    return float(between + torch.trace(a) + torch.trace(b) - 2 * torch.trace(cross))


def _root(matrix: Tensor) -> Tensor:
    """The symmetric root of a positive semi-definite matrix."""
    values, vectors = torch.linalg.eigh((matrix + matrix.mT) / 2)
    if float(values.min()) < -1e-9 * max(float(values.abs().max()), 1.0):
        raise ValueError("a covariance must be positive semi-definite")
    return (vectors * values.clamp_min(0).sqrt()) @ vectors.mT
