"""Numbers with outliers.

A Student variable is a normal one whose precision is multiplied by ``w ~ Gamma(df/2, df/2)``.
Given w the integral over a Gaussian output is closed, ``N(y; mean, v + scale^2 / w)``, and what is
left is an integral over ``u = log w`` that is smooth however narrow or wide the output: even nodes
from where ``w`` hardly matters to where it cannot be.  (As an integral over the output it may have
two peaks, one at the prediction and one at the outlier.)
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from tractable.likelihoods.online_em import OnlineScale
from tractable.likelihoods.univariate import Moments, Univariate
from tractable.predictive.cdfs import HeavyTails

_NODES = 160
_FALL = 32.0
_MIN_SCALE = 1e-6
_LEAST_MASS = 27.0
"""Shares of ``w`` below ``exp(-27)`` do not count in the distribution function."""
_DISTANCE = 0.4
"""Distance of nodes in ``log w``; that of the least error, 1e-10, for a width of 1."""
_MIN_NODES = 60


class StudentT(OnlineScale, Univariate):
    """``y = z + scale * t`` with a Student variable ``t``, for targets of about unit scale.

    Exact: the evidence, its derivatives and the expected statistic of the scale, to nine digits.
    Approximate: an outlier that makes an output *less* certain leaves its variance as it is.

    Args:
        df: degrees of freedom; the fewer, the heavier the tails.
        scale: scale of the noise.  Default: learned, one per output.
        outputs: number of outputs; needed if the scale is learned and there are several.
    """

    def __init__(self, df: float = 4.0, scale: float | None = None, outputs: int = 1) -> None:
        if not (math.isfinite(df) and df > 0):
            raise ValueError(f"df must be a positive number, got {df}")
        super().__init__(scale, outputs, 1.0, "scale")
        self.df = float(df)

    def conditional(self, z: Tensor) -> HeavyTails:
        """Return the distribution of each target given its output."""
        scale = self.parameter.to(z.dtype).expand_as(z)
        return HeavyTails(torch.full_like(z, self.df), z, scale, validate_args=False)

    @override
    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        return self.conditional(z).log_prob(y).flatten(1).sum(1)

    def _nodes(self, e: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``u = log w`` at the nodes, and log Gamma density times their distance."""
        df, half = self.df, self.df / 2
        with torch.no_grad():
            low = -torch.log1p((e / self.parameter) ** 2 / df) - 2 * _FALL / (df + 1)
            low = low - math.sqrt(2 * _FALL / (half + 1))
            high = math.log((df + 1) / df + 2 * _FALL / df + math.sqrt(2 * _FALL / half))
            share = torch.linspace(0, 1, _NODES, dtype=e.dtype, device=e.device)
            u = low + (high - low) * share.reshape(-1, *[1] * e.ndim)
            log_gamma = half * math.log(half) - math.lgamma(half) + half * (u - u.exp())
            return u, log_gamma + ((high - low) / (_NODES - 1)).log()

    def _terms(self, e: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return log weight times density at the nodes, ``v + noise``, and the noise."""
        u, log_weight = self._nodes(e.detach())
        noise = self.parameter**2 * torch.exp(-u)
        total = variance + noise
        log_density = -0.5 * (e * e / total + total.log() + math.log(2 * math.pi))
        return log_density + log_weight, total, noise

    @override
    def elementwise_log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return self._terms(y - mean, variance)[0].logsumexp(0)

    def cumulative(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return ``P(Y <= y)`` of every number: a mean over the precision, in double precision."""
        u, weight = _precisions(self.df)
        shape = (-1, *[1] * y.ndim)
        noise = self.parameter.square() * torch.exp(-u.to(y)).reshape(shape)
        t = (mean - y).abs() * torch.rsqrt(variance + noise)
        tail = torch.tensordot(weight.to(y), torch.special.ndtr(-t), 1)
        return torch.where(y < mean, tail, 1 - tail)

    def moments(self, mean: Tensor, variance: Tensor) -> Moments:
        """Return mean and variance of the output, and ``scale^2 df / (df - 2)`` if finite."""
        factor = self.df / (self.df - 2) if self.df > 2 else math.inf
        center = mean if self.df > 1 else torch.full_like(mean, math.nan)
        return center, variance, (factor * self.parameter.square()).expand_as(mean)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Return averages over the nodes of the messages of a normal likelihood."""
        e = y.double() - mean.double()
        terms, total, _ = self._terms(e, variance.double())
        weight, pull = terms.softmax(0), e / total
        d_mu = (weight * pull).sum(0)
        d_var = (weight * ((pull - d_mu) ** 2 - 1 / total)).sum(0)
        return d_mu.to(mean.dtype), d_var.clamp(max=0).to(mean.dtype)

    def expected_statistic(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return ``E[w (y - z)^2]``; given w, the remaining residual is normal."""
        e = y - mean
        terms, total, noise = self._terms(e, variance)
        left = (noise * e / total) ** 2 + variance * noise / total
        return (terms.softmax(0) * left * self.parameter**2 / noise).sum(0)

    def parameter_from_statistic(self, statistic: Tensor) -> Tensor:
        """Return the root of the mean squared residual, each weighted by its precision."""
        return statistic.sqrt().clamp_min(_MIN_SCALE)

    def statistic_from_parameter(self, parameter: Tensor) -> Tensor:
        """Return the square of the scale."""
        return parameter * parameter

    @override
    def config(self) -> dict[str, Any]:
        return {"df": self.df, "scale": self.fixed_value, "outputs": self.outputs}


@functools.cache
def _precisions(df: float) -> tuple[Tensor, Tensor]:
    """Return even values of ``u = log w`` with ``w ~ Gamma(df / 2, df / 2)``, and their weights."""
    half, fall = df / 2, _LEAST_MASS
    low = -fall / half - math.sqrt(2 * fall / half)
    high = math.log(1 + fall / half + math.sqrt(2 * fall / half))
    number = max(_MIN_NODES, math.ceil((high - low) / _DISTANCE))
    u = torch.linspace(low, high, number, dtype=torch.float64)
    return u, (half * (u - u.exp())).softmax(0)
