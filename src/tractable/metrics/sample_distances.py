"""Distances between two samples or distributions, and the inception score of generated rows.

A sample consists of rows of numbers. The columns are not scaled: standardize them first if their
units differ (``tractable.data.Standardizer``), because distances add them up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tractable.errors import MissingExtra

_MAX_DISTANCES = 1 << 22  # that are held in memory at the same time


def rows_of(values: Any, name: str) -> Tensor:
    """Return a sample as ``[rows, columns]`` in double precision; a vector is one column.

    Args:
        values: tensor or array-like.
        name: name of the argument, for error messages.

    Raises:
        ValueError: the sample is empty, or has values that are not finite.
    """
    rows = torch.as_tensor(values, dtype=torch.float64).detach()
    rows = rows.reshape(-1, 1) if rows.ndim < 2 else rows.flatten(1)
    if not rows.numel():
        raise ValueError(f"{name} has no rows: a distance needs at least one row of each sample")
    if not bool(rows.isfinite().all()):
        bad = int(torch.nonzero(~rows.isfinite())[0, 0])
        raise ValueError(f"{name} has NaN or infinite values, the first in row {bad}")
    return rows


def pair_of(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Return two samples as matrices, after checking that they have the same columns."""
    first, second = rows_of(a, "a"), rows_of(b, "b")
    if first.shape[1] != second.shape[1]:
        raise ValueError(
            f"the samples must have the same columns: a has {first.shape[1]}, b {second.shape[1]}"
        )
    return first, second.to(first.device)


def energy_distance(a: Any, b: Any, *, unbiased: bool = False) -> float:
    """Return the energy distance ``2 E|x - y| - E|x - x'| - E|y - y'|`` of two samples.

    It is zero only for equal distributions.

    Args:
        a: first sample, ``[rows, columns]``.
        b: second sample, ``[rows, columns]``.
        unbiased: whether to leave out the pairs of a row with itself. The estimate is then
            unbiased, and negative half of the time if the distributions are equal. Default: False,
            the energy distance of the two empirical distributions, which is never negative.

    References:
        G. Székely and M. Rizzo, "Energy statistics" (2013), eq. 5, with Euclidean norms.

    >>> energy_distance([0.0], [3.0])
    6.0
    """
    x, y = pair_of(a, b)
    across = _mean(x, y, _pair_distances, apart=False)
    return (
        2 * across - _mean(x, x, _pair_distances, unbiased) - _mean(y, y, _pair_distances, unbiased)
    )


def squared_mmd(a: Any, b: Any, *, bandwidth: float | None = None, unbiased: bool = True) -> float:
    """Return the squared maximum mean discrepancy with a Gaussian kernel.

    The kernel is ``exp(-|x - y|^2 / 2 h^2)``.

    Args:
        a: first sample, ``[rows, columns]``.
        b: second sample, ``[rows, columns]``.
        bandwidth: ``h``. Default: the median distance between rows of the joint sample (of at most
            1,000 rows, evenly spaced).
        unbiased: whether to leave out the pairs of a row with itself. Default: True.

    References:
        A. Gretton et al., "A kernel two-sample test" (2012), eq. 3 (``unbiased``) and eq. 5.
    """
    x, y = pair_of(a, b)
    h = median_distance(torch.cat([x, y])) if bandwidth is None else bandwidth
    if not h > 0:
        raise ValueError(f"bandwidth must be positive, got {h}: are all rows equal?")

    def kernel(p: Tensor, q: Tensor) -> Tensor:
        return torch.exp(-0.5 * (_pair_distances(p, q) / h) ** 2)

    within = _mean(x, x, kernel, unbiased) + _mean(y, y, kernel, unbiased)
    return within - 2 * _mean(x, y, kernel, apart=False)


def median_distance(rows: Tensor, max_rows: int = 1_000) -> float:
    """Return the median Euclidean distance between different rows, of at most ``max_rows``."""
    at = torch.linspace(0, len(rows) - 1, min(len(rows), max_rows)).long()
    return float(torch.pdist(rows[at]).median()) if len(at) > 1 else 0.0


