"""Numbers with Laplace noise: least absolute deviations."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Laplace as Distribution
from torch.special import erfcx, log_ndtr, ndtr
from typing_extensions import override

from tractable.likelihoods import probit
from tractable.likelihoods.online_em import OnlineScale
from tractable.likelihoods.univariate import Moments, Univariate

_MIN_VARIANCE = 1e-24
_MIN_SCALE = 1e-6


class Laplace(OnlineScale, Univariate):
    """``p(y|z) = exp(-|y - z| / b) / 2b``, for targets of about unit scale.

    With ``e = y - mean`` the evidence is a sum of two halves, those of ``z`` below and above ``y``:

        e^{v / 2b^2} / 2b [ e^{-e/b} Phi((e - v/b) / sqrt v) + e^{e/b} Phi(-(e + v/b) / sqrt v) ]

    and with the share r of the first half the messages are ``(2 r - 1) / b`` and
    ``4 r (1 - r) / b^2 - N(e; 0, v) / (b^2 evidence)``.

    Exact: the evidence, the messages and the expected statistic of the scale.

    Args:
        scale: b.  Default: learned, one per output.
        outputs: number of outputs; needed if the scale is learned and there are several.
    """

    def __init__(self, scale: float | None = None, outputs: int = 1) -> None:
        super().__init__(scale, outputs, 1.0, "scale")

    @override
    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        b = self.parameter.to(z.dtype)
        return (-(y - z).abs() / b - (2 * b).log()).flatten(1).sum(1)

    def curvature(self, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient and ``1 / b^2``, the expected value of its square.

        The second derivative of ``|y - z|`` is zero wherever it exists, so that observations would
        not change the curvature of the Laplace learner.
        """
        b = self.parameter.to(z.dtype)
        first = (torch.sign(y - z) / b).flatten(1)
        information = (1 / b.square()).expand_as(z).flatten(1)
        return first, torch.diag_embed(information)

    def _halves(self, e: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the arguments of the two normal distribution functions, and the log terms."""
        b, std = self.parameter, variance.sqrt()
        below, above = e / std - std / b, -(e / std + std / b)
        return below, above, log_ndtr(below) - e / b, log_ndtr(above) + e / b

    def _log_density(self, e: Tensor, variance: Tensor) -> Tensor:
        b = self.parameter
        _, _, low, high = self._halves(e, variance)
        return torch.logaddexp(low, high) + variance / (2 * b * b) - (2 * b).log()

    @override
    def elementwise_log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return self._log_density(y - mean, variance.clamp_min(_MIN_VARIANCE))

    def cumulative(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return ``P(Y <= y)`` of every number, in double precision.

        With ``t = e / sqrt v``, ``s = sqrt v / b`` and Mills' ratio R it is ``Phi(t) - phi(t)
        (R(s - t) - R(s + t)) / 2`` (Reed, "The normal-Laplace distribution", 2006, eq. 11).
        """
        std = variance.clamp_min(_MIN_VARIANCE).sqrt()
        t, s = (y - mean) / std, std / self.parameter
        far = t.abs()  # in the lower half, and by symmetry
        tail = ndtr(-far) + 0.5 * (_mills(far, s, -1) - _mills(far, s, 1))
        return torch.where(t < 0, tail, 1 - tail)

    def moments(self, mean: Tensor, variance: Tensor) -> Moments:
        """Return mean and variance of the output, and ``2 b^2``."""
        return mean, variance, (2 * self.parameter.square()).expand_as(mean)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Return the messages of the class documentation."""
        b, dtype = self.parameter, mean.dtype
        v = variance.double().clamp_min(_MIN_VARIANCE)
        e = y.double() - mean.double()
        _, _, low, high = self._halves(e, v)
        d_mu = torch.tanh(0.5 * (low - high)) / b
        normal = -0.5 * (e * e / v + v.log() + math.log(2 * math.pi))
        log_evidence = torch.logaddexp(low, high) + v / (2 * b * b) - (2 * b).log()
        peak = torch.exp(normal - log_evidence) / (b * b)
        d_var = 1 / (b * b) - d_mu * d_mu - peak
        return d_mu.to(dtype), torch.maximum(d_var.clamp(max=0), -1 / v).to(dtype)

    def expected_statistic(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return ``E|y - z|``: the weighted means of two truncated normal distributions."""
        v = variance.clamp_min(_MIN_VARIANCE)
        below, above, low, high = self._halves(y - mean, v)
        share = torch.sigmoid(low - high)
        return v.sqrt() * (share * _beyond(below) + (1 - share) * _beyond(above))

    def parameter_from_statistic(self, statistic: Tensor) -> Tensor:
        """Return the mean absolute error, above a floor."""
        return statistic.clamp_min(_MIN_SCALE)

    def statistic_from_parameter(self, parameter: Tensor) -> Tensor:
        """Return the scale itself."""
        return parameter

    @override
    def conditional(self, z: Tensor) -> Distribution:
        return Distribution(z, self.parameter.to(z.dtype).expand_as(z), validate_args=False)

    @override
    def config(self) -> dict[str, Any]:
        return {"scale": self.fixed_value, "outputs": self.outputs}


def _mills(t: Tensor, s: Tensor, sign: int) -> Tensor:
    """Compute ``phi(t) R(x)`` with ``R = (1 - Phi) / phi`` and ``x = s + sign * t``.

    ``phi(t) / phi(x)`` is computed from ``s`` and ``t``: the difference of the squares of ``x`` and
    ``t`` has no digits where ``s`` is much smaller than ``t``, as without variance of the output.
    """
    x = s + sign * t
    density = torch.exp(-0.5 * t * t) / math.sqrt(2 * math.pi)
    inside = density * math.sqrt(math.pi / 2) * erfcx(x.clamp_min(0) / math.sqrt(2))
    beyond = torch.exp((s * (0.5 * s + sign * t)).clamp(max=0)) * ndtr(-x)
    return torch.where(x >= 0, inside, beyond)


def _beyond(t: Tensor) -> Tensor:
    """``E[t - x]`` of ``x ~ N(0, 1)`` below ``t``: ``t + phi(t) / Phi(t)``, never negative."""
    # Far in the tail the sum cancels; there it is 1 / |t| (1 - 2 / t^2 + 10 / t^4 - ...).
    far = t < -1e3
    small = 1 / torch.where(far, -t, torch.ones_like(t))
    series = small * (1 - small * small * (2 - 10 * small * small))
    return torch.where(far, series, (t + probit.hazard(t)).clamp_min(0))
