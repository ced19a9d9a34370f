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
    """One layer: states ``z``, activations ``a`` and slopes ``phi'(z)``, one row per input."""

    mean: Tensor
    """E[a]"""
    variance: Tensor
    """var a"""
    jacobian: Tensor
    """J = phi'(E[z]), so that cov(a, u) = J cov(z, u)"""
    slope: Tensor
    """E[phi'(z)]"""
    slope_variance: Tensor
    """var phi'(z)"""
    bend: Tensor | None = None
    """g, or None where the slope is constant"""
    second: Tensor | None = None
    """E[phi''(z)], or None where it is zero"""


@dataclass(frozen=True)
class Weights:
    """Independent Gaussian weights of a linear layer, ``[outputs, inputs]``."""

    mean: Tensor
    variance: Tensor


# --- slopes of activations -------------------------------------------------------------------


def linear(mu: Tensor, var: Tensor) -> Units:
    """``a = z``."""
    one = torch.ones_like(mu)
    return Units(mu, var, one, one, torch.zeros_like(mu))


def relu(mu: Tensor, var: Tensor) -> Units:
    """Slope 1 where the mean is positive, else 0 (48)."""
    return leaky_relu(mu, var, 0.0)


def leaky_relu(mu: Tensor, var: Tensor, negative_slope: float = 0.01) -> Units:
    """Slope 1 where the mean is positive, else ``negative_slope``."""
    a, j = act.leaky_relu(mu, negative_slope)
    return Units(a, var * j * j, j, j, torch.zeros_like(mu))


def tanh(mu: Tensor, var: Tensor) -> Units:
    """``phi' = 1 - a^2``, ``phi'' = -2 a + 2 a^3``."""
    a, j = act.tanh(mu)
    s = var * j * j
    second = 2 * a * (a * a - 1 + 3 * s)
    return _quadratic(a, s, j, slope=1 - a * a - s, bend=-2 * a, second=second)


def sigmoid(mu: Tensor, var: Tensor) -> Units:
    """``phi' = a - a^2``, ``phi'' = a - 3 a^2 + 2 a^3``."""
    a, j = act.sigmoid(mu)
    s = var * j * j
    second = (1 - 2 * a) * (a - a * a) - 3 * s + 6 * a * s
    return _quadratic(a, s, j, slope=a - a * a - s, bend=1 - 2 * a, second=second)


def _quadratic(
    a: Tensor, s: Tensor, j: Tensor, slope: Tensor, bend: Tensor, second: Tensor
) -> Units:
    return Units(a, s, j, slope, s * (bend * bend + 2 * s), bend, second)


Slopes = Callable[[Tensor, Tensor], Units]


# --- branches --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Branches:
    """Sums over the branches from a unit to an output, ``[rows, outputs, units]``.

    With the mean E and variance of one branch and its weight ``r``: the sums of E, r and the
    variances, and those of the products E^2, r^2 and E r (of the sums themselves, for nodes).
    """

    mean: Tensor
    rest: Tensor
    variance: Tensor
    mean_mean: Tensor
    rest_rest: Tensor
    mean_rest: Tensor


def start(last: Units) -> Branches:
    """The derivative of the last layer's activations with respect to its states."""
    eye = torch.eye(last.mean.shape[-1], dtype=last.mean.dtype, device=last.mean.device)
    one = eye.expand(last.mean.shape[0], -1, -1)
    mean, variance = one * last.slope.unsqueeze(1), one * last.slope_variance.unsqueeze(1)
    return Branches(mean, one, variance, mean * mean, one, mean)


def pull(above: Branches, top: Units, w: Weights, low: Units, sums: Sums) -> Branches:
    """One layer down: from the states of ``top`` to those of ``low``, which ``w`` joins."""
    mu, v = w.mean, w.variance
    mu2 = mu * mu
    x, x2, xi = (_row(t) for t in (low.slope, low.slope * low.slope, low.slope_variance))
    q, p, t = above.mean_mean, above.rest_rest, above.mean_rest
    q_mu2 = q @ mu2
    rest = above.mean @ mu
    mean = rest * x
    # (37) without covariance: var D (var YX + E[YX]^2) + var YX E[D]^2
    variance = (above.variance @ (v + mu2) + q @ v) * (xi + x2) + q_mu2 * xi
    cross = torch.zeros((), dtype=mu.dtype, device=mu.device)  # sum of 2 E[D] E[YX] cov + cov^2
    both = cross  # sum of cov E[Y] r
    terms = _covariance(top, w, low)
    for i, (left, matrix, right) in enumerate(terms):
        mean = mean + (above.rest * left) @ matrix * right
        joint = (t * left) @ (matrix * mu) * right
        both = both + joint
        cross = cross + 2 * joint * x
        for k, (left_, matrix_, right_) in enumerate(terms[: i + 1]):
            square = (p * (left * left_)) @ (matrix * matrix_) * (right * right_)
            cross = cross + (square if k == i else 2 * square)
    variance = variance + cross
    if sums == "nodes":
        return Branches(mean, rest, variance, mean * mean, rest * rest, mean * rest)
    return Branches(mean, rest, variance, q_mu2 * x2 + cross, q_mu2, q_mu2 * x + both)


def input_covariance(above: Branches, top: Units, w: Weights, low: Units) -> Tensor:
    """``cov(D, z) / var z`` for the derivative with respect to the states of ``low`` (38).

    Divided by the variance, so that it is defined for a state without one.
    """
    mu = w.mean
    total = torch.zeros_like(above.mean @ mu)
    if top.bend is not None:
        left = _row(top.bend * top.jacobian)
        total = total + (above.rest * left) @ (mu * mu) * _row(low.jacobian * low.slope)
    if low.bend is not None:
        total = total + (above.mean @ mu) * _row(low.bend * low.jacobian)
    return total


def _covariance(top: Units, w: Weights, low: Units) -> list[tuple[Tensor, Tensor, Tensor]]:
    """``cov(X_i, Y_ij X_j)`` of neighbours as terms ``left_i matrix_ij right_j`` (18, 24, 29).

    ``cov(X_i, Y_ij) E[X_j] + cov(X_i, X_j) E[Y_ij]`` with ``cov(a_i, Y_ij) = J_i v_ij E[a_j]``
    (43) and ``cov(a_i, a_j) = J_i E[Y_ij] var a_j`` (45).
    """
    if top.bend is None:
        return []
    mu, v, j = w.mean, w.variance, top.jacobian
    left = _row(top.bend * j)
    terms = [(left, v, _row(low.mean * low.slope))]
    if low.bend is not None:
        s = low.variance
        terms.append((left, mu * mu, _row(low.bend * s)))
        terms.append((_row(j * j), mu * mu * mu, _row(2 * s * s)))
    return terms


def _row(x: Tensor) -> Tensor:
    return x.unsqueeze(1)
