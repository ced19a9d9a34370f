"""The probit of a Gaussian: ``P(sign * (z + e) > 0)`` with ``e ~ N(0, 1)``.

Exact: the probability and both derivatives.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def log_probability(sign: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """``log Phi(sign * mean / sqrt(1 + variance))``."""
    return torch.special.log_ndtr(sign * mean * torch.rsqrt(1 + variance))


def messages(sign: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """First and second derivative of ``log_probability`` in ``mean``; zero where sign is zero.

    With ``t = sign * mean / sqrt(1 + variance)`` and ``h = phi(t) / Phi(t)`` they are
    ``sign * h / sqrt(1 + variance)`` and ``-h (h + t) / (1 + variance)``.
    """
    scale = torch.rsqrt(1 + variance)
    t = sign * mean * scale
    h = torch.exp(-0.5 * t * t - 0.5 * math.log(2 * math.pi) - torch.special.log_ndtr(t))
    # h (h + t) lies between 0 and 1; far in the tail rounding may leave that interval.
    curvature = (h * (h + t)).clamp(0, 1) * scale * scale
    return sign * h * scale, -curvature * sign * sign
