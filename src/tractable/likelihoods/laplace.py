"""Numbers whose errors have sharp peaks and long tails: least absolute deviations."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Laplace as Distribution
from torch.special import erfcx, log_ndtr, ndtr

from tractable.likelihoods import probit
from tractable.likelihoods.online_em import OnlineScale
from tractable.likelihoods.univariate import Moments, mixture_over_nodes
from tractable.predictive import DistributionMixturePredictive

_LEAST_VARIANCE = 1e-24
_LEAST_SCALE = 1e-6


class Laplace(OnlineScale):
    """``p(y|z) = exp(-|y - z| / b) / 2b``, for targets of about unit scale.

    With ``e = y - mean`` the evidence is a sum of two halves, those of ``z`` below and above ``y``:

        e^{v / 2b^2} / 2b [ e^{-e/b} Phi((e - v/b) / sqrt v) + e^{e/b} Phi(-(e + v/b) / sqrt v) ]

    and with the share r of the first half the messages are ``(2 r - 1) / b`` and
    ``4 r (1 - r) / b^2 - N(e; 0, v) / (b^2 evidence)``.

    Exact: the evidence, the messages and the expected statistic of the scale.

    Args:
        scale: b; None learns it, one for each output.
        outputs: number of outputs, needed when the scale is learnt.
    """

    def __init__(self, scale: float | None = None, outputs: int = 1) -> None:
        super().__init__(scale, outputs, 1.0, "scale")

    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        """See ``Likelihood``."""
        b = self.parameter.to(z.dtype)
        return (-(y - z).abs() / b - (2 * b).log()).flatten(1).sum(1)

    def curvature(self, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """See ``Likelihood``; with ``1 / b^2``, the expected value of the squared gradient.

        The second derivative of ``|y - z|`` is zero wherever it exists, so that no observation
        would tell the Laplace learner anything.
        """
        b = self.parameter.to(z.dtype)
        first = (torch.sign(y - z) / b).flatten(1)
        information = (1 / b.square()).expand_as(z).flatten(1)
        return first, torch.diag_embed(information)

    def _halves(self, e: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Arguments of the two normal distribution functions, and the logs of the two terms."""
        b, std = self.parameter, variance.sqrt()
        below, above = e / std - std / b, -(e / std + std / b)
        return below, above, log_ndtr(below) - e / b, log_ndtr(above) + e / b

    def _log_density(self, e: Tensor, variance: Tensor) -> Tensor:
        b = self.parameter
        _, _, low, high = self._halves(e, variance)
        return torch.logaddexp(low, high) + variance / (2 * b * b) - (2 * b).log()

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """In closed form, in double precision."""
        found = self.elementwise_log_evidence(y.double(), mean.double(), variance.double())
        return found.flatten(1).sum(1).to(mean.dtype)

    def elementwise_log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Log evidence of every number, in double precision."""
        return self._log_density(y - mean, variance.clamp_min(_LEAST_VARIANCE))

    def cumulative(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """``P(Y <= y)`` of every number, in double precision.

        With ``t = e / sqrt v``, ``s = sqrt v / b`` and Mills' ratio R it is ``Phi(t) - phi(t)
        (R(s - t) - R(s + t)) / 2`` (Reed, "The normal-Laplace distribution", 2006, eq. 11).
        """
        std = variance.clamp_min(_LEAST_VARIANCE).sqrt()
        t, s = (y - mean) / std, std / self.parameter
        far = t.abs()  # in the lower half, and by symmetry
        tail = ndtr(-far) + 0.5 * (_mills(far, s, -1) - _mills(far, s, 1))
        return torch.where(t < 0, tail, 1 - tail)

    def moments(self, mean: Tensor, variance: Tensor) -> Moments:
        """Mean and variance of the output, and ``2 b^2``."""
        return mean, variance, (2 * self.parameter.square()).expand_as(mean)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """In closed form; see the class."""
        b, dtype = self.parameter, mean.dtype
        v = variance.double().clamp_min(_LEAST_VARIANCE)
        e = y.double() - mean.double()
        _, _, low, high = self._halves(e, v)
        d_mu = torch.tanh(0.5 * (low - high)) / b
        normal = -0.5 * (e * e / v + v.log() + math.log(2 * math.pi))
        log_evidence = torch.logaddexp(low, high) + v / (2 * b * b) - (2 * b).log()
        peak = torch.exp(normal - log_evidence) / (b * b)
        d_var = 1 / (b * b) - d_mu * d_mu - peak
        return d_mu.to(dtype), torch.maximum(d_var.clamp(max=0), -1 / v).to(dtype)

    def expected_statistic(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """``E|y - z|``: the means of two truncated normals, each with its share."""
        v = variance.clamp_min(_LEAST_VARIANCE)
        below, above, low, high = self._halves(y - mean, v)
        share = torch.sigmoid(low - high)
        return v.sqrt() * (share * _beyond(below) + (1 - share) * _beyond(above))

    def parameter_from_statistic(self, statistic: Tensor) -> Tensor:
        """The mean absolute error."""
        return statistic.clamp_min(_LEAST_SCALE)

    def statistic_from_parameter(self, parameter: Tensor) -> Tensor:
        """The scale itself."""
        return parameter

    def predictive(self, mean: Tensor, variance: Tensor) -> DistributionMixturePredictive:
        """Exact: all members."""
        return mixture_over_nodes(self, mean, variance)

    def conditional(self, z: Tensor) -> Distribution:
        """The distribution of targets, given the outputs."""
        return Distribution(z, self.parameter.to(z.dtype).expand_as(z), validate_args=False)

    def config(self) -> dict[str, Any]:
        """See ``Likelihood``."""
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
