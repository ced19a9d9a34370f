"""Normal observations whose noise the network predicts.

The network has two outputs per target, all means first and then all log noise variances (they
are not interleaved): ``y = z_1 + v`` with ``v ~ N(0, exp(z_2))``.

The integral over z_1 is closed; the one over z_2 is a sum over even nodes ``nu_i`` around the peak
of the integrand (``tractable.likelihoods.quadrature``), as nodes placed by the Gaussian alone miss
a likelihood that is narrow in z_2 or far from its mean.  With ``S_i = var_1 + exp(nu_i)``,
``e = y - mu_1`` and the weights ``r_i`` of the nodes given y, the messages to z_1 are averages over
r, and those to z_2 are ``(E_r[nu] - mu_2) / var_2`` and ``(Var_r[nu] / var_2 - 1) / var_2``.

Exact: up to the quadrature (nine digits; two where the integrand has two peaks, which takes a
residual of many deviations and a mean of the log noise far below it), and z_1, z_2 independent.
Approximate: an observation that makes the noise *less* certain leaves its variance as it is.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, distributions
from typing_extensions import override

from tractable.likelihoods import quadrature
from tractable.likelihoods.base import HeldOut, Likelihood, Traits
from tractable.likelihoods.calibration import calibrated_scale
from tractable.likelihoods.targets import real_targets
from tractable.predictive import NormalPredictive

MAX_NODES = 180
_LOG_NOISE_RANGE = 14.0  # log noise variance: std from 1e-3 to 1e3 of standardized targets
_TINY = 1e-30  # smallest variance of a log noise that is divided by
_SOLVE = 4  # Newton steps, to the bound of the peak and to the peak
_SCAN = 16  # intervals in which the peak is looked for
_SMALL = 0.01  # variance of a log noise below which averages of derivatives are more accurate
_LITTLE = 0.1  # share of the variance that is left, below which they are not
# Variance of a log noise below which its nodes differ by rounding only, so that the share of the
# variance that is left cannot be computed from them.
_RESOLVED = 1e-24


class HeteroscedasticNormal(Likelihood):
    """``y ~ N(z_1, exp(z_2))``; the network gives ``[z_1, z_2]`` along its last dimension.

    Args:
        nodes: number of nodes for the integral over the log noise; at least 80 are used.  The
            compiled kernel chooses their number for each value.
    """

    traits = Traits(supports_calibration=True, supports_extra_variance=True, supports_outliers=True)
    noise_scale: Tensor

    def __init__(self, nodes: int = quadrature.NODES) -> None:
        super().__init__()
        if nodes < 2:
            raise ValueError(f"nodes must be at least 2, got {nodes}")
        if nodes > MAX_NODES:
            raise ValueError(f"nodes must be at most {MAX_NODES}, got {nodes}")
        self.nodes = nodes
        # On the noise of predictions, fitted to held-out rows; learning does not depend on it.
        self.register_buffer("noise_scale", torch.ones((), dtype=torch.float64))

    @property
    @override
    def outputs_needed(self) -> int:
        return 2

    @override
    def check_targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        if outputs[-1] % 2:
            raise ValueError(
                f"a predicted noise needs two outputs per target, the network gives {outputs[-1]}"
            )
        return real_targets(y, torch.Size([*outputs[:-1], outputs[-1] // 2]))

    @property
    def noise(self) -> dict[str, Tensor]:
        """The factor on the noise variance of predictions; the network predicts the rest."""
        return {"noise_scale": self.noise_scale}

    def check_buffers(self, values: dict[str, Tensor]) -> None:
        """Check also that the factor is positive."""
        super().check_buffers(values)
        if not float(values["noise_scale"]) > 0:
            raise ValueError(f"noise_scale must be positive, got {float(values['noise_scale'])}")

    @override
    def conditional(self, z: Tensor) -> distributions.Normal:
        mu, log_noise = z.chunk(2, -1)
        std = (_noise(log_noise) * self.noise_scale.to(z.dtype)).sqrt()
        return distributions.Normal(mu, std, validate_args=False)

    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        """Return ``log p(y|z)`` with the log noise variance clamped to [-14, 14]."""
        mu, log_noise = z.chunk(2, -1)
        log_noise = log_noise.clamp(-_LOG_NOISE_RANGE, _LOG_NOISE_RANGE)
        density = -0.5 * ((y - mu) ** 2 * torch.exp(-log_noise) + log_noise + math.log(2 * math.pi))
        return density.flatten(1).sum(1)

    def _nodes(self, e: Tensor, var_1: Tensor, mu_2: Tensor, var_2: Tensor) -> quadrature.Nodes:
        """Return nodes where the integrand over the log noise is large."""
        with torch.no_grad():  # the integral does not depend on where its nodes are
            density = partial(_log_density, e, var_1)
            peak = _peak(e, var_1, mu_2, var_2)
            low, high = quadrature.extent(density, peak, mu_2, var_2)
            # Where the noise is expected to be small there may be a second peak, at its mean.
            fallen = density(mu_2 + var_2.sqrt() * peak) - 0.5 * peak * peak - density(mu_2)
            second = (_noise(mu_2) < var_1) & (peak > 0) & (fallen < quadrature.FALL)
            widest = torch.full_like(low, -math.sqrt(2 * quadrature.FALL))
            low = torch.where(second, torch.minimum(low, widest), low)
            return quadrature.even(low, high, max(self.nodes, quadrature.NODES))

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the log evidence by quadrature over the log noise, in double precision."""
        mu_1, mu_2 = mean.double().chunk(2, -1)
        var_1, var_2 = variance.double().chunk(2, -1)
        e = y.double() - mu_1
        nodes = self._nodes(e.detach(), var_1.detach(), mu_2.detach(), var_2.detach())
        found = quadrature.log_evidence(partial(_log_density, e, var_1), nodes, mu_2, var_2)
        return found.flatten(1).sum(1).to(mean.dtype)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Return averages over the nodes; see the module."""
        mu_1, mu_2 = mean.double().chunk(2, -1)
        var_1, var_2 = variance.double().chunk(2, -1)
        e = y.double() - mu_1
        nodes = self._nodes(e, var_1, mu_2, var_2)
        nu, r = quadrature.posterior(partial(_log_density, e, var_1), nodes, mu_2, var_2)
        total = var_1 + _noise(nu)
        pull = e / total
        d_mu_1 = (r * pull).sum(0)
        d_var_1 = (r * ((pull - d_mu_1) ** 2 - 1 / total)).sum(0)
        v, shift = var_2.clamp_min(_TINY), nu - mu_2
        moved = (r * shift).sum(0)
        left = (r * (shift - moved) ** 2).sum(0) / v
        score, bend = _derivatives(e, var_1, nu)
        d_mu_2 = (r * score).sum(0)
        by_scores = (r * (bend + (score - d_mu_2) ** 2)).sum(0)
        d_mu_2 = torch.where(v > _SMALL, moved / v, d_mu_2)
        by_variance = (v > _SMALL) | ((left < _LITTLE) & (v > _RESOLVED))
        d_var_2 = torch.where(by_variance, (left - 1) / v, by_scores)
        d_mu, d_var = torch.cat([d_mu_1, d_mu_2], -1), torch.cat([d_var_1, d_var_2], -1)
        return d_mu.to(mean.dtype), d_var.clamp(max=0).to(mean.dtype)

    @override
    def predicted_targets(
        self, y: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        loc, within, noise = self._matched(mean, variance)
        return y, loc, (within + noise).double()

    def _matched(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the mean, its variance, and the mean of the log-normal noise."""
        mu_1, mu_2 = mean.chunk(2, -1)
        var_1, var_2 = variance.chunk(2, -1)
        log_noise = (mu_2 + 0.5 * var_2).clamp(-_LOG_NOISE_RANGE, _LOG_NOISE_RANGE)
        return mu_1, var_1, log_noise.exp()

    def predictive(self, mean: Tensor, variance: Tensor) -> NormalPredictive:
        """Return a normal prediction whose noise variance is the mean of the log-normal noise."""
        loc, within, noise = self._matched(mean, variance)
        return NormalPredictive(loc, within, noise * self.noise_scale.to(noise.dtype))

    @override
    def held_out_scale(self, held_out: list[HeldOut], *, outliers: bool = False) -> float:
        return calibrated_scale(held_out)

    @override
    def rescale(self, scale: float) -> None:
        self.noise_scale = self.noise_scale * scale

    @override
    def config(self) -> dict[str, Any]:
        return {"nodes": self.nodes}


