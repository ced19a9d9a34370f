"""The probit of a Gaussian: ``P(sign * (z + e) > 0)`` with ``e ~ N(0, noise)``.

Exact: the probability and both derivatives.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def log_probability(sign: Tensor, mean: Tensor, variance: Tensor, noise: float = 1.0) -> Tensor:
    """``log Phi(sign * mean / sqrt(noise + variance))``."""
    return torch.special.log_ndtr(sign * mean * torch.rsqrt(noise + variance))


def messages(
    sign: Tensor, mean: Tensor, variance: Tensor, noise: float = 1.0
) -> tuple[Tensor, Tensor]:
    """First and second derivative of ``log_probability`` in ``mean``; zero where sign is zero.

    With ``S = noise + variance``, ``t = sign * mean / sqrt(S)`` and ``h = phi(t) / Phi(t)`` they
    are ``sign * h / sqrt(S)`` and ``-h (h + t) / S``.
    """
    scale = torch.rsqrt(noise + variance)
    t = sign * mean * scale
    h = torch.exp(-0.5 * t * t - 0.5 * math.log(2 * math.pi) - torch.special.log_ndtr(t))
    # h (h + t) lies between 0 and 1; far in the tail rounding may leave that interval.
    curvature = (h * (h + t)).clamp(0, 1) * scale * scale
    return sign * h * scale, -curvature * sign * sign
