"""Moments of the derivative of a chain of linear layers and activations.

With ``z' = W a + b``, ``a = phi(z)``, the derivative of an output with respect to a state is a
sum over the branches that join them, each a product of weights ``Y`` and slopes ``X = phi'(z)``:

    D(l) = D(l+1) Y(l) X(l)                                                            (34)

so mean, variance and covariances pass from the last layer to the first by the product formulas
(11), (12) and (14).  Kept are the covariances of a slope with the weight and the slope just
below it, whose weight in a branch is ``r = E[Y(l+1)] E[D(l+2)]`` (36); layers further apart are
independent (9).  All terms are separable in the two units a weight joins, so that every sum over
branches is a few matrix products.

Every smooth slope here is a quadratic of its activation, ``phi' = k + l a - a^2`` (tanh: k = 1,
l = 0; sigmoid: k = 0, l = 1), with ``g = l - 2 E[a]``; tanh gives eqs. (39) to (47):

    E[phi']          = k + l E[a] - E[a]^2 - var a                                     (40)
    var phi'         = var a (g^2 + 2 var a)                                           (41)
    cov(phi', u)     = g cov(a, u)                                             (42, 46, 47)
    cov(phi', phi'~) = g g~ c + 2 c^2,   c = cov(a, a~)                                (44)

Piecewise linear ones have a constant slope, decided by the sign of the mean (48).

Exact: linear networks' means and variances; every mean without variances.
Approximate: activations are linearised (10), products are treated as Gaussian, and when sums
over branches are squared, either (``"branches"``, as published) covariances between branches
are dropped, or (``"nodes"``) only those between branches that part at this very layer.

Source: Nguyen & Goulet, appendix B, with the misprints of eqs. 19, 28, 29, 36, 38, 41, 43, 45,
46 and 48 put right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tractable.moments import activation as act

Sums = Literal["nodes", "branches"]
SUMS: tuple[Sums, ...] = ("nodes", "branches")


@dataclass(frozen=True)
class Units:
    """One layer: states ``z``, activations ``a`` and slopes ``phi'(z)``, one row per input.

    ``k + l a - a^2`` at the mean is the jacobian, so that a smooth slope has the mean
    ``J - var a``, and its own slope, ``phi'' = (l - 2 a) phi'``, the mean ``g (J - 3 var a)``.
    """

    mean: Tensor
    """E[a]"""
    variance: Tensor
    """var a"""
    jacobian: Tensor
    """J = phi'(E[z]), so that cov(a, u) = J cov(z, u)"""
    bend: Tensor | None = None
    """g, or None where the slope is constant"""

    @property
    def slope(self) -> Tensor:
        """E[phi'(z)] (40)."""
        return self.jacobian if self.bend is None else self.jacobian - self.variance

    @property
    def slope_variance(self) -> Tensor | None:
        """Variance of phi'(z) (41), or None where it is zero."""
        if self.bend is None:
            return None
        return (self.bend * self.bend).add_(self.variance, alpha=2).mul_(self.variance)

    @property
    def second(self) -> Tensor | None:
        """E[phi''(z)], or None where it is zero."""
        if self.bend is None:
            return None
        return self.bend * (self.jacobian - 3 * self.variance)


@dataclass(frozen=True)
class Weights:
    """Independent Gaussian weights of a linear layer, ``[outputs, inputs]``."""

    mean: Tensor
    variance: Tensor


# --- slopes of activations -------------------------------------------------------------------


def linear(mu: Tensor, var: Tensor) -> Units:
    """``a = z``."""
    return Units(mu, var, torch.ones_like(mu))


def relu(mu: Tensor, var: Tensor) -> Units:
    """Slope 1 where the mean is positive, else 0 (48)."""
    return leaky_relu(mu, var, 0.0)


def leaky_relu(mu: Tensor, var: Tensor, negative_slope: float = 0.01) -> Units:
    """Slope 1 where the mean is positive, else ``negative_slope``."""
    a, j = act.leaky_relu(mu, negative_slope)
    return Units(a, (var * j).mul_(j), j)


