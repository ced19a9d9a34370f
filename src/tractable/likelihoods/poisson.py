"""Counts with Poisson noise."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus
from typing_extensions import override

from tractable.likelihoods import marginal
from tractable.likelihoods.targets import count_targets
from tractable.likelihoods.univariate import Moments, Univariate
from tractable.predictive.cdfs import PoissonCounts

Link = Literal["exp", "softplus"]

_MIN_RATE = 1e-290
_EXPONENTIAL = -30.0
"""Output below which ``log(1 + e^z)`` is ``e^z``."""
_MIN_VARIANCE = 1e-30
_SOLVE = 5
_FALL = 30.0
"""How far the log density of a threshold falls before it is neglected."""


class Poisson(Univariate):
    """``y ~ Poisson(exp(z))``: counts 0, 1, 2, ..., one output per count.

    Exact: the evidence, to ten digits by quadrature; ``log y!`` is exact.

    Args:
        link: ``"exp"``: the output is the log rate; ``"softplus"``: the rate is ``log(1 + e^z)``,
            which grows in proportion to the output instead of exponentially.
    """

    def __init__(self, link: Link = "exp") -> None:
        super().__init__()
        if link not in ("exp", "softplus"):
            raise ValueError(f"link must be 'exp' or 'softplus', got {link!r}")
        self.link = link

    @override
    def check_targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        return count_targets(y, outputs)

    def rate(self, z: Tensor) -> Tensor:
        """Return the expected count of an output."""
        return z.exp() if self.link == "exp" else softplus(z).clamp_min(_MIN_RATE)

    def log_rate(self, z: Tensor) -> Tensor:
        """Return the logarithm of the expected count, also where the count is nearly zero."""
        if self.link == "exp":
            return z
        safe = z.clamp_min(_EXPONENTIAL)
        return torch.where(z < _EXPONENTIAL, z, softplus(safe).log())

    @override
    def conditional(self, z: Tensor) -> PoissonCounts:
        return PoissonCounts(self.rate(z), validate_args=False)

    def log_density(self, y: Tensor, z: Tensor) -> Tensor:
        """Return ``y log(rate) - rate - log y!``."""
        return y * self.log_rate(z) - self.rate(z) - torch.lgamma(y + 1)

    def derivatives(self, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``(y / r - 1) r'`` and ``(y / r - 1) r'' - y (r' / r)^2`` with the rate ``r``."""
        rate = self.rate(z)
        if self.link == "exp":
            return y - rate, -rate
        first = torch.sigmoid(z)
        # The derivative of the log rate, one where the rate is exp(z).
        grown = torch.where(z < _EXPONENTIAL, 1.0, first * torch.exp(-self.log_rate(z)))
        over = y * grown - first
        return over, over * (1 - first) - y * grown * grown

    def cumulative(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return ``P(Y <= k) = P(e^z <= g)`` with ``g ~ Gamma(k + 1, 1)``."""
        plain = partial(super().cumulative, y, mean, variance)
        if self.link == "softplus":
            return plain()
        a = y.floor().clamp_min(0) + 1
        ratio = _FALL / a
        low = a.log() - ratio - (2 * ratio).sqrt()
        high = a.log() + torch.log1p(ratio + (2 * ratio).sqrt())

        def log_density(u: Tensor) -> Tensor:
            return a * (u - a.log() - torch.expm1(u - a.log()))

        found = marginal.cumulative_of_counts(log_density, low, high, mean, variance, plain)
        return torch.where(y < 0, torch.zeros_like(found), found)

    def moments(self, mean: Tensor, variance: Tensor) -> Moments | None:
        """Return the moments for a log-normal rate; None for ``"softplus"``."""
        if self.link == "softplus":
            return None
        rate = (mean + variance / 2).exp()
        return rate, rate * rate * torch.expm1(variance), rate

    def initial_posterior_mode(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the target: the rate is about the output where that is above zero."""
        return y

    def standardized_posterior_mode(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the posterior mode; for a log rate, by Newton's method.

        With ``u = log(variance e^z)`` the equation is ``e^u + u = a``.
        """
        if self.link == "softplus":
            return super().standardized_posterior_mode(y, mean, variance)
        v = variance.clamp_min(_MIN_VARIANCE)
        a = v.log() + mean + v * y
        u = torch.where(a > 1, a.clamp_min(1).log(), a)
        for _ in range(_SOLVE):
            grown = u.exp()
            u = (a + grown * (u - 1)) / (grown + 1)
        found = (v * y - u.exp()) * v.rsqrt()
        return torch.where(variance > _MIN_VARIANCE, found, 0.0)

    @override
    def config(self) -> dict[str, Any]:
        return {"link": self.link}
