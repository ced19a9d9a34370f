"""Angles in radians.

The von Mises density ``exp(k cos(y - z)) / (2 pi I_0(k))`` is a Fourier series, and a Gaussian
output multiplies its n-th term by ``exp(-n^2 v / 2)``, so with ``A_n = I_n(k) / I_0(k)``

    p(y) = 1/2pi [ 1 + 2 sum_n A_n exp(-n^2 v / 2) cos n (y - mean) ]

with as many terms as count.  Where both the output and the noise are narrow the sum of the series
cancels for directions far off, and even nodes over the output serve instead, as many as the
narrower of the two needs.  Both are exact to about ten digits; the messages are their derivatives.
"""

from __future__ import annotations

import copy
import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, distributions
from typing_extensions import override

from tractable.errors import InvalidTarget
from tractable.likelihoods.base import Traits
from tractable.likelihoods.online_em import OnlineEM
from tractable.likelihoods.targets import real_targets
from tractable.predictive.circular import TERMS, CircularPredictive

_WIDE = 0.5
"""Output variance from which the series is used: its least value is then 1e-4 of the greatest."""
_FLAT = 4.0
"""Concentration up to which it is, for the same reason."""
_MAX_TERMS = 400
_MAX_NODES = 4096
_MIN, _MAX = 1e-4, 1e6
_MAX_TURNS = 2


