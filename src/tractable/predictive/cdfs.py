"""Distribution functions that torch does not implement."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import (
    Beta,
    Binomial,
    Distribution,
    FisherSnedecor,
    Geometric,
    MixtureSameFamily,
    NegativeBinomial,
    Poisson,
    StudentT,
    TransformedDistribution,
)

_TINY = 1e-300
_STEPS = 400
_CHECK = 8
"""Steps of the continued fraction between two looks at its convergence."""
_AT_ONCE = 1 << 13
"""Entries of the continued fraction at once, so that they stay in the cache."""
_LARGE = 50.0
"""From this value of both parameters on, the incomplete beta function is integrated numerically;
the continued fraction needs more steps the larger they are."""
_FALL = 36.0
"""The integrand is followed until it has fallen by ``exp(-36)``."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(26)
_INSIDE = 1e-12
"""Relative distance from a bound of the support at which torch is called there."""


def has_cdf(distribution: Distribution) -> bool:
    """Return whether ``cdf`` below can compute the distribution function."""
    if isinstance(distribution, TransformedDistribution):
        return has_cdf(distribution.base_dist)
    if isinstance(distribution, MixtureSameFamily):
        return has_cdf(distribution.component_distribution)
    return _own_cdf(distribution) or isinstance(distribution, tuple(_FORMULAS))


def cdf(distribution: Distribution, y: Tensor) -> Tensor:
    """Return ``P(Y <= y)`` of every number, also for values outside of the support.

    Raises:
        TypeError: neither torch nor this module has the distribution function.
    """
    if not has_cdf(distribution):
        raise TypeError(f"{type(distribution).__name__} has no distribution function in torch")
    support = distribution.support
    whole = support is not None and bool(support.is_discrete)
    low, high = (getattr(support, f"{end}_bound", None) for end in ("lower", "upper"))
    at = y.floor() if whole else y
    if low is not None:  # torch asks for values inside
        margin = 0.0 if whole else _INSIDE
        at = torch.maximum(at, torch.as_tensor(low + margin * (1 + abs(low)), dtype=y.dtype))
    if high is not None:
        margin = 0.0 if whole else _INSIDE
        at = torch.minimum(at, torch.as_tensor(high - margin * (1 + abs(high)), dtype=y.dtype))
    share = _formula(distribution)(distribution, at)
    if low is not None:
        share = torch.where(y < low, torch.zeros_like(share), share)
    return share if high is None else torch.where(y >= high, torch.ones_like(share), share)


def _own_cdf(distribution: Distribution) -> bool:
    return type(distribution).cdf is not Distribution.cdf


def _formula(distribution: Distribution) -> Callable[[Any, Tensor], Tensor]:
    if not _own_cdf(distribution):
        for kind, formula in _FORMULAS.items():
            if isinstance(distribution, kind):
                return formula
    return type(distribution).cdf


# --- formulas ----------------------------------------------------------------------------------


def _poisson(distribution: Poisson, value: Tensor) -> Tensor:
    """``Q(k + 1, rate)``, the regularized upper incomplete gamma function."""
    k = value.floor()
    rate = distribution.rate.expand(torch.broadcast_shapes(distribution.rate.shape, k.shape))
    share = torch.special.gammaincc((k + 1).clamp_min(1.0).expand_as(rate), rate)
    return torch.where(k < 0, torch.zeros_like(share), share)


def _negative_binomial(distribution: NegativeBinomial, value: Tensor) -> Tensor:
    """``I_{1 - p}(r, k + 1)``, the regularized incomplete beta function."""
    k = value.floor()
    p, rest = torch.sigmoid(distribution.logits), torch.sigmoid(-distribution.logits)
    share = incomplete_beta(distribution.total_count, (k + 1).clamp_min(1.0), rest, p)
    return torch.where(k < 0, torch.zeros_like(share), share)


def _student_t(distribution: StudentT, value: Tensor) -> Tensor:
    """``1 - I_x(df / 2, 1 / 2) / 2`` with ``x = df / (df + t^2)``, to the right of 0."""
    df, t = distribution.df, (value - distribution.loc) / distribution.scale
    square = t * t
    x, rest = df / (df + square), square / (df + square)
    tail = 0.5 * incomplete_beta(df / 2, torch.full_like(t, 0.5), x, rest)
    return torch.where(t > 0, 1 - tail, tail)