def tanh(mu: Tensor, var: Tensor) -> Units:
    """``phi' = 1 - a^2``."""
    a, j = act.tanh(mu)
    return Units(a, (var * j).mul_(j), j, -2 * a)


def sigmoid(mu: Tensor, var: Tensor) -> Units:
    """``phi' = a - a^2``."""
    a, j = act.sigmoid(mu)
    return Units(a, (var * j).mul_(j), j, 1 - 2 * a)


Slopes = Callable[[Tensor, Tensor], Units]


# --- branches --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Branches:
    """Sums over the branches from a unit to an output, ``[rows, outputs, units]``.

    With the mean E and variance of one branch and its weight ``r``: the sums of E, r and the
    variances, and those of the products E^2, r^2 and E r.
    """

    mean: Tensor
    rest: Tensor
    variance: Tensor
    products: tuple[Tensor, Tensor, Tensor] | None = None
    """None: the products of the sums themselves, as for nodes."""


def start(last: Units) -> Branches:
    """The derivative of the last layer's activations with respect to its states."""
    eye = torch.eye(last.mean.shape[-1], dtype=last.mean.dtype, device=last.mean.device)
    one = eye.expand(last.mean.shape[0], -1, -1)
    mean, spread = one * _row(last.slope), last.slope_variance
    variance = torch.zeros_like(mean) if spread is None else one * _row(spread)
    return Branches(mean, one, variance)


def pull(above: Branches, top: Units, w: Weights, low: Units, sums: Sums) -> Branches:
    """One layer down: from the states of ``top`` to those of ``low``, which ``w`` joins.

    The cost is that of 16 matrix products where both layers bend, 7 where only ``top`` does and
    4 where it does not, as long as what surrounds them works in memory that is at hand.
    """
    x = _row(low.slope)
    rest = above.mean @ w.mean
    mean = rest * x
    work = _Work.between(above.mean, w.mean)
    variance, q_mu2 = _independent(above, w, low, x, work)
    # Sums of E[D] r E[Y] cov, and of 2 E[D] E[YX] cov + cov^2
    if sums == "nodes":
        both, cross = work.inner.zero_(), variance
    else:
        both, cross, q_mu2 = torch.zeros_like(rest), torch.zeros_like(rest), q_mu2.clone()
    near = _covariance(top, w, low, x)
    if near:
        weighed = [above.rest * part.left for part in near]
        for part, left in zip(near, weighed, strict=True):
            for matrix, right in part.terms:
                mean.addcmul_(work.product(left, matrix), right)  # (36)
            if above.products is None:
                left = torch.mul(above.mean, left, out=work.left)
            else:
                left = torch.mul(above.products[2], part.left, out=work.left)
            for matrix, right in part.terms:
                both.addcmul_(work.product(left, matrix * w.mean), right)
        cross.addcmul_(both, x, value=2)
        _add_squares(cross, above, near, weighed, work)
    if sums == "nodes":
        return Branches(mean, rest, variance)
    variance.add_(cross)
    products = cross.addcmul_(q_mu2, x * x), q_mu2, both.addcmul_(q_mu2, x)
    return Branches(mean, rest, variance, products)


def _independent(
    above: Branches, w: Weights, low: Units, x: Tensor, work: _Work
) -> tuple[Tensor, Tensor]:
    """(37) without covariance, ``var D (var YX + E[YX]^2) + var YX E[D]^2``; ``E[D]^2 E[Y]^2``."""
    v, mu2 = w.variance, w.mean * w.mean
    if above.products is None:
        q = torch.mul(above.mean, above.mean, out=work.left)
    else:
        q = above.products[0]
    variance = above.variance @ (v + mu2)
    variance.flatten(0, 1).addmm_(q.flatten(0, 1), v)
    q_mu2 = work.product(q, mu2)
    x2, xi = x * x, low.slope_variance
    if xi is None:
        return variance.mul_(x2), q_mu2
    return variance.mul_(x2.add_(_row(xi))).addcmul_(q_mu2, _row(xi)), q_mu2


