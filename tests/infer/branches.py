"""Appendix B.3 as written: scalars, branch by branch, equations in their order.

Misprints are corrected as in the docstring of ``tractable.moments.input_derivative``.  All layers
are tanh or sigmoid, the input and the output too, as in the paper's four-layer example.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Node:
    """A hidden state Z with its activation, locally linearized (10)."""

    mean: float
    variance: float
    kind: str

    @property
    def a(self) -> float:
        return math.tanh(self.mean) if self.kind == "tanh" else 1 / (1 + math.exp(-self.mean))

    @property
    def j(self) -> float:
        return 1 - self.a**2 if self.kind == "tanh" else self.a * (1 - self.a)

    @property
    def var_a(self) -> float:
        return self.j**2 * self.variance

    @property
    def slope(self) -> float:  # (40)
        square = self.a**2 + self.var_a
        return 1 - square if self.kind == "tanh" else self.a - square

    @property
    def var_slope(self) -> float:  # (41); for the sigmoid var(a - a^2) by (12) and (14)
        var_square = 2 * self.var_a * (self.var_a + 2 * self.a**2)
        if self.kind == "tanh":
            return var_square
        return self.var_a + var_square - 2 * (2 * self.a * self.var_a)


@dataclass(frozen=True)
class Weight:
    mean: float
    variance: float


def cov_square_or_slope(top: Node, covariance_with_a: float) -> float:
    """cov(phi', U) from cov(a, U) by (12): (42), (46), (47)."""
    minus_square = -2 * covariance_with_a * top.a
    return minus_square if top.kind == "tanh" else covariance_with_a + minus_square


def cov_slope_weight(top: Node, w: Weight, low: Node) -> float:  # (43)
    return cov_square_or_slope(top, top.j * w.variance * low.a)


def cov_slope_slope(top: Node, w: Weight, low: Node) -> float:  # (44), (45)
    c = top.j * low.var_a * w.mean
    total = 2 * c**2 + 4 * c * top.a * low.a
    if top.kind == "sigmoid":  # cov(a, -a~^2)
        total -= 2 * c * low.a
    if low.kind == "sigmoid":  # cov(-a^2, a~)
        total -= 2 * c * top.a
    if top.kind == low.kind == "sigmoid":
        total += c
    return total


def cov_slope_state(top: Node, w: Weight, low: Node) -> float:  # (46)
    return cov_square_or_slope(top, top.j * low.j * low.variance * w.mean)


def var_product(m1: float, v1: float, m2: float, v2: float, c: float) -> float:  # (14)
    return v1 * v2 + c**2 + 2 * c * m1 * m2 + v1 * m2**2 + v2 * m1**2


def branch(
    z3: Node, w2: Weight, z2: Node, w1: Weight, z1: Node, w0: Weight, z0: Node
) -> tuple[float, float, float]:
    """Return mean, variance (30) and covariance with Z0 (31) of one branch of dA3/dZ0."""
    # dA3/dZ2
    wx2 = w2.mean * z2.slope  # (17)
    var_wx2 = var_product(w2.mean, w2.variance, z2.slope, z2.var_slope, 0)  # (20)
    cov = cov_slope_weight(z3, w2, z2) * z2.slope + cov_slope_slope(z3, w2, z2) * w2.mean  # (18)
    d2 = z3.slope * wx2 + cov  # (16)
    var_d2 = var_product(z3.slope, z3.var_slope, wx2, var_wx2, cov)  # (19)
    # dA3/dZ1
    wx1 = w1.mean * z1.slope  # (23)
    var_wx1 = var_product(w1.mean, w1.variance, z1.slope, z1.var_slope, 0)
    near = cov_slope_weight(z2, w1, z1) * z1.slope + cov_slope_slope(z2, w1, z1) * w1.mean
    cov = near * w2.mean * z3.slope  # (24)
    d1 = d2 * wx1 + cov  # (22)
    var_d1 = var_product(d2, var_d2, wx1, var_wx1, cov)  # (25)
    # dA3/dZ0
    wx0 = w0.mean * z0.slope  # (28)
    var_wx0 = var_product(w0.mean, w0.variance, z0.slope, z0.var_slope, 0)
    near = cov_slope_weight(z1, w0, z0) * z0.slope + cov_slope_slope(z1, w0, z0) * w0.mean
    cov = near * w1.mean * d2  # (29)
    d0 = d1 * wx0 + cov  # (27)
    var_d0 = var_product(d1, var_d1, wx0, var_wx0, cov)  # (30)
    own = cov_square_or_slope(z0, z0.j * z0.variance) * w0.mean  # (33), (47)
    far = cov_slope_state(z1, w0, z0) * w1.mean * d2  # (32)
    return d0, var_d0, far * wx0 + own * d1  # (31)


def four_layers(
    x: list[tuple[float, float]],
    weights: list[list[list[tuple[float, float]]]],
    biases: list[list[tuple[float, float]]],
    kinds: list[str],
) -> dict[tuple[int, int], tuple[float, float, float]]:
    """Return moments of dA3_k/dZ0_j: branches computed one by one and added."""
    layers = [[Node(m, v, kinds[0]) for m, v in x]]
    for w, b, kind in zip(weights, biases, kinds[1:], strict=True):
        below, states = layers[-1], []
        for row, (mean, variance) in zip(w, b, strict=True):
            for (m, v), node in zip(row, below, strict=True):
                mean += m * node.a
                variance += var_product(m, v, node.a, node.var_a, 0)
            states.append(Node(mean, variance, kind))
        layers.append(states)
    z0s, z1s, z2s, z3s = layers
    totals = {}
    for k, j in itertools.product(range(len(z3s)), range(len(z0s))):
        found = [
            branch(
                z3s[k], Weight(*weights[2][k][b]), z2s[b], Weight(*weights[1][b][a]), z1s[a],
                Weight(*weights[0][a][j]), z0s[j],
            )
            for a, b in itertools.product(range(len(z1s)), range(len(z2s)))
        ]  # fmt: skip
        totals[k, j] = tuple(sum(part) for part in zip(*found, strict=True))
    return totals
