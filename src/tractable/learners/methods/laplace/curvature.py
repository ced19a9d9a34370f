"""The curvature of a log-likelihood around some weights, and the Gaussian that a prior makes of it.

The network is linearized at the weights w*, ``f(x) + J(x) (w - w*)``.  Then the curvature H, the
generalized Gauss-Newton matrix, is the sum of ``J' L J`` over the rows, where L is the second
derivative of ``-log p(y|f)`` in f.  With a Normal prior of precision delta, the posterior is a
Gaussian of precision ``H + delta``.  Quantities that depend on delta follow from the eigenvalues h
of H.

Source: MacKay, "A practical Bayesian framework for backpropagation networks" (1992); Ritter, Botev
& Barber, "A scalable Laplace approximation for neural networks" (2018); Immer, Korzepa & Bauer,
"Improving predictions of Bayesian neural nets via local linearization" (2021); Daxberger et al.,
"Laplace redux: effortless Bayesian deep learning" (2021).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from tractable.errors import NonFiniteGradient
from tractable.likelihoods import Likelihood
from tractable.training.data import ArrayData
from tractable.training.inputs import Inputs

BOUNDS = (1e-6, 1e8)
"""Bounds of a prior precision that is optimized."""
_STEPS = 100


class CurvatureMatrix:
    """A positive semi-definite matrix, stored in full or as its diagonal.

    Args:
        matrix: ``[n]`` or ``[n, n]``, in double precision.

    >>> half = CurvatureMatrix(torch.tensor([3.0, 0.0])).root(1.0)
    >>> half * half
    tensor([0.2500, 1.0000])
    """

    def __init__(self, matrix: Tensor) -> None:
        self.matrix, self.full = matrix, matrix.ndim == 2

    @cached_property
    def spectrum(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues (negative rounding errors set to zero), and eigenvectors of a full matrix."""
        values, axes = torch.linalg.eigh(self.matrix) if self.full else (self.matrix, self.matrix)
        return values.clamp_min(0), axes

    def __add__(self, other: CurvatureMatrix) -> CurvatureMatrix:
        """Return the curvature of the rows of both."""
        return CurvatureMatrix(self.matrix + other.matrix)

    def __matmul__(self, vector: Tensor) -> Tensor:
        """Return the product with a vector."""
        return self.matrix @ vector if self.full else self.matrix * vector

    def root(self, delta: float) -> Tensor:
        """Return R with ``R R'`` the covariance; standard deviations for a diagonal."""
        h, axes = self.spectrum
        scale = (h + delta).rsqrt()
        return axes * scale if self.full else scale

    def variances(self, delta: float) -> Tensor:
        """Return the variance of each weight."""
        squares = self.root(delta).square()
        return squares.sum(1) if self.full else squares

    def spread(self, jacobian: Tensor, delta: float) -> Tensor:
        """Return ``J R``, whose squares sum to the variances of the outputs."""
        root = self.root(delta).to(jacobian.dtype)
        return jacobian @ root if self.full else jacobian * root

    def masked(self, kept: Tensor) -> CurvatureMatrix:
        """Return the curvature of some weights, given the others."""
        kept = kept.to(self.matrix.dtype)
        return CurvatureMatrix(self.matrix * (kept.outer(kept) if self.full else kept))

    def solve(self, vector: Tensor, delta: float) -> Tensor:
        """Return the covariance times a vector."""
        h, axes = self.spectrum
        if not self.full:
            return vector / (h + delta)
        return axes @ ((axes.T @ vector) / (h + delta))

    def log_occam(self, weights: Tensor, delta: float) -> float:
        """Return the log Occam factor: log prior density of the weights plus log posterior
        volume.
        """
        squares = delta * float(weights.square().sum())
        volume = float((self.spectrum[0] + delta).log().sum())
        return 0.5 * (len(weights) * math.log(delta) - squares - volume)

    def best_delta(self, weights: Tensor, slope: Tensor | None = None) -> float:
        """Return the prior precision of maximal evidence: ``delta |w|^2 = sum of h / (h + delta)``.

        The equation is iterated with half a step in logarithms at a time, to avoid oscillation.

        Args:
            weights: the weights w at which the curvature was computed.
            slope: gradient of the negative log-likelihood at w, for the evidence at the mode for
                each delta. None: the evidence at w.

        Source: MacKay, "Bayesian interpolation" (1992), section 4.
        """
        h, axes = self.spectrum
        target = None if slope is None else self @ weights - slope
        if target is not None and self.full:
            target = axes.T @ target
        delta = h.new_ones(())
        for _ in range(_STEPS):
            w = weights if target is None else target / (h + delta)
            best = (h / (h + delta)).sum() / w.square().sum().clamp_min(1e-30)
            delta = (delta * best).sqrt().clamp(*BOUNDS)
        return float(delta)


class CurvatureStatistics(NamedTuple):
    """Curvature, gradient and log-likelihood of some rows."""

    curvature: CurvatureMatrix
    slope: Tensor
    """Gradient of the negative log-likelihood."""
    log_likelihood: float


def gauss_newton(
    linearized: Callable[[Inputs], tuple[Tensor, Tensor]],
    likelihood: Likelihood,
    pairs: Iterable[tuple[Inputs, Tensor]],
    like: Tensor,
    rows_at_once: Callable[[Inputs], int],
) -> CurvatureStatistics:
    """Return the generalized Gauss-Newton curvature of rows: the sum of ``J' L J``.

    Args:
        linearized: outputs of some rows, and their derivative J in the weights.
        likelihood: L is the second derivative of its ``-log p(y|z)`` in the outputs.
        pairs: batches of rows.
        like: a matrix or diagonal of the requested shape.
        rows_at_once: number of rows of a batch of inputs that fit in memory.

    Exact: except for rows at which the likelihood is not log-concave (``Likelihood.curvature``).
    """
    matrix, slope, total = torch.zeros_like(like), like.new_zeros(len(like)), 0.0
    batches = (ArrayData(x, y, rows_at_once(x)).epoch(None) for x, y in pairs)
    for x, y in chain.from_iterable(batches):
        z, jacobian = linearized(x)
        first, second = likelihood.curvature(y, z)
        left, right = jacobian.flatten(0, 1), (second @ jacobian).flatten(0, 1)
        matrix += left.T @ right if like.ndim == 2 else (left * right).sum(0)
        slope -= first.flatten() @ left
        total += float(likelihood.log_prob(y, z).sum(dtype=torch.float64))
    if not math.isfinite(total + float(matrix.sum()) + float(slope.sum())):
        raise NonFiniteGradient("the curvature is not finite: inputs or targets are too large")
    return CurvatureStatistics(CurvatureMatrix(matrix), slope, total)
