"""Counts with more variance than a Poisson distribution."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus
from typing_extensions import override

from tractable.likelihoods import marginal, quadrature
from tractable.likelihoods.online_em import OnlineEM
from tractable.likelihoods.targets import count_targets
from tractable.likelihoods.univariate import Moments, Univariate
from tractable.predictive.cdfs import NegativeBinomialCounts

_MIN, _MAX = 1e-4, 1e8
_SOLVE = 3
_FALL = 30.0
"""How far the log density of a threshold falls before it is neglected."""


class NegativeBinomial(Univariate, OnlineEM):
    """Counts of mean ``m = exp(z)`` and variance ``m + m^2 / total_count``, one output per count.

    A Poisson count whose rate is multiplied by a Gamma variable of mean 1. A smaller
    ``total_count`` means more variance; its limit at infinity is ``Poisson``.

    Exact: the evidence, to ten digits by quadrature; the expected statistic of the total count.

    Args:
        total_count: r in the formulas below.  Default: learned, one per output.
        outputs: number of counts per row; needed if ``total_count`` is learned and there are
            several.
    """

    def __init__(self, total_count: float | None = None, outputs: int = 1) -> None:
        OnlineEM.__init__(self, total_count, outputs, _statistic_of(1.0), "total_count")

    @property
    def total_count(self) -> Tensor:
        """Total count of each output."""
        return self.parameter

    @override
    def check_targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        self.check_outputs(outputs)
        return count_targets(y, outputs)

    @override
    def conditional(self, z: Tensor) -> NegativeBinomialCounts:
        r = self.parameter.to(z.dtype)
        return NegativeBinomialCounts(r.expand_as(z), logits=z - r.log(), validate_args=False)

    def log_density(self, y: Tensor, z: Tensor) -> Tensor:
        """Return ``y t - (y + r) log(1 + e^t)`` plus a constant, with ``t = z - log r``."""
        r = self.parameter.to(z.dtype)
        t = z - r.log()
        constant = torch.lgamma(y + r) - torch.lgamma(r) - torch.lgamma(y + 1)
        # y t - (y + r) softplus(t) without cancelling: of y (t - softplus(t)) for large t
        return constant - y * softplus(-t) - r * softplus(t)

    def derivatives(self, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``y - (y + r) p`` and ``-(y + r) p (1 - p)`` with ``p = m / (m + r)``."""
        r = self.parameter.to(z.dtype)
        t = z - r.log()
        p, q = torch.sigmoid(t), torch.sigmoid(-t)
        return y * q - r * p, -(y + r) * p * q

    def cumulative(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return ``P(Y <= k) = P(z - log r <= logit x)`` with ``x ~ Beta(k + 1, r)``."""
        r = self.parameter.expand_as(y)
        a = y.floor().clamp_min(0) + 1
        center, spread = a.log() - r.log(), (2 * _FALL * (1 / a + 1 / r)).sqrt()
        low, high = center - _FALL / a - spread, center + _FALL / r + spread

        def log_density(u: Tensor) -> Tensor:
            """Return minus ``(a + r)`` times the relative entropy of the two odds."""
            t = u - center
            return a * t - (a + r) * torch.log1p(a / (a + r) * torch.expm1(t))

        plain = partial(super().cumulative, y, mean, variance)
        found = marginal.cumulative_of_counts(
            log_density, low, high, mean - r.log(), variance, plain
        )
        return torch.where(y < 0, torch.zeros_like(found), found)

    def moments(self, mean: Tensor, variance: Tensor) -> Moments:
        """Return the moments, where the mean count m is log-normal; noise ``E[m] + E[m^2] / r``."""
        rate = (mean + variance / 2).exp()
        noise = rate + (2 * (mean + variance)).exp() / self.parameter
        return rate, rate * rate * torch.expm1(variance), noise

    def initial_posterior_mode(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return a mean of the prior mean and of the output that predicts ``y``, by precision."""
        at = torch.log(y + 0.5)
        precision = -self.derivatives(y, at)[1]
        return (mean + variance * precision * at) / (1 + variance * precision)

    def messages_and_noise(
        self,
        y: Tensor,
        mean: Tensor,
        variance: Tensor,
        *,
        weight: Tensor | None = None,
        memory_rows: float | None = None,
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Return messages and noise from the same quadrature nodes."""
        dtype = mean.dtype
        y, mean, variance = y.double(), mean.double(), variance.double()
        z, share = self.posterior(y, mean, variance)
        both = quadrature.messages(partial(self.derivatives, y), z, share, mean, variance)
        d_mu, d_var = (d.to(dtype) for d in both)
        noise: dict[str, Tensor] = {}
        if self.traits.learns_noise:
            noise = self.online_average(self._statistic(y, z, share), memory_rows=memory_rows)
        return d_mu, d_var, noise

    def expected_statistic(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return ``E[g - log g]`` of the multiplier, which is ``Gamma(y + r, m + r)`` given y."""
        if not bool(variance.any()):
            return self._statistic(y, mean.unsqueeze(0), torch.ones_like(mean).unsqueeze(0))
        return self._statistic(y, *self.posterior(y, mean, variance))

    def _statistic(self, y: Tensor, z: Tensor, share: Tensor) -> Tensor:
        r = self.parameter
        log_rate = torch.logaddexp(z, r.log())  # of the Gamma variable
        known = (y + r) * torch.exp(-log_rate) + log_rate
        return (share * known).sum(0) - torch.digamma(y + r)

    def parameter_from_statistic(self, statistic: Tensor) -> Tensor:
        """Solve ``log r - psi(r) = E[g - log g] - 1``; Newton steps after Minka's approximation."""
        target = (statistic - 1).clamp_min(1e-8)
        r = (3 - target + ((target - 3) ** 2 + 24 * target).sqrt()) / (12 * target)
        for _ in range(_SOLVE):
            miss = r.log() - torch.digamma(r) - target
            r = r * torch.exp(-(miss / (1 - r * torch.polygamma(1, r))).clamp(-2, 2))
        return r.clamp(_MIN, _MAX)

    def statistic_from_parameter(self, parameter: Tensor) -> Tensor:
        """Return ``1 + log r - psi(r)``."""
        return 1 + parameter.log() - torch.digamma(parameter)

    def rescale(self, scale: float) -> None:
        """Multiply the variance in excess of that of a Poisson distribution, ``m^2 / r``."""
        self.set_parameter((self.parameter / scale).clamp(_MIN, _MAX))

    @override
    def config(self) -> dict[str, Any]:
        return {"total_count": self.fixed_value, "outputs": self.outputs}


def _statistic_of(total_count: float) -> float:
    r = torch.tensor(total_count, dtype=torch.float64)
    return float(1 + r.log() - torch.digamma(r))
