"""Normal observations with a known noise, or one that is inferred along with the weights.

The noise is inferred as in *approximate Gaussian variance inference* (Deka, Nguyen & Goulet,
"Analytically tractable heteroscedastic uncertainty quantification in Bayesian neural networks
for regression tasks", 2024): the noise variance itself has a mean m and a variance s.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, distributions
from typing_extensions import override

from tractable.errors import InvalidTarget
from tractable.gaussian import Gaussian
from tractable.likelihoods.base import HeldOut, Likelihood, Traits, require_type
from tractable.likelihoods.noise import repeat_targets
from tractable.likelihoods.outliers import robust_chi2
from tractable.likelihoods.targets import real_targets
from tractable.predictive import NormalPredictive

_MAX_NUMBERS = 1 << 20
"""Numbers in one step of the grid search for a factor: factors times held-out values."""
_ROUNDING = 2.0**-46
"""Square of the relative rounding of a single-precision target."""
_MIN_NOISE = 1e-24
"""Smallest mean squared residual, where even the targets are zero."""


class Normal(Likelihood):
    """``y = z + v`` with ``v ~ N(0, sigma^2)``, one noise per output.

    A target may have a variance of its own: the noise of a ``Gaussian`` target is its variance
    plus ``sigma^2``.

    Exact: evidence and messages; the moments of the squared residuals that the noise is inferred
    from.  Approximate: an inferred noise variance is treated as Gaussian, and the residuals of a
    batch as independent.

    Args:
        sigma: standard deviation of the noise.  Default: inferred, one per output, together with
            the weights (for targets of about unit scale).
        outputs: number of outputs; needed if ``sigma`` is None and there are several.
        outliers: whether a few targets may be grossly wrong although ``sigma`` is known: a robust
            ``TAGI`` then gives them less weight, as it does with an inferred noise.  Not for a
            network that is far from fitted: its large residuals look like outliers.
        missing: whether targets may be NaN, that is, not observed.  A missing target sends no
            message and does not change the noise of its output.  For several outputs of which
            each row has some (series of different lengths, sensors that fail); for targets of
            several kinds see ``Joint``.  Outliers are then not given less weight.
    """

    noise_mean: Tensor
    noise_variance: Tensor

    def __init__(
        self,
        sigma: float | None = None,
        outputs: int = 1,
        *,
        outliers: bool = False,
        missing: bool = False,
    ) -> None:
        super().__init__()
        if sigma is not None and not (math.isfinite(sigma) and sigma > 0):
            raise ValueError(f"sigma must be a positive number, got {sigma}")
        if outputs < 1:
            raise ValueError(f"outputs must be at least 1, got {outputs}")
        if outliers and missing:
            raise ValueError("outliers=True is not possible with missing=True: give one of them")
        self.sigma, self.outputs = sigma, outputs
        self.outliers, self.missing = bool(outliers), bool(missing)
        self.traits = Traits(
            learns_noise=sigma is None,
            supports_calibration=True,
            supports_extra_variance=True,
            supports_missing=self.missing,
            supports_outliers=(sigma is None or self.outliers) and not self.missing,
            supports_vmap=not self.missing,
        )
        # Unit prior on the noise variance; the result hardly depends on it.
        start = torch.ones(outputs, dtype=torch.float64)
        self.register_buffer("noise_mean", start * (1 if sigma is None else sigma**2))
        self.register_buffer("noise_variance", start * (1 if sigma is None else 0))

    @property
    def targets_needed(self) -> int:
        """Number of targets per row."""
        return self.outputs

    @property
    def noise(self) -> dict[str, Tensor]:
        """Standard deviation ``sigma`` of each output."""
        return {"sigma": self.noise_mean.sqrt()}

    @override
    def check_targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        if self.sigma is None and outputs[-1] != self.outputs:
            raise ValueError(
                f"the network has {outputs[-1]} outputs and the likelihood {self.outputs}: "
                f"give Normal(outputs={outputs[-1]})"
            )
        if isinstance(y, Gaussian):
            if self.missing:
                raise InvalidTarget("Normal(missing=True) takes numbers and NaN, not error bars")
            loc = real_targets(y.loc, outputs)
            return Gaussian.wrap(loc, y.variance.reshape(loc.shape))
        if not self.missing or not y.is_floating_point():
            return real_targets(y, outputs)
        missing = y.isnan()
        checked = real_targets(torch.where(missing, 0.0, y), outputs)
        return torch.where(missing.reshape(checked.shape), torch.nan, checked)

    def _noise(self, like: Tensor) -> Tensor:
        return self.noise_mean.to(like.dtype)

    @override
    def conditional(self, z: Tensor) -> distributions.Normal:
        return distributions.Normal(z, self._noise(z).sqrt().expand_as(z), validate_args=False)

    @override
    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        return self.log_evidence(y, z, torch.zeros_like(z))

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return ``log N(y; mean, variance + noise)``, summed over the observed targets."""
        y, variance = _observed(y, variance)
        total = variance + self._noise(mean)
        if self.missing:
            observed, y = _fill_missing(y, mean)
            density = -0.5 * ((y - mean) ** 2 / total + (2 * math.pi * total).log())
            return (density * observed).flatten(1).sum(1)
        density = -0.5 * ((y - mean) ** 2 / total + total.log() + math.log(2 * math.pi))
        return density.flatten(1).sum(1)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``(y - mean) / S`` and ``-1 / S`` with ``S = variance + noise``."""
        y, variance = _observed(y, variance)
        observed = None
        if self.missing:
            observed, y = _fill_missing(y, mean)
        precision = 1 / (variance + self._noise(mean))
        d_mu, d_var = (y - mean) * precision, -precision
        return (d_mu, d_var) if observed is None else (d_mu * observed, d_var * observed)

    @override
    def predicted_targets(
        self, y: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        target, variance = _observed(y, variance)
        return target, mean, variance + self.noise_mean  # which is in double precision

    # --- inferring the noise ---------------------------------------------------------------

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
        The rows of a batch are averaged, which divides R by their number B.  A ``weight``
        multiplies the residual; with ``memory_rows = N``, s is at least ``2 m^2 / N``, so that the
        gain of a row stays above ``1 / (N + 3)``.

        Args: as ``Noise.update_noise``.
        """
        if self.sigma is not None:
            return {}
        y, variance = _observed(y, variance)
        m, s = self.noise_mean, self.noise_variance
        if memory_rows is not None:
            s = torch.maximum(s, 2 * m * m / memory_rows)
        flat = (-1, self.outputs)
        observed = torch.ones_like(mean)
        if self.missing:
            found, y = _fill_missing(y, mean)
            observed = found.to(mean.dtype)
        residual = (y - mean).reshape(flat).to(m.dtype)
        if weight is not None:
            residual = residual * weight.reshape(flat)
        var, observed = (part.reshape(flat).to(m.dtype) for part in (variance, observed))
        count = observed.sum(0)
        rows = count.clamp(min=1)
        share = m / (var + m)
        e, p = share * residual, share * var
        # A noise of zero would let the variances of the weights vanish where targets are exact:
        # it stays above the rounding of the targets.  Targets count with their weight, as the
        # rounding of an outlier is not that of the values beside it.
        weighted = mean.reshape(flat).to(m.dtype) + residual
        rounding = _ROUNDING * (weighted.square() * observed).sum(0) / rows
        square = ((e * e + p) * observed).sum(0) / rows
        square = torch.maximum(square, rounding.clamp_min(_MIN_NOISE))
        left = ((2 * p * p + 4 * p * e * e) * observed).sum(0) / rows / rows
        total = s + 2 * (s + m * m) / rows
        gain = torch.where(count > 0, s / total, torch.zeros_like(s))
        return {
            "noise_mean": m + gain * (square - m),
            "noise_variance": s - gain * gain * (total - left).clamp(min=0),
        }

    def sufficient_statistics(self, y: Tensor, z: Tensor) -> Tensor | None:
        """Return squared residuals of each output, summed over rows, and the rows of each."""
        if self.sigma is not None:
            return None
        if isinstance(y, Gaussian):
            raise TypeError(
                "Bayes by Backprop and Backprop cannot infer the noise from targets that have "
                "variances: give Normal(sigma=...), or learn with TAGI"
            )
        y, dtype = repeat_targets(y, z), self.noise_mean.dtype
        if self.missing:
            observed, y = _fill_missing(y, z)
            squares = ((y - z).square() * observed).reshape(-1, self.outputs).to(dtype)
            count = observed.reshape(-1, self.outputs).to(dtype).sum(0)
        else:
            squares = (y - z).reshape(-1, self.outputs).to(dtype).square()
            count = squares.new_full((self.outputs,), len(squares))
        return torch.cat([squares.sum(0), count])

    def m_step(self, statistics: Tensor) -> None:
        """Set the noise to the mean squared residual; an output without targets keeps its noise.

        The variance of the noise is that of a mean of so many squares, so that one more row,
        learned online, has no more weight than the others.
        """
        squares, count = statistics.chunk(2)
        smallest = torch.finfo(torch.float32).eps
        found = (squares / count.clamp(min=1)).clamp_min(smallest)
        spread = 2 * found.square() / count.clamp(min=1)
        self.noise_variance = torch.where(count > 0, spread, self.noise_variance)
        self.noise_mean = torch.where(count > 0, found, self.noise_mean)

    def check_buffers(self, values: dict[str, Tensor]) -> None:
        """Check also that no variance is negative."""
        super().check_buffers(values)
        for name, value in values.items():
            if bool((value < 0).any()):
                raise ValueError(f"{name} of the noise is negative")

    # --- held-out rows ---------------------------------------------------------------------

    def held_out_scale(self, held_out: list[HeldOut], *, outliers: bool = False) -> float:
        """Return the noise factor of largest held-out likelihood, of 401 that are 2.5 % apart."""
        squares, variances, noises = [], [], []
        for likelihood, y, mean, var in held_out:
            noise = require_type(likelihood, Normal).noise_mean.expand_as(mean)
            if self.missing:
                observed = ~y.isnan()
                y, mean, var, noise = (part[observed] for part in (y, mean, var, noise))
            squares.append(((y - mean) ** 2).flatten().double())
            variances.append(var.flatten().double())
            noises.append(noise.flatten())
        square, variance, noise_variance = map(torch.cat, (squares, variances, noises))
        log_scales = torch.linspace(-5, 5, 401, dtype=torch.float64, device=square.device)
        fits = []
        for some in log_scales.split(max(_MAX_NUMBERS // len(square), 1)):
            total = variance + some.exp().unsqueeze(1) * noise_variance
            chi2 = square / total
            fits.append(-((robust_chi2(chi2) if outliers else chi2) + total.log()).mean(1))
        return float(log_scales[int(torch.cat(fits).argmax())].exp())

    @override
    def held_out_log_prob(
        self, y: Tensor, mean: Tensor, variance: Tensor, *, outliers: bool = False
    ) -> Tensor:
        if self.missing:
            return self.log_evidence(y, mean, variance).double()
        if not outliers:
            return super().held_out_log_prob(y, mean, variance)
        total = variance.double() + self.noise_mean
        chi2 = (y - mean).double().square() / total
        density = -0.5 * (robust_chi2(chi2) + total.log() + math.log(2 * math.pi))
        return density.flatten(1).sum(1)

    def rescale(self, scale: float) -> None:
        """Multiply the noise variance; its relative uncertainty stays the same."""
        self.noise_mean = self.noise_mean * scale
        self.noise_variance = self.noise_variance * scale**2

    @override
    def predictive(self, mean: Tensor, variance: Tensor) -> NormalPredictive:
        return NormalPredictive(mean, variance, self._noise(mean).expand_as(mean))

    @override
    def config(self) -> dict[str, Any]:
        config: dict[str, Any] = {"sigma": self.sigma, "outputs": self.outputs}
        return config | {name: True for name in ("outliers", "missing") if getattr(self, name)}


def _observed(y: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """Return targets as numbers, and the variance around them that is not noise."""
    if isinstance(y, Gaussian):
        return y.loc, variance + y.variance
    return y, variance


def _fill_missing(y: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Return which targets are observed, and targets with finite numbers for missing ones."""
    missing = y.isnan()
    return ~missing, torch.where(missing, mean.detach().to(y.dtype), y)
