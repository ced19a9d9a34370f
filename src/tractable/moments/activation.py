"""Moments of an elementwise function of a Gaussian.

Two ways, chosen by the user:

* *linear* (eq. 10, the default but for sine and cosine): ``a = phi(mu) + J (z - mu)`` with
  ``J = phi'(mu)``, so the mean is ``phi(mu)`` and the variance ``J^2 var``.
  Exact: for linear functions.  Approximate: the curvature of ``phi`` over the width of z.
* *exact*: mean and variance of ``phi(z)`` by integration, and ``J = cov(a, z) / var``.
  Exact: both moments and the covariance.  Approximate: a is then treated as Gaussian.

Messages through either are ``J d_mu`` and ``J^2 d_var``.
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
    """``max(0, mu)``; the slope is 1 where ``mu > 0``, else 0 (eq. 48), kept as booleans."""
    return mu.clamp_min(0), mu > 0


def leaky_relu(mu: Tensor, negative_slope: float = 0.01) -> tuple[Tensor, Tensor]:
    """``mu`` above zero, ``negative_slope * mu`` below."""
    slope = torch.where(mu > 0, torch.ones_like(mu), negative_slope)
    return mu * slope, slope


def tanh(mu: Tensor) -> tuple[Tensor, Tensor]:
    """The slope is ``1 - tanh^2`` (eq. 39)."""
    a = mu.tanh()
    return a, 1 - a * a


def sigmoid(mu: Tensor) -> tuple[Tensor, Tensor]:
    """The slope is ``s (1 - s)``."""
    a = mu.sigmoid()
    return a, a * (1 - a)


def softplus(mu: Tensor, beta: float = 1.0, threshold: float = 20.0) -> tuple[Tensor, Tensor]:
    """``log(1 + exp(beta mu)) / beta``, with slope ``sigmoid(beta mu)``."""
    return F.softplus(mu, beta, threshold), torch.sigmoid(beta * mu)


def gelu(mu: Tensor, approximate: str = "none") -> tuple[Tensor, Tensor]:
    """``mu Phi(mu)``, or its tanh form."""
    if approximate == "tanh":
        c, k = math.sqrt(2 / math.pi), 0.044715
        m = mu.clamp(-20, 20)  # the slope is 0 or 1 beyond, and m**3 does not overflow
        t = torch.tanh(c * (m + k * m**3))
        inner = c * (1 + 3 * k * m * m)
        return F.gelu(mu, approximate="tanh"), 0.5 * (1 + t) + 0.5 * m * (1 - t * t) * inner
    return F.gelu(mu), _cdf(mu) + mu * _density(mu)


def silu(mu: Tensor) -> tuple[Tensor, Tensor]:
    """``mu * sigmoid(mu)``."""
    s = mu.sigmoid()
    return mu * s, s * (1 + mu * (1 - s))


def elu(mu: Tensor, alpha: float = 1.0) -> tuple[Tensor, Tensor]:
    """``mu`` above zero, ``alpha (exp(mu) - 1)`` below."""
    return F.elu(mu, alpha), torch.where(mu > 0, torch.ones_like(mu), alpha * mu.exp())


def exp(mu: Tensor) -> tuple[Tensor, Tensor]:
    """The exponential is its own slope."""
    a = mu.exp()
    return a, a


def log(mu: Tensor) -> tuple[Tensor, Tensor]:
    """The slope is ``1 / mu``."""
    return mu.log(), 1 / mu


def sqrt(mu: Tensor) -> tuple[Tensor, Tensor]:
    """The slope is half the reciprocal of the root."""
    a = mu.sqrt()
    return a, 0.5 / a


def reciprocal(mu: Tensor) -> tuple[Tensor, Tensor]:
    """``1 / mu``, with slope ``-1 / mu^2``."""
    a = 1 / mu
    return a, -a * a


def sin(mu: Tensor) -> tuple[Tensor, Tensor]:
    """The slope is the cosine."""
    return mu.sin(), mu.cos()


def cos(mu: Tensor) -> tuple[Tensor, Tensor]:
    """The slope is minus the sine."""
    return mu.cos(), -mu.sin()


def absolute(mu: Tensor) -> tuple[Tensor, Tensor]:
    """The slope is the sign."""
    return mu.abs(), mu.sign()


# --- moments by integration ------------------------------------------------------------------


def exact_relu(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The rectified Gaussian; ``J`` is the probability that z is positive."""
    sigma, alpha, p, q, f = _tails(mu, var)
    ratio = p + alpha * alpha * p * q + alpha * f * (q - p) - f * f
    return mu * p + sigma * f, var * ratio.clamp_min(0), p


