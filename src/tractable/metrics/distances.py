"""Distances between two samples, and what class probabilities say of generated images.

A sample is rows of numbers.  Columns are taken as they are: standardise them first if their units
differ (``tractable.data.Standardizer``), because a distance adds them up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tractable.metrics.transport import are_probabilities, probabilities, wasserstein

_AT_ONCE = 1 << 22  # distances held in memory


def rows_of(values: Any, name: str) -> Tensor:
    """A sample as ``[rows, columns]`` in double precision; a flat one is a single column.

    Raises:
        ValueError: it is empty, or has numbers that are not finite.
    """
    rows = torch.as_tensor(values, dtype=torch.float64).detach()
    rows = rows.reshape(-1, 1) if rows.ndim < 2 else rows.flatten(1)
    if not rows.numel():
        raise ValueError(f"{name} has no rows: a distance needs at least one on either side")
    if not bool(rows.isfinite().all()):
        bad = int(torch.nonzero(~rows.isfinite())[0, 0])
        raise ValueError(f"{name} has NaN or infinite numbers, the first in row {bad}")
    return rows


def pair_of(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Two samples of the same number of columns."""
    first, second = rows_of(a, "a"), rows_of(b, "b")
    if first.shape[1] != second.shape[1]:
        raise ValueError(
            f"the samples must have the same columns: a has {first.shape[1]}, b {second.shape[1]}"
        )
    return first, second.to(first.device)


def energy_distance(a: Any, b: Any, *, unbiased: bool = False) -> float:
    """``2 E|x - y| - E|x - x'| - E|y - y'|``: zero only for equal distributions.

    The distance of Székely & Rizzo, "Energy statistics" (2013), eq. 5, with Euclidean norms.

    Args:
        a: rows of the first sample.
        b: rows of the second.
        unbiased: leave the pairs of a row with itself out: right on average, and then below zero
            half the time where the distributions are equal.  By default they are kept: never
            negative, and the energy distance of the two samples themselves.

    >>> energy_distance([0.0], [3.0])
    6.0
    """
    x, y = pair_of(a, b)
    across = _mean(x, y, _length, apart=False)
    return 2 * across - _mean(x, x, _length, unbiased) - _mean(y, y, _length, unbiased)


def mmd(a: Any, b: Any, *, bandwidth: float | None = None, unbiased: bool = True) -> float:
    """Squared maximum mean discrepancy with the kernel ``exp(-|x - y|^2 / 2 h^2)``.

    Gretton et al., "A kernel two-sample test" (2012), eq. 3 (``unbiased``) and eq. 5.

    Args:
        a: rows of the first sample.
        b: rows of the second.
        bandwidth: ``h``; by default the median distance between rows of the joint sample (of at
            most 1,000 of them, evenly spaced).
        unbiased: leave the pairs of a row with itself out.
    """
    x, y = pair_of(a, b)
    h = median_distance(torch.cat([x, y])) if bandwidth is None else bandwidth
    if not h > 0:
        raise ValueError(f"bandwidth must be positive, got {h}: are all rows equal?")

    def kernel(p: Tensor, q: Tensor) -> Tensor:
        return torch.exp(-0.5 * (_length(p, q) / h) ** 2)

    within = _mean(x, x, kernel, unbiased) + _mean(y, y, kernel, unbiased)
    return within - 2 * _mean(x, y, kernel, apart=False)


def median_distance(rows: Tensor, most: int = 1_000) -> float:
    """Median Euclidean distance between different rows."""
    at = torch.linspace(0, len(rows) - 1, min(len(rows), most)).long()
    return float(torch.pdist(rows[at]).median()) if len(at) > 1 else 0.0


def sliced_wasserstein(
    a: Any, b: Any, *, slices: int = 200, p: int = 1, generator: torch.Generator | None = None
) -> float:
    """Wasserstein distance of one-dimensional views, averaged over random directions.

    Bonneel et al., "Sliced and Radon Wasserstein barycenters of measures" (2015), by Monte Carlo:
    ``(mean over directions of W_p^p)^(1/p)``.

    Args:
        a: rows of the first sample.
        b: rows of the second.
        slices: number of directions.
        p: power of the distance.
        generator: source of the directions; by default the same ones at every call.
    """
    x, y = pair_of(a, b)
    if slices < 1:
        raise ValueError(f"slices must be at least 1, got {slices}")
    drawn = torch.Generator().manual_seed(0) if generator is None else generator
    direction = torch.randn(slices, x.shape[1], generator=drawn, dtype=torch.float64)
    direction = (direction / direction.norm(dim=1, keepdim=True)).to(x.device)
    seen = zip((x @ direction.T).unbind(1), (y @ direction.T).unbind(1), strict=True)
    total = sum(wasserstein(u, v, p=p) ** p for u, v in seen)
    return float((total / slices) ** (1 / p))


def js_divergence(p: Any, q: Any) -> float:
    """Jensen–Shannon divergence of two discrete distributions, in nats (UDL E 15.9).

    The best discriminator's loss ``L`` (E 15.8, the sum of its two parts) gives it back:
    ``JS = log 2 - L / 2``.

    >>> round(js_divergence([0.1, 0.4, 0.5], [0.3, 0.3, 0.4]), 9)
    0.032529606
    """
    first, second = probabilities(p, "p"), probabilities(q, "q")
    if first.shape != second.shape:
        raise ValueError(
            f"p has {first.numel()} outcomes, q {second.numel()}: they must be the same"
        )
    middle = (first + second) / 2
    parts = [torch.special.xlogy(d, d) - torch.special.xlogy(d, middle) for d in (first, second)]
    return float((parts[0] + parts[1]).sum() / 2)


def inception_score(probs: Any) -> float:
    """``exp(E KL(p(c|x) || p(c)))`` of class probabilities of generated rows (UDL E 14.2–14.3).

    One where all rows look the same to the classifier, the number of classes where each row is
    surely of one class and all classes come equally often.

    Args:
        probs: ``[rows, classes]``.
    """
    rows = torch.as_tensor(probs, dtype=torch.float64).detach()
    if rows.ndim != 2 or not len(rows):
        raise ValueError(f"probs must be [rows, classes], got shape {tuple(rows.shape)}")
    bad = ~are_probabilities(rows)
    if bool(bad.any()):
        row = int(bad.nonzero()[0])
        raise ValueError(
            f"row {row} of probs must be probabilities that sum to one, got {rows[row].tolist()}"
        )
    overall = rows.mean(0)
    kl = (torch.special.xlogy(rows, rows) - torch.special.xlogy(rows, overall)).sum(1)
    return float(kl.mean().exp())


def _length(x: Tensor, y: Tensor) -> Tensor:
    # Without the matrix product, which loses the digits of small distances.
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")


def _mean(
    x: Tensor, y: Tensor, of: Callable[[Tensor, Tensor], Tensor], apart: bool = False
) -> float:
    """Mean of a function of all pairs, a block at a time; ``apart`` leaves out equal places."""
    block = max(_AT_ONCE // len(y), 1)
    total = sum(float(of(part, y).sum()) for part in x.split(block))
    if not apart:
        return total / (len(x) * len(y))
    if len(x) < 2:
        raise ValueError("without bias a sample needs at least two rows")
    itself = len(x) * float(of(x[:1], x[:1]))
    return (total - itself) / (len(x) * (len(x) - 1))