def sliced_wasserstein(
    a: Any,
    b: Any,
    *,
    n_projections: int = 200,
    p: int = 1,
    generator: torch.Generator | None = None,
) -> float:
    """Return the Wasserstein distance averaged over one-dimensional random projections.

    That is ``(mean over directions of W_p^p)^(1/p)``. Approximate: by Monte Carlo.

    Args:
        a: first sample, ``[rows, columns]``.
        b: second sample, ``[rows, columns]``.
        n_projections: number of random directions.
        p: power of the distance, at least 1.
        generator: source of the directions. Default: a fixed seed, the same in every call.

    References:
        N. Bonneel et al., "Sliced and Radon Wasserstein barycenters of measures" (2015).
    """
    x, y = pair_of(a, b)
    if n_projections < 1:
        raise ValueError(f"n_projections must be at least 1, got {n_projections}")
    drawn = torch.Generator().manual_seed(0) if generator is None else generator
    direction = torch.randn(n_projections, x.shape[1], generator=drawn, dtype=torch.float64)
    direction = (direction / direction.norm(dim=1, keepdim=True)).to(x.device)
    projected = zip((x @ direction.T).unbind(1), (y @ direction.T).unbind(1), strict=True)
    total = sum(wasserstein(u, v, p=p) ** p for u, v in projected)
    return float((total / n_projections) ** (1 / p))


def js_divergence(p: Any, q: Any) -> float:
    """Return the Jensen-Shannon divergence of two discrete distributions, in nats (UDL E 15.9).

    It equals ``log 2 - L / 2``, with the loss ``L`` of the optimal discriminator (E 15.8).

    Args:
        p: probabilities, ``[outcomes]``.
        q: probabilities, ``[outcomes]``.

    >>> round(js_divergence([0.1, 0.4, 0.5], [0.3, 0.3, 0.4]), 9)
    0.032529606
    """
    first, second = probabilities(p, "p"), probabilities(q, "q")
    if first.shape != second.shape:
        raise ValueError(
            f"p has {first.numel()} outcomes and q {second.numel()}: they must have the same"
        )
    middle = (first + second) / 2
    parts = [torch.special.xlogy(d, d) - torch.special.xlogy(d, middle) for d in (first, second)]
    return float((parts[0] + parts[1]).sum() / 2)


def inception_score(probs: Any) -> float:
    """Return the inception score of class probabilities of generated rows (UDL E 14.2-14.3).

    It is ``exp(E KL(p(c|x) || p(c)))``: 1 if all rows have the same probabilities, and the number
    of classes if every row certainly belongs to one class and all classes are equally frequent.

    Args:
        probs: class probabilities by a classifier, ``[rows, classes]``.
    """
    rows = torch.as_tensor(probs, dtype=torch.float64).detach()
    if rows.ndim != 2 or not len(rows):
        raise ValueError(f"probs must be [rows, classes], got shape {tuple(rows.shape)}")
    bad = ~are_probabilities(rows)
    if bool(bad.any()):
        row = int(bad.nonzero()[0])
        raise ValueError(
            f"row {row} of probs must be probabilities that sum to 1, got {rows[row].tolist()}"
        )
    overall = rows.mean(0)
    kl = (torch.special.xlogy(rows, rows) - torch.special.xlogy(rows, overall)).sum(1)
    return float(kl.mean().exp())


def _pair_distances(x: Tensor, y: Tensor) -> Tensor:
    # Not by a matrix product, which is inaccurate for small distances.
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")


