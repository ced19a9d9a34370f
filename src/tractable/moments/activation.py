"""Moments of an elementwise function of a Gaussian.

There are two modes:

* *linear* (eq. 10, the default except for sine and cosine): ``a = phi(mu) + J (z - mu)`` with
  ``J = phi'(mu)``, so the mean is ``phi(mu)`` and the variance ``J^2 var``.
  Exact: for linear functions.  Approximate: the curvature of ``phi`` within the width of z.
* *exact*: mean and variance of ``phi(z)`` by integration, and ``J = cov(a, z) / var``.
  Exact: both moments and the covariance.  Approximate: a is then treated as Gaussian.

The messages of both are ``J d_mu`` and ``J^2 d_var``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Linearized = Callable[..., tuple[Tensor, Tensor]]
"""``mu -> (phi(mu), phi'(mu))``"""
Exact = Callable[..., tuple[Tensor, Tensor, Tensor]]
"""``mu, var -> (E[phi(z)], var phi(z), cov(phi(z), z) / var)``"""


# --- value and slope at the mean -------------------------------------------------------------


def relu(mu: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``max(0, mu)`` and its slope, 1 where ``mu > 0`` and else 0 (eq. 48), as booleans."""
    return mu.clamp_min(0), mu > 0


def leaky_relu(mu: Tensor, negative_slope: float = 0.01) -> tuple[Tensor, Tensor]:
    """Return ``mu`` above zero and ``negative_slope * mu`` below, and the slope."""
    slope = torch.where(mu > 0, torch.ones_like(mu), negative_slope)
    return mu * slope, slope


def tanh(mu: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``tanh(mu)`` and its slope ``1 - tanh^2`` (eq. 39)."""
    a = mu.tanh()
    return a, 1 - a * a


def sigmoid(mu: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``s = sigmoid(mu)`` and its slope ``s (1 - s)``."""
    a = mu.sigmoid()
    return a, a * (1 - a)


def softplus(mu: Tensor, beta: float = 1.0, threshold: float = 20.0) -> tuple[Tensor, Tensor]:
    """Return ``log(1 + exp(beta mu)) / beta`` and its slope ``sigmoid(beta mu)``."""
    return F.softplus(mu, beta, threshold), torch.sigmoid(beta * mu)


def gelu(mu: Tensor, approximate: str = "none") -> tuple[Tensor, Tensor]:
    """Return ``mu Phi(mu)``, or its tanh approximation, and the slope."""
    if approximate == "tanh":
        c, k = math.sqrt(2 / math.pi), 0.044715
        m = mu.clamp(-20, 20)  # the slope is 0 or 1 beyond, and m**3 does not overflow
        t = torch.tanh(c * (m + k * m**3))
        inner = c * (1 + 3 * k * m * m)
        return F.gelu(mu, approximate="tanh"), 0.5 * (1 + t) + 0.5 * m * (1 - t * t) * inner
    return F.gelu(mu), _cdf(mu) + mu * _density(mu)


def silu(mu: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``mu * sigmoid(mu)`` and its slope."""
    s = mu.sigmoid()
    return mu * s, s * (1 + mu * (1 - s))


def elu(mu: Tensor, alpha: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return ``mu`` above zero and ``alpha (exp(mu) - 1)`` below, and the slope."""
    return F.elu(mu, alpha), torch.where(mu > 0, torch.ones_like(mu), alpha * mu.exp())


def exp(mu: Tensor) -> tuple[Tensor, Tensor]:
    """Return the exponential, which is its own slope."""
    a = mu.exp()
    return a, a


def log(mu: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logarithm and its slope ``1 / mu``."""
    return mu.log(), 1 / mu


def sqrt(mu: Tensor) -> tuple[Tensor, Tensor]:
    """Return the square root and its slope, half the reciprocal of the root."""
    a = mu.sqrt()
    return a, 0.5 / a


def reciprocal(mu: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``1 / mu`` and its slope ``-1 / mu^2``."""
    a = 1 / mu
    return a, -a * a


def sin(mu: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sine and its slope, the cosine."""
    return mu.sin(), mu.cos()


def cos(mu: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cosine and its slope, minus the sine."""
    return mu.cos(), -mu.sin()


def absolute(mu: Tensor) -> tuple[Tensor, Tensor]:
    """Return the absolute value and its slope, the sign."""
    return mu.abs(), mu.sign()


# --- moments by integration ------------------------------------------------------------------


def exact_relu(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the moments of the rectified Gaussian; ``J`` is the probability that z is positive."""
    sigma, alpha, p, q, f = _tails(mu, var)
    ratio = p + alpha * alpha * p * q + alpha * f * (q - p) - f * f
    return mu * p + sigma * f, var * ratio.clamp_min(0), p


def exact_leaky_relu(
    mu: Tensor, var: Tensor, negative_slope: float = 0.01
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the moments of ``k z + (1 - k) relu(z)``; ``cov(z, relu(z)) = var * P(z > 0)``."""
    k = negative_slope
    mean, positive, p = exact_relu(mu, var)
    variance = k * k * var + (1 - k) ** 2 * positive + 2 * k * (1 - k) * var * p
    return k * mu + (1 - k) * mean, variance, k + (1 - k) * p


def exact_absolute(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the moments of the folded Gaussian."""
    sigma, alpha, p, q, f = _tails(mu, var)
    j = p - q
    ratio = 1 + 4 * (alpha * alpha * p * q - alpha * j * f - f * f)
    return mu * j + 2 * sigma * f, var * ratio.clamp_min(0), j


def exact_exp(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the moments of the log-normal distribution.

    The factors of the variance do not overflow where their product does not.
    """
    mean = torch.exp(mu + 0.5 * var)
    variance = -torch.expm1(-var) * torch.exp(2 * (mu + var))
    return mean, torch.where(var > 0, variance, torch.zeros_like(variance)), mean


def exact_sin(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the moments of the sine, from the characteristic function of the Gaussian."""
    damp = torch.exp(-0.5 * var)
    return mu.sin() * damp, _oscillating(mu.cos() * damp, var), mu.cos() * damp


def exact_cos(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the moments of the cosine, from the characteristic function of the Gaussian."""
    damp = torch.exp(-0.5 * var)
    return mu.cos() * damp, _oscillating(mu.sin() * damp, var), -mu.sin() * damp


def _oscillating(slope: Tensor, var: Tensor) -> Tensor:
    """Return the variance of a sine or cosine, as a sum of positive terms.

    ``slope`` is the mean slope ``E[phi'(z)]``.
    """
    lost = -torch.expm1(-var)
    return 0.5 * lost * (lost + 2 * slope * slope)


def bounded_sigmoid(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return bounded moments of the sigmoid in closed form; see ``_bounded``.

    Approximate: the error of the mean is at most 0.018, and 0.005 for ``|mu| <= 3``, where the
    variance is 0.9 to 1.3 times the true one; for larger ``|mu|`` the ratio is unbounded, but the
    difference stays below 0.042.
    """
    k = torch.rsqrt(1 + math.pi / 8 * var)
    mean = torch.sigmoid(k * mu)
    return _bounded(mean, mean * (1 - mean), k, var)


def bounded_tanh(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return bounded moments of the hyperbolic tangent, ``2 sigmoid(2 z) - 1``, in closed form.

    Approximate: the error of the mean is at most 0.036, and 0.01 for ``|mu| <= 1.5``, where the
    variance is 0.9 to 1.3 times the true one; for larger ``|mu|`` the ratio is unbounded, but the
    difference stays below 0.17.
    """
    k = torch.rsqrt(1 + math.pi / 2 * var)
    mean = torch.tanh(k * mu)
    return _bounded(mean, 1 - mean * mean, k, var)


def _bounded(mean: Tensor, slope: Tensor, k: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean of the probit approximation (MacKay, 1992), a bounded variance, and ``J``.

    The variance is ``s^2 v / (1 + s v)`` with ``s`` the slope at the shrunk mean; ``J = k s``, so
    that ``J^2 v`` is at most the variance.
    """
    return mean, slope * slope * var / (1 + slope * var), k * slope


def square(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the moments of ``z^2`` by eqs. (11) and (14) with ``cov = var``, which are exact."""
    return mu * mu + var, 2 * var * var + 4 * (var * mu) * mu, 2 * mu


def _tails(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return ``sigma``, ``alpha = mu / sigma``, ``P(z > 0)``, ``P(z < 0)`` and the density at
    alpha.

    Moments are computed from these rather than as ``E[a^2] - E[a]^2``, which loses all digits of
    the variance if the mean is large.  Beyond 40 the tails are zero in any precision.
    """
    sigma = var.sqrt()
    alpha = (mu / sigma.clamp_min(torch.finfo(var.dtype).tiny)).clamp(-40, 40)
    return sigma, alpha, _cdf(alpha), _cdf(-alpha), _density(alpha)


def _cdf(x: Tensor) -> Tensor:
    """Return the standard normal CDF; ``torch.special.ndtr`` has no correct digit below -8."""
    return 0.5 * torch.erfc(x * -math.sqrt(0.5))


def _density(x: Tensor) -> Tensor:
    return torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
