"""Distributions of torch with the distribution function that torch leaves out."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import NegativeBinomial, Poisson, StudentT

_TINY = 1e-300
_STEPS = 400


class PoissonCounts(Poisson):
    """``Poisson`` with its distribution function."""

    def cdf(self, value: Tensor) -> Tensor:
        """``Q(k + 1, rate)``, the regularised upper incomplete gamma function."""
        k = value.floor()
        rate = self.rate.expand(torch.broadcast_shapes(self.rate.shape, k.shape))
        share = torch.special.gammaincc((k + 1).clamp_min(1.0).expand_as(rate), rate)
        return torch.where(k < 0, torch.zeros_like(share), share)


class NegativeBinomialCounts(NegativeBinomial):
    """``NegativeBinomial`` with its distribution function."""

    def cdf(self, value: Tensor) -> Tensor:
        """``I_{1 - p}(r, k + 1)``, the regularised incomplete beta function."""
        k = value.floor()
        odds = torch.sigmoid(-self.logits)
        share = incomplete_beta(self.total_count, (k + 1).clamp_min(1.0), odds)
        return torch.where(k < 0, torch.zeros_like(share), share)


class HeavyTails(StudentT):
    """``StudentT`` with its distribution function."""

    def cdf(self, value: Tensor) -> Tensor:
        """``1 - I_x(df / 2, 1 / 2) / 2`` with ``x = df / (df + t^2)``, to the right of 0."""
        t = (value - self.loc) / self.scale
        x = self.df / (self.df + t * t)
        tail = 0.5 * incomplete_beta(self.df / 2, torch.full_like(t, 0.5), x)
        return torch.where(t > 0, 1 - tail, tail)


def incomplete_beta(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """The regularised incomplete beta function ``I_x(a, b)``.

    By its continued fraction (Lentz's way), on the side where that converges quickly.
    """
    a, b, x = torch.broadcast_tensors(a, b, x)
    turned = x > (a + 1) / (a + b + 2)
    p, q = torch.where(turned, b, a), torch.where(turned, a, b)
    at = torch.where(turned, 1 - x, x)
    log_front = (
        p * at.log() + q * torch.log1p(-at) - p.log()
        - (torch.lgamma(p) + torch.lgamma(q) - torch.lgamma(p + q))
    )  # fmt: skip
    found = log_front.exp() * _fraction(p, q, at)
    found = torch.where(at <= 0, torch.zeros_like(found), found)
    return torch.where(turned, 1 - found, found)


def _fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """``1 / (1 + d_1 / (1 + d_2 / (1 + ...)))``."""
    c = torch.ones_like(x)
    d = 1 / _away(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d = 1 / _away(1 + step * d)
            c = _away(1 + step / c)
            change = c * d
            value = value * change
        if m % 8 == 0 and bool(((change - 1).abs() < 1e-14).all()):
            break
    return value


def _away(values: Tensor) -> Tensor:
    """Nowhere exactly zero."""
    return torch.where(values.abs() < _TINY, torch.full_like(values, _TINY), values)