def _beta(distribution: Beta, value: Tensor) -> Tensor:
    return incomplete_beta(distribution.concentration1, distribution.concentration0, value)


def _geometric(distribution: Geometric, value: Tensor) -> Tensor:
    """``1 - (1 - p)^(k + 1)``, the number of failures before the first success."""
    k = value.floor()
    share = -torch.expm1((k + 1) * torch.log1p(-distribution.probs))
    return torch.where(k < 0, torch.zeros_like(share), share)


def _binomial(distribution: Binomial, value: Tensor) -> Tensor:
    """``I_{1 - p}(n - k, k + 1)``."""
    k, number = torch.broadcast_tensors(value.floor(), distribution.total_count)
    p, rest = torch.sigmoid(distribution.logits), torch.sigmoid(-distribution.logits)
    left = (number - k).clamp_min(1.0)
    share = incomplete_beta(left.to(rest), (k + 1).clamp_min(1.0).to(rest), rest, p)
    share = torch.where(k < 0, torch.zeros_like(share), share)
    return torch.where(k >= number, torch.ones_like(share), share)


def _fisher(distribution: FisherSnedecor, value: Tensor) -> Tensor:
    """``I_x(df1 / 2, df2 / 2)`` with ``x = df1 y / (df1 y + df2)``."""
    up, down = distribution.df1 * value, distribution.df2
    half = (distribution.df1 / 2, distribution.df2 / 2)
    return incomplete_beta(*half, up / (up + down), down / (up + down))


_FORMULAS: dict[type[Distribution], Callable[[Any, Tensor], Tensor]] = {
    Poisson: _poisson,
    NegativeBinomial: _negative_binomial,
    StudentT: _student_t,
    Beta: _beta,
    Geometric: _geometric,
    Binomial: _binomial,
    FisherSnedecor: _fisher,
}


class PoissonCounts(Poisson):
    """``Poisson`` with its distribution function."""

    def cdf(self, value: Tensor) -> Tensor:
        """``Q(k + 1, rate)``, the regularized upper incomplete gamma function."""
        return _poisson(self, value)


class NegativeBinomialCounts(NegativeBinomial):
    """``NegativeBinomial`` with its distribution function."""

    def cdf(self, value: Tensor) -> Tensor:
        """``I_{1 - p}(r, k + 1)``, the regularized incomplete beta function."""
        return _negative_binomial(self, value)


class HeavyTails(StudentT):
    """``StudentT`` with its distribution function."""

    def cdf(self, value: Tensor) -> Tensor:
        """``1 - I_x(df / 2, 1 / 2) / 2`` with ``x = df / (df + t^2)``, to the right of 0."""
        return _student_t(self, value)


# --- the incomplete beta function ----------------------------------------------------------------


def incomplete_beta(a: Tensor, b: Tensor, x: Tensor, rest: Tensor | None = None) -> Tensor:
    """Return the regularized incomplete beta function ``I_x(a, b)``.

    By its continued fraction, on the side where that converges quickly; where both parameters are
    large, by Gauss-Legendre quadrature of the density of ``log(x / (1 - x))``, which is then about
    as narrow as a normal one.

    Args:
        a: first parameter, positive.
        b: second parameter, positive.
        x: between 0 and 1.
        rest: ``1 - x``, where it is known more precisely than by subtraction.
    """
    a, b, x, rest = torch.broadcast_tensors(a, b, x, 1 - x if rest is None else rest)
    turned = x > (a + 1) / (a + b + 2)
    p, q = torch.where(turned, b, a), torch.where(turned, a, b)
    at, other = torch.where(turned, rest, x), torch.where(turned, x, rest)
    large = torch.minimum(p, q) >= _LARGE
    found = torch.empty_like(at)
    for chosen, method in ((large, _by_quadrature), (~large, _by_fraction)):
        if bool(chosen.all()):
            found = method(p, q, at, other)
        elif bool(chosen.any()):
            found[chosen] = method(p[chosen], q[chosen], at[chosen], other[chosen])
    found = torch.where(at <= 0, torch.zeros_like(found), found)
    return torch.where(turned, 1 - found, found)


