"""Moments of the derivative of a chain of linear layers and activations.

With ``z' = W a + b``, ``a = phi(z)``, the derivative of an output with respect to a state is a sum
over the paths that join them, each a product of weights ``Y`` and slopes ``X = phi'(z)``:

    D(l) = D(l+1) Y(l) X(l)                                                            (34)

so mean, variance and covariances propagate from the last layer to the first by the product formulas
(11), (12) and (14).  The covariances of a slope with the weight and the slope just below it are
kept, whose weight in a path is ``r = E[Y(l+1)] E[D(l+2)]`` (36); layers further apart are
independent (9).  All terms are separable in the two units that a weight joins, so that each sum
over paths is a few matrix products.

Every smooth slope here is a quadratic function of its activation, ``phi' = k + l a - a^2`` (tanh:
k = 1, l = 0; sigmoid: k = 0, l = 1), with ``g = l - 2 E[a]``; tanh gives eqs. (39) to (47):

    E[phi']          = k + l E[a] - E[a]^2 - var a                                     (40)
    var phi'         = var a (g^2 + 2 var a)                                           (41)
    cov(phi', u)     = g cov(a, u)                                             (42, 46, 47)
    cov(phi', phi'~) = g g~ c + 2 c^2,   c = cov(a, a~)                                (44)

Piecewise linear activations have a constant slope, decided by the sign of the mean (48).

Exact: means and variances of linear networks; all means without variances.
Approximate: activations are linearized (10), products are treated as Gaussian, and when sums over
paths are squared, either (``"branches"``, as published) covariances between paths are ignored, or
(``"nodes"``) only those between paths that separate at this layer.

Source: Nguyen & Goulet, appendix B, with the misprints of eqs. 19, 28, 29, 36, 38, 41, 43, 45, 46
and 48 corrected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from tractable.moments import activation as act

Sums = Literal["nodes", "branches"]
SUMS: tuple[Sums, ...] = ("nodes", "branches")


@dataclass(frozen=True)
class ActivationMoments:
    """Moments of a layer: states ``z``, activations ``a``, slopes ``phi'(z)``; ``[rows, units]``.

    ``k + l a - a^2`` at the mean is the Jacobian, so that a smooth slope has the mean ``J - var
    a``, and its own slope, ``phi'' = (l - 2 a) phi'``, the mean ``g (J - 3 var a)``.  The
    properties return new tensors, which the caller may write into.
    """

    mean: Tensor
    """E[a]"""
    variance: Tensor
    """var a"""
    jacobian: Tensor
    """J = phi'(E[z]), so that cov(a, u) = J cov(z, u)"""
    linear: float | None = None
    """l, or None where the slope is constant"""

    @property
    def bend(self) -> Tensor | None:
        """The factor g, or None if the slope is constant."""
        if self.linear is None:
            return None
        g = -2 * self.mean
        return g.add_(self.linear) if self.linear else g

    @property
    def slope(self) -> Tensor:
        """Expected slope of the activation, E[phi'(z)] (40); if constant, the Jacobian."""
        return self.jacobian if self.linear is None else self.jacobian - self.variance

    @property
    def slope_variance(self) -> Tensor | None:
        """Variance of the slope phi'(z) of the activation (41); None if it is zero."""
        g = self.bend
        return None if g is None else g.square_().add_(self.variance, alpha=2).mul_(self.variance)

    @property
    def second(self) -> Tensor | None:
        """Expected second derivative of the activation, E[phi''(z)]; None if it is zero."""
        g = self.bend
        return None if g is None else g.mul_(self.jacobian - 3 * self.variance)


def linear(mu: Tensor, var: Tensor) -> ActivationMoments:
    """Return the moments of ``a = z``."""
    return ActivationMoments(mu, var, torch.ones_like(mu))


def relu(mu: Tensor, var: Tensor) -> ActivationMoments:
    """Return the moments of the ReLU, with slope 1 if the mean is positive and else 0 (48)."""
    return leaky_relu(mu, var, 0.0)


def leaky_relu(mu: Tensor, var: Tensor, negative_slope: float = 0.01) -> ActivationMoments:
    """Return the moments of the leaky ReLU, with slope 1 or ``negative_slope`` by the mean."""
    a, j = act.leaky_relu(mu, negative_slope)
    return ActivationMoments(a, (var * j).mul_(j), j)


def tanh(mu: Tensor, var: Tensor) -> ActivationMoments:
    """Return the moments of tanh, with ``phi' = 1 - a^2``."""
    a, j = act.tanh(mu)
    return ActivationMoments(a, (var * j).mul_(j), j, 0.0)