def _noise(log_noise: Tensor) -> Tensor:
    return log_noise.clamp(-_LOG_NOISE_RANGE, _LOG_NOISE_RANGE).exp()


def _log_density(e: Tensor, var_1: Tensor, log_noise: Tensor) -> Tensor:
    """``log N(e; 0, var_1 + noise)``."""
    total = var_1 + _noise(log_noise)
    return -0.5 * (e * e / total + total.log() + math.log(2 * math.pi))


def _derivatives(e: Tensor, var_1: Tensor, log_noise: Tensor) -> tuple[Tensor, Tensor]:
    """First and second derivative of ``_log_density`` in the log noise."""
    noise = _noise(log_noise)
    share = noise / (var_1 + noise)
    chi2 = e * e / (var_1 + noise)
    inside = (log_noise.abs() < _LOG_NOISE_RANGE).to(share.dtype)
    first = 0.5 * share * (chi2 - 1) * inside
    return first, first + 0.5 * share * share * (1 - 2 * chi2) * inside


def _peak(e: Tensor, var_1: Tensor, mu_2: Tensor, var_2: Tensor) -> Tensor:
    """About where the integrand over the log noise is greatest, in deviations from its mean.

    The shift d from the mean lies on the side of the peak of the likelihood, which is at
    ``noise = e^2 - var_1``.  It is at least ``-var_2 / 2`` and at most ``w - var_2 / 2`` with
    ``w e^w = var_2 / 2 e^2 exp(var_2 / 2 - mu_2)``, the shift for ``var_1 = 0``.  There may be two
    peaks: the shifts in between are scanned first.
    """
    v, squared = var_2.clamp_min(_TINY), (e * e).clamp_min(torch.finfo(e.dtype).tiny)
    top = (e * e - var_1).clamp_min(math.exp(-_LOG_NOISE_RANGE)).log()
    top = top.clamp(max=_LOG_NOISE_RANGE) - mu_2
    a = (0.5 * v).log() + squared.log() - mu_2 + 0.5 * v  # log w + w = a
    u = torch.where(a > 1, a.clamp_min(1).log(), a)
    for _ in range(_SOLVE):
        grown = u.exp()
        u = (a + grown * (u - 1)) / (grown + 1)
    most = (u.exp() - 0.5 * v).clamp_min(0)
    span = torch.where(top > 0, torch.minimum(top, most), torch.maximum(top, -0.5 * v))
    share = torch.linspace(0, 1, _SCAN + 1, dtype=e.dtype, device=e.device)
    shifts = span * share.reshape(-1, *[1] * e.ndim)
    height = _log_density(e, var_1, mu_2 + shifts) - 0.5 * shifts * shifts / v
    d = shifts.gather(0, height.argmax(0, keepdim=True)).squeeze(0)
    low, high = span.clamp(max=0), span.clamp(min=0)
    for _ in range(_SOLVE):
        score, bend = _derivatives(e, var_1, mu_2 + d)
        d = d - (d - v * score) / (1 - v * bend.clamp(max=0))
        d = torch.minimum(torch.maximum(d, low), high)
    return d * v.rsqrt()