def input_covariance(above: Branches, top: Units, w: Weights, low: Units) -> Tensor:
    """``cov(D, z) / var z`` for the derivative with respect to the states of ``low`` (38).

    Divided by the variance, so that it is defined for a state without one.
    """
    mu = w.mean
    total = above.mean.new_zeros(*above.mean.shape[:2], mu.shape[1])
    if top.bend is not None:
        left = _row(top.bend * top.jacobian)
        total.addcmul_((above.rest * left) @ (mu * mu), _row(low.jacobian * low.slope))
    if low.bend is not None:
        total.addcmul_(above.mean @ mu, _row(low.bend * low.jacobian))
    return total


# --- covariance of neighbours ----------------------------------------------------------------


@dataclass(frozen=True)
class _Near:
    """Part of ``cov(X_i, Y_ij X_j)``: ``left_i`` times the sum of ``matrix_ij right_j``."""

    left: Tensor
    terms: list[tuple[Tensor, Tensor]]


def _covariance(top: Units, w: Weights, low: Units, slope: Tensor) -> list[_Near]:
    """``cov(X_i, Y_ij X_j)`` of neighbours, separated into its units (18, 24, 29).

    ``cov(X_i, Y_ij) E[X_j] + cov(X_i, X_j) E[Y_ij]`` with ``cov(a_i, Y_ij) = J_i v_ij E[a_j]``
    (43) and ``cov(a_i, a_j) = J_i E[Y_ij] var a_j`` (45).
    """
    if top.bend is None:
        return []
    mu, v, j = w.mean, w.variance, top.jacobian
    first = _Near(_row(top.bend * j), [(v, _row(low.mean) * slope)])
    if low.bend is None:
        return [first]
    s, mu2 = low.variance, mu * mu
    first.terms.append((mu2, _row(low.bend * s)))
    return [first, _Near(_row(j * j), [(mu2 * mu, _row((s * s).mul_(2)))])]


def _add_squares(
    total: Tensor, above: Branches, near: list[_Near], weighed: list[Tensor], work: _Work
) -> None:
    """Add ``sum_i r_i^2 cov_ij^2``: each pair of terms once, those of two different terms twice."""
    for i, part in enumerate(near):
        for k in range(i, len(near)):
            if above.products is None:
                left = torch.mul(weighed[i], weighed[k], out=work.left)
            else:
                left = torch.mul(above.products[1], part.left, out=work.left).mul_(near[k].left)
            for n, (matrix, right) in enumerate(near[k].terms):
                inner = work.inner  # S_nn right_n + 2 S_nm right_m + ..., all times right_n
                for m, (matrix_, right_) in enumerate(part.terms[n if k == i else 0 :]):
                    times = 1 if k == i and m == 0 else 2
                    found = work.product(left, times * matrix * matrix_)
                    if m == 0:
                        torch.mul(found, right_, out=inner)
                    else:
                        inner.addcmul_(found, right_)
                total.addcmul_(inner, right)


@dataclass(frozen=True)
class _Work:
    """Memory that the terms of a layer share: fresh memory for each would double the time."""

    left: Tensor
    inner: Tensor
    result: Tensor

    @classmethod
    def between(cls, above: Tensor, matrix: Tensor) -> _Work:
        """For products of ``above`` with ``matrix``."""
        (rows, outputs, n), m = above.shape, matrix.shape[1]
        sizes = [rows * outputs * units for units in (n, m, m)]
        left, inner, result = above.new_empty(sum(sizes)).split(sizes)
        shape = rows, outputs, -1
        return cls(left.view(shape), inner.view(shape), result.view(shape))

    def product(self, left: Tensor, matrix: Tensor) -> Tensor:
        """``left @ matrix``, until the next one is asked for."""
        torch.mm(left.flatten(0, 1), matrix, out=self.result.flatten(0, 1))
        return self.result


def _row(x: Tensor) -> Tensor:
    return x.unsqueeze(1)
