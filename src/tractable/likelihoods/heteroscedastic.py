"""Normal observations whose noise the network predicts.

The network has two outputs per target, all means first and then all log noise variances (they
are not interleaved): ``y = z_1 + v`` with ``v ~ N(0, exp(z_2))``.

The integral over z_1 is closed; the one over z_2 is a Gauss-Hermite sum over nodes ``nu_i`` with
weights ``w_i``.  With ``S_i = var_1 + exp(nu_i)``, ``e = y - mu_1`` and responsibilities
``r_i ~ w_i N(e; 0, S_i)``, the derivatives of the log evidence are averages over r.

Exact: up to the quadrature, and z_1, z_2 independent.
Approximate: an observation that makes the noise *less* certain leaves its variance as it is, and
a residual of more than a hundred deviations tells the noise no more than one of a hundred.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tractable.likelihoods.base import Heard, HeldOut, Likelihood, real_targets
from tractable.likelihoods.gate import Gate, Verdict
from tractable.likelihoods.scaling import best_scale
from tractable.predictive import NormalPredictive

MOST_NODES = 180
"""With more of them the weights of the outermost underflow."""
_MOST_SURPRISE = 1e4
"""Squared residual over variance, at most."""
_LOG_NOISE_RANGE = 14.0  # log noise variance: deviations from 1e-3 to 1e3 of standardised targets


class HeteroscedasticNormal(Likelihood):
    """``y ~ N(z_1, exp(z_2))``; the network gives ``[z_1, z_2]`` along its last dimension.

    Args:
        nodes: number of Gauss-Hermite nodes for the integral over the log noise.
    """

    noise_scale: Tensor
    points: Tensor
    log_weights: Tensor

    def __init__(self, nodes: int = 20) -> None:
        super().__init__()
        if nodes < 2:
            raise ValueError(f"nodes must be at least 2, got {nodes}")
        if nodes > MOST_NODES:
            raise ValueError(f"nodes must be at most {MOST_NODES}, got {nodes}")
        self.nodes = nodes
        # On the noise of predictions, fitted to held-out rows; learning does not depend on it.
        self.register_buffer("noise_scale", torch.ones((), dtype=torch.float64))
        points, weights = np.polynomial.hermite.hermgauss(nodes)
        self.register_buffer("points", torch.tensor(points) * math.sqrt(2), persistent=False)
        log_weights = torch.tensor(np.log(weights)) - 0.5 * math.log(math.pi)
        self.register_buffer("log_weights", log_weights, persistent=False)

    @classmethod
    def added_buffers(cls) -> dict[str, Tensor]:
        """See ``Likelihood``."""
        return {"noise_scale": torch.ones((), dtype=torch.float64)}

    def check_buffers(self, values: dict[str, Tensor]) -> None:
        """A factor is positive."""
        super().check_buffers(values)
        if not float(values["noise_scale"]) > 0:
            raise ValueError("the factor on the noise must be positive")

    @property
    def outputs_needed(self) -> int:
        """See ``Likelihood``."""
        return 2

    @property
    def can_widen(self) -> bool:
        """See ``Likelihood``."""
        return True

    def targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        """See ``Likelihood``."""
        if outputs[-1] % 2:
            raise ValueError(
                f"a predicted noise needs two outputs per target, the network gives {outputs[-1]}"
            )
        return real_targets(y, torch.Size([*outputs[:-1], outputs[-1] // 2]))

    def _terms(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, ...]:
        """Per node: log of weight times density, residual squared, S, and the noise variance."""
        mu_1, mu_2 = mean.chunk(2, -1)
        var_1, var_2 = variance.chunk(2, -1)
        nu = mu_2.unsqueeze(-1) + var_2.sqrt().unsqueeze(-1) * self.points.to(mean.dtype)
        noise = nu.clamp(-_LOG_NOISE_RANGE, _LOG_NOISE_RANGE).exp()
        total = var_1.unsqueeze(-1) + noise
        e = (y - mu_1).unsqueeze(-1)
        log_density = -0.5 * (e * e / total + total.log() + math.log(2 * math.pi))
        return log_density + self.log_weights.to(mean.dtype), e, total, noise

    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        """See ``Likelihood``."""
        mu, log_noise = z.chunk(2, -1)
        density = -0.5 * ((y - mu) ** 2 * torch.exp(-log_noise) + log_noise + math.log(2 * math.pi))
        return density.flatten(1).sum(1)

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Gauss-Hermite sum over the log noise."""
        return self._terms(y, mean, variance)[0].logsumexp(-1).flatten(1).sum(1)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Derivatives of the Gauss-Hermite sum."""
        log_terms, e, total, noise = self._terms(y, mean, variance)
        r = log_terms.softmax(-1)
        pull = e / total
        d_mu_1 = (r * pull).sum(-1)
        d_var_1 = (r * (pull * pull - 1 / total)).sum(-1) - d_mu_1**2
        # Derivative of each log density in the log noise, and its own derivative.
        surprise = (e * pull).clamp(max=_MOST_SURPRISE)
        share = noise / total
        g = 0.5 * share * (surprise - 1)
        slope = g + 0.5 * share * share * (1 - 2 * surprise)
        d_mu_2 = (r * g).sum(-1)
        d_var_2 = (r * (g * g + slope)).sum(-1) - d_mu_2**2
        d_mu = torch.cat([d_mu_1, d_mu_2], -1)
        return d_mu, torch.cat([d_var_1, d_var_2], -1).clamp(max=0)

    def judge(self, gate: Gate, y: Tensor, mean: Tensor, variance: Tensor) -> Verdict:
        """What a gate says of observations; the noise is expected to be as it was learnt.

        Its level is one for all targets, as the noise is a function and no number of each.
        """
        located, within, noise = self._matched(mean, variance)
        return gate.judge(y, located, (within + noise).double())

    def hear(
        self,
        y: Tensor,
        mean: Tensor,
        variance: Tensor,
        *,
        weight: Tensor | None = None,
        memory: float | None = None,
    ) -> Heard:
        """See ``Likelihood``; a weight counts for the mean and for the noise of a target."""
        d_mu, d_var = self.messages(y, mean, variance)
        if weight is None:
            return Heard(d_mu, d_var, d_var, {})
        both = torch.cat([weight, weight], -1).to(d_mu.dtype)
        return Heard(d_mu * both, d_var * both, d_var, {})

    def _matched(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, its variance, and the mean of the log-normal noise."""
        mu_1, mu_2 = mean.chunk(2, -1)
        var_1, var_2 = variance.chunk(2, -1)
        log_noise = (mu_2 + 0.5 * var_2).clamp(-_LOG_NOISE_RANGE, _LOG_NOISE_RANGE)
        return mu_1, var_1, log_noise.exp()

    def predictive(self, mean: Tensor, variance: Tensor) -> NormalPredictive:
        """Moment-matched: the aleatoric variance is the mean of the log-normal noise."""
        located, within, noise = self._matched(mean, variance)
        return NormalPredictive(located, within, noise * self.noise_scale.to(noise.dtype))

    def held_out_scale(self, held_out: list[HeldOut], *, outliers: bool = False) -> float:
        """See ``Likelihood``."""
        return best_scale(held_out)

    def rescale(self, scale: float) -> None:
        """See ``Likelihood``."""
        self.noise_scale = self.noise_scale * scale

    def config(self) -> dict[str, Any]:
        """See ``Likelihood``."""
        return {"nodes": self.nodes}
