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

from tractable.likelihoods.online_em import OnlineScale
from tractable.likelihoods.univariate import Moments, mixture_over_nodes
from tractable.predictive import DistributionMixturePredictive
from tractable.predictive.cdfs import HeavyTails

_NODES = 160
_FALL = 32.0
_LEAST_SCALE = 1e-6
_LEAST_MASS = 27.0
"""Shares of ``w`` below ``exp(-27)`` do not count in the distribution function."""
_APART = 0.4
"""Distance of nodes in ``log w``; that of the least error, 1e-10, for a width of 1."""
_FEWEST = 60


class StudentT(OnlineScale):
    """``y = z + scale * t`` with a Student variable ``t``, for targets of about unit scale.

    Exact: the evidence, its derivatives and the expected statistic of the scale, to nine digits.
    Approximate: an outlier that makes an output *less* certain leaves its variance as it is.

    Args:
        df: degrees of freedom; the fewer, the heavier the tails.
        scale: None learns it, one for each output.
        outputs: number of outputs, needed when the scale is learnt.
    """

    def __init__(self, df: float = 4.0, scale: float | None = None, outputs: int = 1) -> None:
        if not (math.isfinite(df) and df > 0):
            raise ValueError(f"df must be a positive number, got {df}")
        super().__init__(scale, outputs, 1.0, "scale")
        self.df = float(df)

    def conditional(self, z: Tensor) -> HeavyTails:
        """The distribution of targets, given the outputs."""
        scale = self.parameter.to(z.dtype).expand_as(z)
        return HeavyTails(torch.full_like(z, self.df), z, scale, validate_args=False)

    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        """See ``Likelihood``."""
        return self.conditional(z).log_prob(y).flatten(1).sum(1)

    def _nodes(self, e: Tensor) -> tuple[Tensor, Tensor]:
        """``u = log w`` at the nodes, and the log of Gamma's density times their distance."""
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
        """At the nodes: log of weight times density, ``v + noise``, and the noise."""
        u, log_weight = self._nodes(e.detach())
        noise = self.parameter**2 * torch.exp(-u)
        total = variance + noise
        log_density = -0.5 * (e * e / total + total.log() + math.log(2 * math.pi))
        return log_density + log_weight, total, noise

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Sum over the nodes of the precision, in double precision."""
        found = self.elementwise_log_evidence(y.double(), mean.double(), variance.double())
        return found.flatten(1).sum(1).to(mean.dtype)

    def elementwise_log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Log evidence of every number, in double precision."""
        return self._terms(y - mean, variance)[0].logsumexp(0)

    def cumulative(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """``P(Y <= y)`` of every number, in double precision: a mean over the precision."""
        u, weight = _precisions(self.df)
        shape = (-1, *[1] * y.ndim)
        noise = self.parameter.square() * torch.exp(-u.to(y)).reshape(shape)
        t = (mean - y).abs() * torch.rsqrt(variance + noise)
        tail = torch.tensordot(weight.to(y), torch.special.ndtr(-t), 1)
        return torch.where(y < mean, tail, 1 - tail)

    def moments(self, mean: Tensor, variance: Tensor) -> Moments:
        """Mean and variance of the output, and ``scale^2 df / (df - 2)`` if that is finite."""
        factor = self.df / (self.df - 2) if self.df > 2 else math.inf
        centre = mean if self.df > 1 else torch.full_like(mean, math.nan)
        return centre, variance, (factor * self.parameter.square()).expand_as(mean)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Averages over the nodes of those of a normal likelihood."""
        e = y.double() - mean.double()
        terms, total, _ = self._terms(e, variance.double())
        weight, pull = terms.softmax(0), e / total
        d_mu = (weight * pull).sum(0)
        d_var = (weight * ((pull - d_mu) ** 2 - 1 / total)).sum(0)
        return d_mu.to(mean.dtype), d_var.clamp(max=0).to(mean.dtype)

    def expected_statistic(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """``E[w (y - z)^2]``: given w, the residual left of y is normal."""
        e = y - mean
        terms, total, noise = self._terms(e, variance)
        left = (noise * e / total) ** 2 + variance * noise / total
        return (terms.softmax(0) * left * self.parameter**2 / noise).sum(0)

    def parameter_from_statistic(self, statistic: Tensor) -> Tensor:
        """Root of the mean squared residual, each weighted by its precision."""
        return statistic.sqrt().clamp_min(_LEAST_SCALE)

    def statistic_from_parameter(self, parameter: Tensor) -> Tensor:
        """The square of the scale."""
        return parameter * parameter

    def predictive(self, mean: Tensor, variance: Tensor) -> DistributionMixturePredictive:
        """Exact: all members."""
        return mixture_over_nodes(self, mean, variance)

    def config(self) -> dict[str, Any]:
        """See ``Likelihood``."""
        return {"df": self.df, "scale": self.fixed_value, "outputs": self.outputs}


@functools.cache
def _precisions(df: float) -> tuple[Tensor, Tensor]:
    """Even values of ``u = log w`` with ``w ~ Gamma(df / 2, df / 2)``, and their weights."""
    half, fall = df / 2, _LEAST_MASS
    low = -fall / half - math.sqrt(2 * fall / half)
    high = math.log(1 + fall / half + math.sqrt(2 * fall / half))
    number = max(_FEWEST, math.ceil((high - low) / _APART))
    u = torch.linspace(low, high, number, dtype=torch.float64)
    return u, (half * (u - u.exp())).softmax(0)