def _by_fraction(p: Tensor, q: Tensor, at: Tensor, other: Tensor) -> Tensor:
    front = p * at.log() + q * other.log() - p.log() - _log_beta(p, q)
    return front.exp() * _fraction(p, q, at).reshape(at.shape)


def _fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """``1 / (1 + d_1 / (1 + d_2 / (1 + ...)))``, by the modified method of Lentz.

    Entries that have converged are left out of further steps.
    """
    a, b, x = (part.reshape(-1) for part in torch.broadcast_tensors(a, b, x))
    if len(x) > _AT_ONCE:
        parts = zip(a.split(_AT_ONCE), b.split(_AT_ONCE), x.split(_AT_ONCE), strict=True)
        return torch.cat([_fraction(*part) for part in parts])
    found = torch.empty_like(x)
    left = torch.arange(len(x), device=x.device)
    c = torch.ones_like(x)
    d = 1 / _away(1 - (a + b) * x / (a + 1))
    value = d.clone()
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d = 1 / _away(1 + step * d)
            c = _away(1 + step / c)
            change = c * d
            value = value * change
        if m % _CHECK == 0 or m == _STEPS - 1:
            found[left] = value
            going = ((change - 1).abs() >= 1e-14).nonzero().squeeze(-1)
            if not len(going):
                break
            left, a, b, x, c, d, value = (t[going] for t in (left, a, b, x, c, d, value))
    return found


def _away(values: Tensor) -> Tensor:
    """Return values without exact zeros."""
    return torch.where(values.abs() < _TINY, torch.full_like(values, _TINY), values)


def _by_quadrature(p: Tensor, q: Tensor, at: Tensor, other: Tensor) -> Tensor:
    """Integrate ``exp(h(u))`` with ``h = p u - (p + q) log(1 + e^u)`` up to ``u = logit(at)``.

    ``h`` is concave and rises up to about there, so that it is integrated from where it has
    fallen by 36.  That distance d solves ``h(u) - h(u - d) = 36``, by Newton steps.
    """
    total = p + q
    slope, bend = (p - total * at).clamp_min(0), total * at * other
    d = 2 * _FALL / (slope + (slope * slope + 2 * _FALL * bend).sqrt()).clamp_min(_TINY)

    def fall(d: Tensor) -> Tensor:
        """``h(u) - h(u - d)``, without cancellation for small d."""
        return p * d + total * torch.log1p(at * torch.expm1(-d))

    for _ in range(6):
        shrunk = at * torch.exp(-d)
        d = d - (fall(d) - _FALL) / (p - total * shrunk / (shrunk + other)).clamp_min(_TINY)
    shape = (-1, *[1] * p.ndim)
    nodes = torch.from_numpy((_NODES + 1) / 2).to(p).reshape(shape)
    weights = torch.from_numpy(_WEIGHTS / 2).to(p).reshape(shape)
    log_peak = p * (at * total / p).log() + q * (other * total / q).log()
    log_peak = log_peak + 0.5 * (p * q / total).log() - 0.5 * math.log(2 * math.pi)
    log_peak = log_peak + _correction(total) - _correction(p) - _correction(q)
    return log_peak.exp() * d * (weights * torch.exp(-fall(d * nodes))).sum(0)


def _log_beta(p: Tensor, q: Tensor) -> Tensor:
    """Return ``log B(p, q)``; by Stirling's series for large parameters, against cancellation."""
    small, large = torch.minimum(p, q), torch.maximum(p, q)
    plain = torch.lgamma(p) + torch.lgamma(q) - torch.lgamma(p + q)
    big = large.clamp_min(_LARGE)
    total = small + big
    series = (
        torch.lgamma(small) + (big - 0.5) * torch.log1p(-small / total) - small * total.log()
        + small + _correction(big) - _correction(total)
    )  # fmt: skip
    return torch.where(large >= _LARGE, series, plain)


def _correction(x: Tensor) -> Tensor:
    """Return the remainder of Stirling's formula for ``log Gamma(x)``, for x from 50 on."""
    square = 1 / (x * x)
    return (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / x
