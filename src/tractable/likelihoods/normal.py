"""Normal observations, with a known noise or one that is inferred along with the weights.

The noise is inferred as in *approximate Gaussian variance inference* (Deka, Nguyen & Goulet,
"Analytically tractable heteroscedastic uncertainty quantification in Bayesian neural networks
for regression tasks", 2024): the noise variance itself has a mean m and a variance s.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tractable.gaussian import Gaussian
from tractable.likelihoods.base import HeldOut, Likelihood, Messages, real_targets, require_type
from tractable.likelihoods.gate import OutlierGate, OutlierWeights, gated
from tractable.predictive import NormalPredictive

_AT_ONCE = 1 << 20  # numbers, of factors times held-out values
_ROUNDING = 2.0**-46
"""Square of the relative rounding of a single-precision target."""
_LEAST_NOISE = 1e-24
"""What is taken for the square of a residual where even the targets are zero."""


class Normal(Likelihood):
    """``y = z + v`` with ``v ~ N(0, sigma^2)``, each output with the same kind of noise.

    Args:
        sigma: standard deviation of the noise; ``None`` infers one noise per output while the
            weights are learnt (for targets of about unit scale).
        outputs: number of outputs, needed when ``sigma`` is ``None`` and there are several.
        outliers: whether targets may be grossly wrong now and then although ``sigma`` is known: a
            robust ``TAGI`` then weighs them down (``tractable.likelihoods.gate``), as it does
            with a noise that is inferred.  Not for a network that has much to learn still: what
            it has not seen looks like outliers.

    Targets may have error bars of their own: a ``Gaussian`` target is an observation whose noise
    has the target's variance on top of ``sigma^2``.
    """

    noise_mean: Tensor
    noise_variance: Tensor

    def __init__(
        self, sigma: float | None = None, outputs: int = 1, *, outliers: bool = False
    ) -> None:
        super().__init__()
        if sigma is not None and not (math.isfinite(sigma) and sigma > 0):
            raise ValueError(f"sigma must be a positive number, got {sigma}")
        if outputs < 1:
            raise ValueError(f"outputs must be at least 1, got {outputs}")
        self.sigma = sigma
        self.outputs = outputs
        self.outliers = bool(outliers)
        # Unit prior on the noise variance; the start value hardly matters.
        start = torch.ones(outputs, dtype=torch.float64)
        self.register_buffer("noise_mean", start * (1 if sigma is None else sigma**2))
        self.register_buffer("noise_variance", start * (1 if sigma is None else 0))

    @property
    def learns_noise(self) -> bool:
        """Whether the noise is inferred from the data."""
        return self.sigma is None

    @property
    def gates(self) -> bool:
        """Whether a robust learner weighs down values that are far off."""
        return self.learns_noise or self.outliers

    @property
    def targets_needed(self) -> int:
        """See ``Likelihood``."""
        return self.outputs

    @property
    def has_learnable_noise(self) -> bool:
        """A known noise stays."""
        return self.learns_noise

    @property
    def can_widen(self) -> bool:
        """See ``Likelihood``."""
        return True

    def targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        """See ``Likelihood``."""
        if self.learns_noise and outputs[-1] != self.outputs:
            raise ValueError(
                f"the network has {outputs[-1]} outputs and the likelihood {self.outputs}: "
                f"give Normal(outputs={outputs[-1]})"
            )
        if isinstance(y, Gaussian):
            loc = real_targets(y.loc, outputs)
            return Gaussian.wrap(loc, y.variance.reshape(loc.shape))
        return real_targets(y, outputs)

    def _noise(self, like: Tensor) -> Tensor:
        return self.noise_mean.to(like.dtype)

    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        """See ``Likelihood``."""
        return self.log_evidence(y, z, torch.zeros_like(z))

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """``log N(y; mean, variance + noise)``."""
        y, variance = _observed(y, variance)
        total = variance + self._noise(mean)
        density = -0.5 * ((y - mean) ** 2 / total + total.log() + math.log(2 * math.pi))
        return density.flatten(1).sum(1)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """``(y - mean) / S`` and ``-1 / S`` with ``S = variance + noise``."""
        y, variance = _observed(y, variance)
        precision = 1 / (variance + self._noise(mean))
        return (y - mean) * precision, -precision

    def weigh(self, gate: OutlierGate, y: Tensor, mean: Tensor, variance: Tensor) -> OutlierWeights:
        """What a gate says of observations, given the moments of the outputs."""
        target, spread = _observed(y, variance)
        return gate.weigh(target, mean, spread + self.noise_mean)  # which is double

    def hear(
        self,
        y: Tensor,
        mean: Tensor,
        variance: Tensor,
        *,
        weight: Tensor | None = None,
        memory_rows: float | None = None,
    ) -> Messages:
        """See ``Likelihood``."""
        d_mu, d_var = self.messages(y, mean, variance)
        noise = self.update_noise(y, mean, variance, weight=weight, memory_rows=memory_rows)
        if weight is None:
            return Messages(d_mu, d_var, d_var, noise)
        w = weight.to(d_mu.dtype)
        return Messages(d_mu * w, d_var * w, d_var, noise)

    def update_noise(
        self,
        y: Tensor,
        mean: Tensor,
        variance: Tensor,
        *,
        weight: Tensor | None = None,
        memory_rows: float | None = None,
    ) -> dict[str, Tensor]:
        """Infer the noise variance from the part of each residual that the weights leave.

        Given y, the noise v of an observation has mean ``e = m/S (y - mu)`` and variance
        ``p = m var / S``; its square has mean ``e^2 + p`` and variance ``2 p^2 + 4 p e^2``.
        A square observed exactly would carry the variance ``R = 2 (s + m^2)`` around m.
        The rows of a batch are averaged, which divides R by their number B.  A ``weight`` of the
        gate multiplies the residual; with ``memory_rows = N``, s is at least ``2 m^2 / N``, so that
        the gain of a row stays above ``1 / (N + 3)``.

        Exact: the moments of the squares.  Approximate: m is treated as Gaussian and the
        residuals of one batch as independent.
        """
        if not self.learns_noise:
            return {}
        y, variance = _observed(y, variance)
        m, s = self.noise_mean, self.noise_variance
        if memory_rows is not None:
            s = torch.maximum(s, 2 * m * m / memory_rows)
        flat = (-1, self.outputs)
        residual = (y - mean).reshape(flat).to(m.dtype)
        if weight is not None:
            residual = residual * weight.reshape(flat)
        var = variance.reshape(flat).to(m.dtype)
        rows = residual.shape[0]
        share = m / (var + m)
        e, p = share * residual, share * var
        # Below the rounding of the targets a residual says nothing; a noise of zero would let the
        # weights' variances vanish where targets are exact.
        # The targets are taken as far as the gate lets them through: the rounding of an outlier
        # is not that of the values beside it.
        believed = mean.reshape(flat).to(m.dtype) + residual
        rounding = _ROUNDING * believed.square().mean(0)
        seen = torch.maximum((e * e + p).mean(0), rounding.clamp_min(_LEAST_NOISE))
        left = (2 * p * p + 4 * p * e * e).mean(0) / rows
        total = s + 2 * (s + m * m) / rows
        gain = s / total
        return {
            "noise_mean": m + gain * (seen - m),
            "noise_variance": s - gain * gain * (total - left).clamp(min=0),
        }

    def sufficient_statistics(self, y: Tensor, z: Tensor) -> Tensor | None:
        """Squared residuals of each output, summed over rows, and the number of rows."""
        if not self.learns_noise:
            return None
        if isinstance(y, Gaussian):
            raise TypeError(
                "Bayes by Backprop and Backprop cannot infer the noise from targets that have "
                "variances: give Normal(sigma=...), or learn with TAGI"
            )
        # Outputs drawn several times come with their copies below each other.
        residual = y.repeat(len(z) // len(y), *[1] * (y.ndim - 1)) - z
        squares = residual.reshape(-1, self.outputs).to(self.noise_mean.dtype).square()
        return torch.cat([squares.sum(0), squares.new_tensor([len(squares)])])

    def m_step(self, statistics: Tensor) -> None:
        """The mean squared residual: the noise of greatest expected likelihood.

        Its variance is that of a mean of so many squares, so that one more row, learnt online,
        weighs no more than the others.
        """
        smallest = torch.finfo(torch.float32).eps
        self.noise_mean = (statistics[:-1] / statistics[-1]).clamp_min(smallest)
        self.noise_variance = 2 * self.noise_mean.square() / statistics[-1]

    def check_buffers(self, values: dict[str, Tensor]) -> None:
        """A variance is not negative."""
        super().check_buffers(values)
        for name, value in values.items():
            if bool((value < 0).any()):
                raise ValueError(f"{name} of the noise is negative")

    def held_out_scale(self, held_out: list[HeldOut], *, outliers: bool = False) -> float:
        """Maximise the held-out likelihood over a grid of factors, in steps of 2.5 %."""
        squares, variances, noises = [], [], []
        for likelihood, y, mean, var in held_out:
            noise = require_type(likelihood, Normal).noise_mean
            squares.append(((y - mean) ** 2).flatten().double())
            variances.append(var.flatten().double())
            noises.append(noise.expand_as(mean).flatten())
        square, variance, noise_variance = (
            torch.cat(squares),
            torch.cat(variances),
            torch.cat(noises),
        )
        log_scales = torch.linspace(-5, 5, 401, dtype=torch.float64, device=square.device)
        fits = []
        for some in log_scales.split(max(_AT_ONCE // len(square), 1)):
            total = variance + some.exp().unsqueeze(1) * noise_variance
            chi2 = square / total
            fits.append(-((gated(chi2) if outliers else chi2) + total.log()).mean(1))
        return float(log_scales[int(torch.cat(fits).argmax())].exp())

    def held_out_log_prob(
        self, y: Tensor, mean: Tensor, variance: Tensor, *, outliers: bool = False
    ) -> Tensor:
        """See ``Likelihood``."""
        if not outliers:
            return super().held_out_log_prob(y, mean, variance)
        total = variance.double() + self.noise_mean
        chi2 = (y - mean).double().square() / total
        density = -0.5 * (gated(chi2) + total.log() + math.log(2 * math.pi))
        return density.flatten(1).sum(1)

    def rescale(self, scale: float) -> None:
        """See ``Likelihood``; what is known of the noise stays the same relative to its size."""
        self.noise_mean = self.noise_mean * scale
        self.noise_variance = self.noise_variance * scale**2

    def predictive(self, mean: Tensor, variance: Tensor) -> NormalPredictive:
        """See ``Likelihood``."""
        return NormalPredictive(mean, variance, self._noise(mean).expand_as(mean))

    def config(self) -> dict[str, Any]:
        """See ``Likelihood``."""
        config: dict[str, Any] = {"sigma": self.sigma, "outputs": self.outputs}
        return {**config, "outliers": True} if self.outliers else config


def _observed(y: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """Targets as numbers, and the variance around them that is not noise."""
    if isinstance(y, Gaussian):
        return y.loc, variance + y.variance
    return y, variance