def exact_leaky_relu(
    mu: Tensor, var: Tensor, negative_slope: float = 0.01
) -> tuple[Tensor, Tensor, Tensor]:
    """``k z + (1 - k) relu(z)``, with ``cov(z, relu(z)) = var * P(z > 0)``."""
    k = negative_slope
    mean, positive, p = exact_relu(mu, var)
    variance = k * k * var + (1 - k) ** 2 * positive + 2 * k * (1 - k) * var * p
    return k * mu + (1 - k) * mean, variance, k + (1 - k) * p


def exact_absolute(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The folded Gaussian."""
    sigma, alpha, p, q, f = _tails(mu, var)
    j = p - q
    ratio = 1 + 4 * (alpha * alpha * p * q - alpha * j * f - f * f)
    return mu * j + 2 * sigma * f, var * ratio.clamp_min(0), j


def exact_exp(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The log-normal; no factor of the variance overflows where their product does not."""
    mean = torch.exp(mu + 0.5 * var)
    variance = -torch.expm1(-var) * torch.exp(2 * (mu + var))
    return mean, torch.where(var > 0, variance, torch.zeros_like(variance)), mean


def exact_sin(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """From the characteristic function of the Gaussian."""
    damp = torch.exp(-0.5 * var)
    return mu.sin() * damp, _oscillating(mu.cos() * damp, var), mu.cos() * damp


def exact_cos(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """From the characteristic function of the Gaussian."""
    damp = torch.exp(-0.5 * var)
    return mu.cos() * damp, _oscillating(mu.sin() * damp, var), -mu.sin() * damp


def _oscillating(slope: Tensor, var: Tensor) -> Tensor:
    """Variance of a sine or cosine of mean slope ``E[phi'(z)]``, as a sum of positive terms."""
    lost = -torch.expm1(-var)
    return 0.5 * lost * (lost + 2 * slope * slope)


def bounded_sigmoid(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Bounded moments of the sigmoid, in closed form (see ``_bounded``).

    Approximate: the mean within 0.018, and within 0.005 for ``|mu| <= 3``.  There the variance is
    0.9 to 1.3 times the true one; for larger ``|mu|`` the ratio has no bound, but the difference
    stays below 0.042.
    """
    k = torch.rsqrt(1 + math.pi / 8 * var)
    mean = torch.sigmoid(k * mu)
    return _bounded(mean, mean * (1 - mean), k, var)


def bounded_tanh(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Bounded moments of the hyperbolic tangent, ``2 sigmoid(2 z) - 1``, in closed form.

    Approximate: the mean within 0.036, and within 0.01 for ``|mu| <= 1.5``.  There the variance is
    0.9 to 1.3 times the true one; for larger ``|mu|`` the ratio has no bound, but the difference
    stays below 0.17.
    """
    k = torch.rsqrt(1 + math.pi / 2 * var)
    mean = torch.tanh(k * mu)
    return _bounded(mean, 1 - mean * mean, k, var)


def _bounded(mean: Tensor, slope: Tensor, k: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The probit's mean (MacKay, 1992), and a variance that stays below the square of its range.

    ``s^2 v / (1 + s v)`` with ``s`` the slope at the shrunk mean; ``J = k s``, so that
    ``J^2 v`` is never more than the variance.
    """
    return mean, slope * slope * var / (1 + slope * var), k * slope


def square(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``z^2`` by eqs. (11) and (14) with ``cov = var``: exact in either mode."""
    return mu * mu + var, 2 * var * var + 4 * (var * mu) * mu, 2 * mu


def _tails(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """``sigma``, ``alpha = mu / sigma``, ``P(z > 0)``, ``P(z < 0)`` and the density at alpha.

    Moments are built from these, and not as ``E[a^2] - E[a]^2``, which loses every digit of the
    variance when the mean is large.  Beyond 40 the tails are zero in any precision.
    """
    sigma = var.sqrt()
    alpha = (mu / sigma.clamp_min(torch.finfo(var.dtype).tiny)).clamp(-40, 40)
    return sigma, alpha, _cdf(alpha), _cdf(-alpha), _density(alpha)


def _cdf(x: Tensor) -> Tensor:
    """The standard normal; ``torch.special.ndtr`` has no correct digit left below -8."""
    return 0.5 * torch.erfc(x * -math.sqrt(0.5))


def _density(x: Tensor) -> Tensor:
    return torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