def _mean(
    x: Tensor, y: Tensor, of: Callable[[Tensor, Tensor], Tensor], apart: bool = False
) -> float:
    """Return the mean of a function of all pairs of rows; ``apart`` leaves out equal rows."""
    block = max(_MAX_DISTANCES // len(y), 1)
    total = sum(float(of(part, y).sum()) for part in x.split(block))
    if not apart:
        return total / (len(x) * len(y))
    if len(x) < 2:
        raise ValueError("the unbiased estimate needs at least two rows of each sample")
    diagonal = len(x) * float(of(x[:1], x[:1]))
    return (total - diagonal) / (len(x) * (len(x) - 1))


# --- optimal transport -------------------------------------------------------------------------


def wasserstein(
    a: Any, b: Any, *, a_weights: Any = None, b_weights: Any = None, p: int = 1
) -> float:
    """Return the Wasserstein distance of two one-dimensional samples.

    That is ``(integral over u of |A(u) - B(u)|^p)^(1/p)`` with the quantile functions A and B.
    Exact: for samples of any sizes and weights, because in one dimension the optimal transport plan
    keeps the order.

    Args:
        a: first sample, ``[rows]``.
        b: second sample, ``[rows]``.
        a_weights: weights of ``a``, ``[rows]``. Default: equal weights.
        b_weights: weights of ``b``, ``[rows]``. Default: equal weights.
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
    """Return sorted values, and the cumulative probability of each."""
    x = torch.as_tensor(values, dtype=torch.float64).detach().flatten()
    if not x.numel() or not bool(x.isfinite().all()):
        raise ValueError(
            f"{name} must have at least one value, and finite values only; got {x.numel()} values"
        )
    x, order = x.sort()
    if weights is None:
        ends = torch.arange(1, len(x) + 1, dtype=x.dtype, device=x.device) / len(x)
        return x, ends
    w = torch.as_tensor(weights, dtype=torch.float64, device=x.device).detach().flatten()
    if w.shape != x.shape or bool((w < 0).any()) or not float(w.sum()) > 0:
        raise ValueError(
            f"the weights of {name} must be one non-negative number per value, not all zero; got "
            f"{w.numel()} for {x.numel()} values"
        )
    w = w[order] / w.sum()
    x, w = x[w > 0], w[w > 0]
    ends = w.cumsum(0)
    return x, ends / ends[-1]


def probabilities(values: Any, name: str) -> Tensor:
    """Return a discrete distribution in double precision, normalized."""
    p = torch.as_tensor(values, dtype=torch.float64).detach()
    if p.ndim != 1 or not bool(are_probabilities(p)):
        raise ValueError(f"{name} must be probabilities that sum to 1, got {p.tolist()}")
    return p / p.sum()


def are_probabilities(p: Tensor) -> Tensor:
    """Return whether the last dimension has non-negative values that sum to 1."""
    return (p >= 0).all(-1) & ((p.sum(-1) - 1).abs() <= 1e-4)


def transport_constraints(rows: int, columns: int) -> Tensor:
    """Return the constraint matrix of the linear program of optimal transport (UDL E 15.11).

    Its product with the plan ``[rows, columns]``, flattened, gives the row sums and column sums.

    Args:
        rows: number of outcomes of the first distribution.
        columns: number of outcomes of the second distribution.

    Returns:
        ``[rows + columns, rows * columns]``.

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
    """Return the same matrix in sparse form; it has two ones in each column."""
    from scipy import sparse

    over_rows = sparse.kron(sparse.eye_array(rows), np.ones((1, columns)))
    over_columns = sparse.kron(np.ones((1, rows)), sparse.eye_array(columns))
    return sparse.vstack([over_rows, over_columns], format="csc")


def optimal_transport_plan(p: Any, q: Any, cost: Any = None) -> tuple[float, Tensor, Tensor]:
    """Return the optimal transport plan between two discrete distributions (UDL E 15.10-15.13).

    Exact: by a linear program.

    Args:
        p: probabilities, ``[n]``.
        q: probabilities, ``[m]``.
        cost: cost of moving one unit, ``[n, m]``. Default: ``|i - j|``.

    Returns:
        A tuple of the total cost (the earth mover's distance), the plan ``[n, m]``, and the dual
        variables of ``p`` (the critic ``f`` of E 15.13, if the cost is a distance between common
        outcomes), ``[n]``.

    Raises:
        ValueError: the arguments are not probabilities, or the cost has the wrong shape.
        MissingExtra: scipy is not installed.
    """
    try:
        from scipy.optimize import linprog
    except ImportError as error:
        raise MissingExtra(
            "optimal_transport_plan needs scipy, which comes with the extra sklearn: pip "
            "install 'tractable[sklearn]'; in one dimension, metrics.wasserstein needs no scipy"
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
        raise ArithmeticError(
            f"the linear program of optimal transport was not solved: {found.message}"
        )
    dual = torch.from_numpy(found.eqlin.marginals[:n].copy())
    return float(found.fun), torch.from_numpy(found.x.copy()).reshape(n, m), dual


def squared_wasserstein_normals(
    mean_a: Any, covariance_a: Any, mean_b: Any, covariance_b: Any
) -> float:
    """Return the squared 2-Wasserstein distance of two normal distributions.

    ``|m_a - m_b|^2 + tr(A + B - 2 (A^1/2 B A^1/2)^1/2)``; for single numbers
    ``(m_a - m_b)^2 + (s_a - s_b)^2`` with standard deviations, as in UDL E 15.21.

    Args:
        mean_a: mean of the first distribution, ``[n]`` or a number.
        covariance_a: its covariance, ``[n, n]``, or a variance.
        mean_b: mean of the second distribution, ``[n]`` or a number.
        covariance_b: its covariance, ``[n, n]``, or a variance.
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
    """Return the symmetric square root of a positive semi-definite matrix."""
    values, vectors = torch.linalg.eigh((matrix + matrix.mT) / 2)
    if float(values.min()) < -1e-9 * max(float(values.abs().max()), 1.0):
        raise ValueError("a covariance must be positive semi-definite")
    return (vectors * values.clamp_min(0).sqrt()) @ vectors.mT