def sigmoid(mu: Tensor, var: Tensor) -> ActivationMoments:
    """Return the moments of the sigmoid, with ``phi' = a - a^2``."""
    a, j = act.sigmoid(mu)
    return ActivationMoments(a, (var * j).mul_(j), j, 1.0)


Slopes = Callable[[Tensor, Tensor], ActivationMoments]


@dataclass(frozen=True)
class GaussianWeights:
    """Independent Gaussian weights Y of a linear layer, ``[outputs, inputs]``.

    The matrices that ``pull`` needs are computed once.
    """

    mean: Tensor
    variance: Tensor

    @cached_property
    def square(self) -> Tensor:
        """E[Y]^2."""
        return self.mean * self.mean

    @cached_property
    def second_moment(self) -> Tensor:
        """E[Y^2]."""
        return self.square + self.variance

    @cached_property
    def adjacent(self) -> tuple[Tensor, Tensor, Tensor]:
        """The matrices in the three terms of the covariance of adjacent slopes."""
        return self.variance, self.square, self.square * self.mean

    @cached_property
    def adjacent_mean(self) -> list[Tensor]:
        """Each of these matrices times E[Y]."""
        return [matrix * self.mean for matrix in self.adjacent]

    @cached_property
    def adjacent_products(self) -> list[list[Tensor]]:
        """The products of these matrices; those that occur twice in a square are doubled."""
        return [[(1 if a is b else 2) * a * b for b in self.adjacent] for a in self.adjacent]


@dataclass(frozen=True)
class PathSums:
    """Sums over the paths from a unit to an output, ``[rows, outputs, units]``.

    Attributes:
        mean: sum of the means E of the paths.
        rest: sum of the weights r of the paths.
        variance: sum of the variances of the paths.
        products: sums of E^2, r^2 and E r; None stands for the products of the sums themselves, as
            for ``"nodes"``.
    """

    mean: Tensor
    rest: Tensor
    variance: Tensor
    products: tuple[Tensor, Tensor, Tensor] | None = None


def start(last: ActivationMoments) -> PathSums:
    """Return the derivative of the last layer's activations with respect to its states."""
    eye = torch.eye(last.mean.shape[-1], dtype=last.mean.dtype, device=last.mean.device)
    one = eye.expand(last.mean.shape[0], -1, -1)
    mean, spread = one * _row(last.slope), last.slope_variance
    variance = torch.zeros_like(mean) if spread is None else one * _row(spread)
    return PathSums(mean, one, variance)


