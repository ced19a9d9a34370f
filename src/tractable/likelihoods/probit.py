"""The probit function of a Gaussian: ``P(sign * (z + e) > 0)`` with ``e ~ N(0, noise)``.

Exact: the probability and both derivatives; the expected entropy to twelve digits.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

_FAR = -1e4
"""Below, ``h (h + t)`` is one to eight digits."""
_NODES, _WEIGHTS = np.polynomial.hermite.hermgauss(20)


def log_probability(sign: Tensor, mean: Tensor, variance: Tensor, noise: float = 1.0) -> Tensor:
    """Return ``log Phi(sign * mean / sqrt(noise + variance))``."""
    return torch.special.log_ndtr(sign * mean * torch.rsqrt(noise + variance))


def messages(
    sign: Tensor, mean: Tensor, variance: Tensor, noise: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Return two derivatives of ``log_probability`` in ``mean``; zero where sign is zero.

    With ``S = noise + variance``, ``t = sign * mean / sqrt(S)`` and ``h = phi(t) / Phi(t)`` they
    are ``sign * h / sqrt(S)`` and ``-h (h + t) / S``.
    """
    scale = torch.rsqrt(noise + variance)
    # In double precision: h (h + t) cancels in the tail, by t^2 times the rounding.
    t = (sign * mean * scale).double()
    h = hazard(t)
    curvature = torch.where(t < _FAR, 1.0, h * (h + t)).to(mean.dtype) * scale * scale
    return sign * h.to(mean.dtype) * scale, -curvature * sign * sign


def hazard(t: Tensor) -> Tensor:
    """Return ``phi(t) / Phi(t) = sqrt(2 / pi) / erfcx(-t / sqrt 2)``, without overflow."""
    return math.sqrt(2 / math.pi) / torch.special.erfcx(t * -math.sqrt(0.5))


def log_entropy(t: Tensor) -> Tensor:
    """Return the log of the entropy of a Bernoulli(``Phi(t)``), accurate in the tails."""
    yes, no = torch.special.log_ndtr(t), torch.special.log_ndtr(-t)
    return torch.logaddexp(yes + (-yes).log(), no + (-no).log())


def log_expected_entropy(mean: Tensor, variance: Tensor, noise: float = 1.0) -> Tensor:
    """Return ``log E[h(Phi(z / sqrt(noise)))]`` for ``z ~ N(mean, variance)``, in float64.

    The entropy decays like the Gaussian ``exp(-z^2 / (2 noise))``.  The product of that with
    ``N(z; mean, variance)`` is a Gaussian, and the remaining factor is smooth: a few Gauss-Hermite
    nodes suffice for any variance.
    """
    mean, variance = mean.double(), variance.double()
    total = variance + noise
    center, std = mean * noise / total, (variance * noise / total).sqrt()
    log_scale = 0.5 * ((noise / total).log() - mean * mean / total)
    points, weights = (_NODES, _WEIGHTS) if bool(variance.any()) else ([0.0], [math.sqrt(math.pi)])
    log_sum = torch.full_like(mean, -math.inf)
    for point, weight in zip(points, weights, strict=True):  # one at a time, for memory
        z = center + std * (math.sqrt(2) * point)
        term = log_entropy(z / math.sqrt(noise)) + z * z / (2 * noise)
        log_sum = torch.logaddexp(log_sum, term + math.log(weight / math.sqrt(math.pi)))
    return log_sum + log_scale


def expected_entropy(mean: Tensor, variance: Tensor, noise: float = 1.0) -> Tensor:
    """Return the mean over ``z ~ N(mean, variance)`` of the entropy of a decision, in nats."""
    return log_expected_entropy(mean, variance, noise).exp().to(mean.dtype)