class VonMises(OnlineEM):
    """``y ~ VonMises(z, concentration)``: an angle in radians around the output.

    Exact: the evidence, its derivatives and the expected statistic of the concentration.
    Approximate: an observation that makes an output *less* certain leaves its variance as it is.

    Args:
        concentration: about one over the variance of a narrow noise.  Default: learned.
        outputs: number of angles per row; needed if the concentration is learned and there are
            several.
    """

    traits = Traits(
        supports_calibration=True, supports_output_averaging=False
    )  # angles may differ by turns

    def __init__(self, concentration: float | None = None, outputs: int = 1) -> None:
        super().__init__(concentration, outputs, 0.4464, "concentration")  # of concentration 1

    @property
    def concentration(self) -> Tensor:
        """Concentration of each output."""
        return self.parameter

    def check_targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        """Return the angles; raise ``InvalidTarget`` if they seem to be in degrees."""
        self.check_outputs(outputs)
        y = real_targets(y, outputs)
        if not y.is_floating_point():
            y = y.to(torch.get_default_dtype())
        if not y.numel():
            return y
        size, row = y.abs().reshape(len(y), -1).amax(1).max(0)
        if float(size) > _MAX_TURNS * 2 * math.pi:
            raise InvalidTarget(
                f"angles must be in radians, got {float(size):g} in row {int(row)}: if these are "
                f"degrees, give torch.deg2rad(y); else take whole turns off"
            )
        return y

    @override
    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        k = self.parameter.to(z.dtype)
        density = k * (torch.cos(y - z) - 1) - (2 * math.pi * torch.special.i0e(k)).log()
        return density.flatten(1).sum(1)

    @override
    def conditional(self, z: Tensor) -> distributions.VonMises:
        k = self.parameter.to(z.dtype).expand_as(z)
        return distributions.VonMises(z, k, validate_args=False)

    # --- by the series ---------------------------------------------------------------------

    def _ratios(self, number: int) -> Tensor:
        """Return ``A_n`` for n = 0, 1, ..., in front of the outputs."""
        columns = [bessel_ratios(float(k), number) for k in self.parameter]
        return torch.tensor(columns, dtype=torch.float64, device=self.parameter.device).T

    def _series(self, difference: Tensor, variance: Tensor) -> tuple[Tensor, ...]:
        """Return density times 2 pi, two derivatives in the mean, and times the cosine."""
        v = variance.clamp_min(0)
        terms = _terms(float(self.parameter.max()), float(v.min()))
        a = self._ratios(terms + 1)
        shape = (terms, *[1] * (difference.ndim - 1), a.shape[1])
        n = torch.arange(1, terms + 1, dtype=difference.dtype, device=difference.device)
        n = n.reshape(-1, *[1] * difference.ndim)
        fade = 2 * torch.exp(-0.5 * n * n * v)
        cosine, sine = torch.cos(n * difference), torch.sin(n * difference)
        rho = a[1:-1].reshape(shape) * fade
        beside = 0.5 * (a[:-2] + a[2:]).reshape(shape) * fade
        return (
            1 + (rho * cosine).sum(0),
            (n * rho * sine).sum(0),
            -(n * n * rho * cosine).sum(0),
            a[1] + (beside * cosine).sum(0),
        )

    # --- by nodes --------------------------------------------------------------------------

    def _nodes(self, difference: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the log terms of the sum, and cosine and sine of ``y - z``, nodes in front."""
        k, v = self.parameter, variance.clamp_min(1e-20)
        std = v.sqrt()
        with torch.no_grad():
            # a peak is at most so far from the mean, in deviations of the output
            reach = (k * std).clamp(max=1.5 * math.pi / std) + 8.3
            needed = 2 * reach * (1 + k * v).sqrt() / 0.6
            number = int(needed.max().clamp(32, _MAX_NODES))
            share = torch.linspace(-1, 1, number, dtype=difference.dtype, device=difference.device)
            e = reach * share.reshape(-1, *[1] * difference.ndim)
            log_weight = (2 * reach / (number - 1)).log() - 0.5 * math.log(2 * math.pi)
            log_weight = log_weight - 0.5 * e * e
        left = difference - std * e
        cosine = torch.cos(left)
        constant = (2 * math.pi * torch.special.i0e(k)).log()
        return k * (cosine - 1) - constant + log_weight, cosine, torch.sin(left)

    def _by_series(self, variance: Tensor) -> Tensor:
        return (variance >= _WIDE) | (self.parameter <= _FLAT)

    # --- evidence --------------------------------------------------------------------------

    def _integrals(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, ...]:
        """Return log evidence, two derivatives in the mean, and the expected cosine."""
        turn = 2 * math.pi
        difference = y - mean
        difference = difference - turn * (difference.detach() / turn).round()
        wide = self._by_series(variance)
        p, first, second, beside = self._series(difference, torch.where(wide, variance, _WIDE))
        p = p.clamp_min(1e-300)
        d = first / p
        by_series = (p.log() - math.log(turn), d, second / p - d * d, beside / p)
        if bool(wide.all()):
            return by_series
        k = self.parameter
        terms, cosine, sine = self._nodes(difference, torch.where(wide, 0.01, variance))
        weight = terms.softmax(0)
        d = (weight * k * sine).sum(0)
        bend = (weight * ((k * sine - d) ** 2 - k * cosine)).sum(0)
        by_nodes = (terms.logsumexp(0), d, bend, (weight * cosine).sum(0))
        return tuple(torch.where(wide, a, b) for a, b in zip(by_series, by_nodes, strict=True))

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the log evidence of each row, computed in double precision."""
        found = self.elementwise_log_evidence(y.double(), mean.double(), variance.double())
        return found.flatten(1).sum(1).to(mean.dtype)

    def elementwise_log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the log evidence of every angle; arguments in double precision."""
        return self._integrals(y, mean, variance)[0]

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Return derivatives of the series, or averages over the nodes."""
        v = variance.double()
        _, d_mu, d_var, _ = self._integrals(y.double(), mean.double(), v)
        d_var = torch.maximum(d_var.clamp(max=0), -1 / v.clamp_min(1e-300))
        return d_mu.to(mean.dtype), d_var.to(mean.dtype)

    def expected_statistic(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return ``E[cos(y - z)]``."""
        return self._integrals(y, mean, variance)[3]

    def parameter_from_statistic(self, statistic: Tensor) -> Tensor:
        """Solve ``A_1(k) = mean cosine`` by Newton steps from Best and Fisher's approximation."""
        r = statistic.clamp(1e-4, 1 - 1e-7)
        low = 2 * r + r**3 + 5 * r**5 / 6
        middle = -0.4 + 1.39 * r + 0.43 / (1 - r)
        high = 1 / (r**3 - 4 * r**2 + 3 * r)
        k = torch.where(r < 0.53, low, torch.where(r < 0.85, middle, high))
        for _ in range(3):
            a = torch.special.i1e(k) / torch.special.i0e(k)
            step = (a - r) / (1 - a / k - a * a).clamp_min(1e-14)
            k = torch.maximum(k - step, k / 2)
        return k.clamp(_MIN, _MAX)

    def statistic_from_parameter(self, parameter: Tensor) -> Tensor:
        """``A_1(concentration) = I_1(concentration) / I_0(concentration)``."""
        return torch.special.i1e(parameter) / torch.special.i0e(parameter)

    def rescale(self, scale: float) -> None:
        """Divide the concentration, which is about one over the variance."""
        self.set_parameter((self.parameter / scale).clamp(_MIN, _MAX))

    # --- predictions -----------------------------------------------------------------------

    @override
    def predictive(self, mean: Tensor, variance: Tensor) -> CircularPredictive:
        m, v = mean.double().unsqueeze(0), variance.double().clamp_min(0).unsqueeze(0)
        shape = [1] * mean.ndim + [-1]
        return CircularPredictive(
            m,
            v,
            self.parameter.double().reshape(shape).clone(),
            self._ratios(TERMS).reshape(TERMS + 1, *shape),
            ((1, partial(_density, copy.deepcopy(self))),),
            dtype=mean.dtype,
        )

    @override
    def config(self) -> dict[str, Any]:
        return {"concentration": self.fixed_value, "outputs": self.outputs}


def bessel_ratios(k: float, number: int) -> list[float]:
    """Return ``I_n(k) / I_0(k)`` for n = 0 .. number, by downward recurrence.

    ``r_n = I_n / I_{n-1} = 1 / (2 n / k + r_{n+1})`` forgets its starting value (Amos 1974).
    """
    start = number + 40 + int(6 * math.sqrt(k))  # the error of the start decays as exp(-n^2 / k)
    ratio = k / (start + 0.5 + math.hypot(start + 0.5, k))
    ratios = []
    for n in range(start - 1, 0, -1):
        ratio = 1 / (2 * n / k + ratio)
        ratios.append(ratio)
    found = [1.0]
    for ratio in reversed(ratios[-number:] if number else []):
        found.append(found[-1] * ratio)
    return found


def _terms(concentration: float, variance: float) -> int:
    """Return the number of terms needed for a noise and an output at least this wide."""
    spread = variance + 1 / (concentration + 0.5)
    return int(min(max(math.ceil(math.sqrt(76 / spread)), 24), _MAX_TERMS))


def _density(likelihood: VonMises, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    return likelihood.elementwise_log_evidence(y, mean, variance)