def pull(
    above: PathSums, top: ActivationMoments, w: GaussianWeights, low: ActivationMoments, sums: Sums
) -> PathSums:
    """Return the sums one layer down.

    The cost is that of 16 matrix products if both layers have curved activations, 7 if only ``top``
    has, and 4 if it has not, as long as the temporary memory is reused.

    Args:
        above: sums for the states of ``top``.
        top: the upper layer.
        w: the weights between the layers.
        low: the lower layer.
        sums: ``"nodes"`` or ``"branches"``, see the module.
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
    adjacent = _covariance(above, top, low, x)
    if adjacent:
        scale = above.mean if above.products is None else above.products[2]
        for part in adjacent:
            left = part.left
            if above.products is not None:
                left = torch.mul(above.rest, left, out=work.left)
            for n, right in part.terms:
                mean.addcmul_(work.product(left, w.adjacent[n]), right)  # (36)
            left = torch.mul(scale, part.left, out=work.left)
            for n, right in part.terms:
                both.addcmul_(work.product(left, w.adjacent_mean[n]), right)
        cross.addcmul_(both, x, value=2)
        _add_squares(cross, above, w, adjacent, work)
    if sums == "nodes":
        return PathSums(mean, rest, variance)
    variance.add_(cross)
    products = cross.addcmul_(q_mu2, x * x), q_mu2, both.addcmul_(q_mu2, x)
    return PathSums(mean, rest, variance, products)


def _independent(
    above: PathSums, w: GaussianWeights, low: ActivationMoments, x: Tensor, work: _Work
) -> tuple[Tensor, Tensor]:
    """Return (37) without covariance, and ``E[D]^2 E[Y]^2``.

    (37) is ``var D (var YX + E[YX]^2) + var YX E[D]^2``.
    """
    if above.products is None:
        q = torch.mul(above.mean, above.mean, out=work.left)
    else:
        q = above.products[0]
    variance = above.variance @ w.second_moment
    variance.flatten(0, 1).addmm_(q.flatten(0, 1), w.variance)
    q_mu2 = work.product(q, w.square)
    x2, xi = x * x, low.slope_variance
    if xi is None:
        return variance.mul_(x2), q_mu2
    return variance.mul_(x2.add_(_row(xi))).addcmul_(q_mu2, _row(xi)), q_mu2


def input_covariance(
    above: PathSums, top: ActivationMoments, w: GaussianWeights, low: ActivationMoments
) -> Tensor:
    """Return ``cov(D, z) / var z`` for the derivative with respect to the states of ``low`` (38).

    Divided by the variance, so that it is defined for a state without variance.
    """
    total = above.mean.new_zeros(*above.mean.shape[:2], w.mean.shape[1])
    g, g_low = top.bend, low.bend
    if g is not None:
        left = above.rest * _row(g.mul_(top.jacobian))
        total.addcmul_(left @ w.square, _row(low.jacobian * low.slope))
    if g_low is not None:
        total.addcmul_(above.mean @ w.mean, _row(g_low.mul_(low.jacobian)))
    return total


# --- covariance of adjacent slopes -----------------------------------------------------------


@dataclass(frozen=True)
class _AdjacentCovariance:
    """A part of ``cov(X_i, Y_ij X_j)``: ``left_i`` times the sum of ``adjacent_ij right_j``.

    Attributes:
        left: the factor of the upper unit, times ``r`` if the products of ``PathSums`` are those of
            the sums.
        terms: index of a matrix of ``GaussianWeights.adjacent``, and the factor of the lower unit.
    """

    left: Tensor
    terms: list[tuple[int, Tensor]]


def _covariance(
    above: PathSums, top: ActivationMoments, low: ActivationMoments, slope: Tensor
) -> list[_AdjacentCovariance]:
    """Return ``cov(X_i, Y_ij X_j)`` of adjacent slopes, separated into factors (18, 24, 29).

    ``cov(X_i, Y_ij) E[X_j] + cov(X_i, X_j) E[Y_ij]`` with ``cov(a_i, Y_ij) = J_i v_ij E[a_j]``
    (43) and ``cov(a_i, a_j) = J_i E[Y_ij] var a_j`` (45).
    """
    g, g_low = top.bend, low.bend
    if g is None:
        return []

    def weighted(left: Tensor) -> Tensor:
        return _row(left) if above.products is not None else above.rest * _row(left)

    j, s = top.jacobian, low.variance
    first = _AdjacentCovariance(weighted(g.mul_(j)), [(0, _row(low.mean) * slope)])
    if g_low is None:
        return [first]
    first.terms.append((1, _row(g_low.mul_(s))))
    return [first, _AdjacentCovariance(weighted(j * j), [(2, _row((s * s).mul_(2)))])]


def _add_squares(
    total: Tensor,
    above: PathSums,
    w: GaussianWeights,
    adjacent: list[_AdjacentCovariance],
    work: _Work,
) -> None:
    """Add ``sum_i r_i^2 cov_ij^2``: each pair of terms once, pairs of different terms twice."""
    for i, part in enumerate(adjacent):
        for other in adjacent[i:]:
            if above.products is None:
                left = torch.mul(part.left, other.left, out=work.left)
            else:
                left = torch.mul(above.products[1], part.left, out=work.left).mul_(other.left)
            for n, right in other.terms:
                inner = None  # S_nn right_n + 2 S_nm right_m + ..., all times right_n
                for m, right_ in part.terms:
                    if other is part and m < n:
                        continue  # each pair once
                    found = work.product(left, w.adjacent_products[n][m])
                    if inner is None:
                        inner = torch.mul(found, right_, out=work.inner)
                    else:
                        inner.addcmul_(found, right_)
                if inner is not None:
                    total.addcmul_(inner, right)


@dataclass(frozen=True)
class _Work:
    """Temporary memory that the terms of a layer share: allocating it for each doubles the time."""

    left: Tensor
    inner: Tensor
    result: Tensor

    @classmethod
    def between(cls, above: Tensor, matrix: Tensor) -> _Work:
        """Return memory for products of ``above`` with ``matrix``."""
        (rows, outputs, n), m = above.shape, matrix.shape[1]
        sizes = [rows * outputs * units for units in (n, m, m)]
        left, inner, result = above.new_empty(sum(sizes)).split(sizes)
        low = rows, outputs, m
        return cls(left.view(rows, outputs, n), inner.view(low), result.view(low))

    def product(self, left: Tensor, matrix: Tensor) -> Tensor:
        """Return ``left @ matrix`` in memory that the next call overwrites."""
        torch.mm(left.flatten(0, 1), matrix, out=self.result.flatten(0, 1))
        return self.result


def _row(x: Tensor) -> Tensor:
    return x.unsqueeze(1)
