"""Integrals over Gaussian outputs that use only ``log_prob`` of a likelihood.

They are the reference for what a likelihood computes, so ``tractable.likelihoods.quadrature`` is
not used here.  With one or two outputs the nodes form an even
grid; with more they are quasi-random points, in blocks whose spread gives the error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

LogDensityFunction = Callable[[Tensor, Tensor], Tensor]

_REACH = {1: 20.0, 2: 12.0}
"""Standard deviations on both sides of the mean; some tests have extreme observations."""
_NODES = {1: 5001, 2: 171}
"""Nodes of the grid along each output, by the number of outputs."""
_BLOCKS, _POINTS = 8, 2048
_SMALL = {1: (9.0, 401), 2: (7.0, 57)}
"""Reach and nodes of a smaller grid, for smooth functions."""
_MAX_ROWS = 60_000
"""Rows of outputs that ``log_prob`` gets in one call."""


@dataclass(frozen=True)
class Estimate:
    """An integral and its standard error, which is zero where nodes form a grid."""

    value: Tensor
    error: Tensor


@dataclass(frozen=True)
class Reference:
    """Evidence and posterior moments of Gaussian outputs, given one observation per row.

    Attributes:
        log_evidence: log of the integral of the likelihood, ``[rows]``.
        mean: mean of the outputs given the observation, ``[rows, outputs]``.
        variance: their variance given the observation, ``[rows, outputs]``.
    """

    log_evidence: Estimate
    mean: Estimate
    variance: Estimate


@cache
def _sobol(width: int) -> Tensor:
    """Return standard normal points ``[blocks, points, width]``."""
    found = []
    for seed in range(_BLOCKS):
        engine = torch.quasirandom.SobolEngine(width, scramble=True, seed=seed)
        shares = engine.draw(_POINTS, dtype=torch.float64).clamp(1e-12, 1 - 1e-12)
        found.append(torch.special.ndtri(shares))
    return torch.stack(found)


def _grid(width: int, reach: float, number: int) -> tuple[Tensor, Tensor]:
    line = torch.linspace(-reach, reach, number, dtype=torch.float64)
    grid = line.unsqueeze(1) if width == 1 else torch.cartesian_prod(line, line)
    return grid.unsqueeze(0), (-0.5 * grid.square().sum(1)).log_softmax(0)


@cache
def dense_nodes(width: int) -> tuple[Tensor, Tensor]:
    """Return standardized nodes ``[blocks, nodes, width]`` and their log weights ``[nodes]``."""
    if width > 2:
        return _sobol(width), torch.full((_POINTS,), 1 / _POINTS, dtype=torch.float64).log()
    return _grid(width, _REACH[width], _NODES[width])


@cache
def smooth_nodes(width: int) -> tuple[Tensor, Tensor]:
    """Return fewer nodes than ``dense_nodes``, in the same shapes."""
    return dense_nodes(width) if width > 2 else _grid(width, *_SMALL[width])


def reference(log_prob: LogDensityFunction, y: Tensor, mean: Tensor, variance: Tensor) -> Reference:
    """Integrate ``exp(log_prob(y, z))`` over ``z ~ N(mean, variance)``, row by row.

    Args:
        log_prob: log density of each row's target given the outputs ``[rows, outputs]``.
        y: targets.
        mean: mean of the outputs, ``[rows, outputs]``, in double precision.
        variance: variance of the outputs.
    """
    e, log_weight = dense_nodes(mean.shape[1])
    flat = e.reshape(-1, 1, mean.shape[1])
    found = []
    for chunk in flat.split(max(_MAX_ROWS // len(mean), 1)):
        z = (mean + variance.sqrt() * chunk).reshape(-1, mean.shape[1])
        found.append(log_prob(y.repeat(len(chunk), *[1] * (y.ndim - 1)), z).reshape(len(chunk), -1))
    terms = torch.cat(found).reshape(*e.shape[:2], -1) + log_weight.unsqueeze(-1)
    share = terms.softmax(1)  # blocks, nodes, rows
    middle = torch.einsum("bnr,bnw->brw", share, e)
    square = torch.einsum("bnr,bnw->brw", share, e.square())
    left = square - middle.square()
    return Reference(
        _estimate(terms.logsumexp(1)),
        _estimate(mean + variance.sqrt() * middle),
        _estimate(variance * left),
    )


def _estimate(blocks: Tensor) -> Estimate:
    value = blocks.mean(0)
    if len(blocks) == 1:
        return Estimate(value, torch.zeros_like(value))
    return Estimate(value, blocks.std(0) / len(blocks) ** 0.5)


def average(values: Tensor, width: int) -> Estimate:
    """Average values at ``smooth_nodes`` over the outputs.

    Args:
        values: ``[blocks, nodes, ...]``.
        width: number of outputs.
    """
    weight = smooth_nodes(width)[1].exp()
    return _estimate(torch.einsum("n,bn...->b...", weight, values.double()))
