"""Angles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.distributions import VonMises
from typing_extensions import override

from tractable.predictive import root_finding
from tractable.predictive.base import Predictive, match_shape
from tractable.predictive.sampling import seeded

TERMS = 124
"""Fourier coefficients that an angle needs whose variance is at least ``_NARROW``."""
_NARROW = 0.005
"""Variance below which an angle is treated as a number with a nearly normal distribution, by the
first terms of its Edgeworth series; at this variance they are off by less than 1e-6."""
_MIN_CONCENTRATION = 1 / _NARROW
_MAX_STARTS = 32
_AT_ONCE = 1 << 20
"""Numbers in a sum over Fourier terms that are held in memory."""
Density = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class CircularPredictive(Predictive):
    """Angles in radians: an even mixture of normal directions with von Mises noise.

    ``mean`` is the direction of the mean vector, between -pi and pi.  The variance is the mean
    square of the difference from the mean, within half a turn; quantiles are the mean plus a
    quantile of that difference, so that an interval is not cut at pi.

    Exact: the density and samples; the rest to about six digits, by Fourier series or, for narrow
    distributions, by Edgeworth series.

    Args:
        means: mean directions, ``[samples, rows, outputs]``.
        variances: variances of the directions, in the same shape.
        concentration: concentrations of the noise, which broadcast to that shape.
        ratios: Fourier coefficients ``I_n(k) / I_0(k)`` of concentrations k, n = 0 .. ``TERMS`` in
            the first dimension.
        densities: numbers of consecutive draws and their log density of every angle, a function of
            angles, means and variances.
        dtype: precision of results.
        column: whether the only output of a row is squeezed.
        novelty: distance of each row to the training rows; see ``Predictive``.
    """

    means: Tensor
    variances: Tensor
    concentration: Tensor
    ratios: Tensor = field(repr=False)
    densities: tuple[tuple[int, Density], ...] = field(compare=False, repr=False)
    dtype: torch.dtype = torch.float64
    column: bool = False
    novelty: Tensor | None = field(default=None, compare=False, repr=False)

    def given(self, values: Tensor) -> Tensor:
        """Return values in the precision and shape of results."""
        values = values.to(self.dtype)
        return values.squeeze(-1) if self.column else values

    @property
    def _vector(self) -> Tensor:
        """The mean vector, as a complex number."""
        return (self.ratios[1] * torch.exp(1j * self.means - 0.5 * self.variances)).mean(0)

    @property
    def center(self) -> Tensor:
        """The mean direction, in double precision."""
        return self._vector.angle()

    @property
    def mean(self) -> Tensor:
        """Circular mean of the angles."""
        return self.given(self.center)

    @property
    def resultant(self) -> Tensor:
        """Mean resultant length: 1 if all angles are equal, 0 if they have no mean direction."""
        return self.given(self._vector.abs())

    def _square(self, *, noise: bool) -> Tensor:
        """Return the mean square difference from the mean direction, with or without noise."""
        difference = _wrapped(self.means - self.center)
        extra = _cumulants(self.concentration)[0] if noise else torch.zeros_like(self.concentration)
        narrow = self._narrow if noise else self.variances < _NARROW
        close = _wrapped_square(difference, torch.where(narrow, self.variances + extra, 1.0))
        if bool(narrow.all()):
            return close.mean(0)
        wide = torch.full_like(difference, math.pi**2 / 3)
        for n, fade in self._fading(noise=noise):
            sign = 1 - 2 * (n % 2)
            wide = wide + (4 * sign / (n * n) * fade * torch.cos(n * difference)).sum(0)
        return torch.where(narrow, close, wide.clamp_min(0)).mean(0)

    @property
    def _narrow(self) -> Tensor:
        return self.variances + 1 / self.concentration < _NARROW

    def _fading(self, *, noise: bool) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield numbers n of Fourier terms and their coefficients, as many as fit in memory."""
        some = max(_AT_ONCE // max(self.means.numel(), 1), 1)
        every = torch.arange(1, TERMS + 1, dtype=self.means.dtype, device=self.means.device)
        for n in every.reshape(-1, *[1] * self.means.ndim).split(some):
            fade = torch.exp(-0.5 * n * n * self.variances)
            first = int(n[0])
            yield n, fade * self.ratios[first : first + len(n)] if noise else fade

    @property
    def variance(self) -> Tensor:
        """Mean square difference from the mean direction."""
        return self.given(self._square(noise=True))

    @property
    def epistemic(self) -> Tensor:
        """Part of the variance that is due to uncertain directions."""
        return self.given(torch.minimum(self._square(noise=False), self._square(noise=True)))

    @property
    def aleatoric(self) -> Tensor:
        """Variance minus ``epistemic``."""
        return self.variance - self.epistemic

    # --- densities -------------------------------------------------------------------------

    def _each(self, y: Tensor) -> Tensor:
        """Return the log density of every angle, ``[samples, rows, outputs]``."""
        found, first = [], 0
        for number, density in self.densities:
            mean = self.means[first : first + number]
            found.append(density(y.expand_as(mean), mean, self.variances[first : first + number]))
            first += number
        return torch.cat(found)

    def log_prob(self, y: Tensor) -> Tensor:
        """Return the log density of each row, summed over its angles."""
        found = self._each(match_shape(y, self.center)).flatten(2).sum(2)
        return (found.logsumexp(0) - math.log(len(found))).to(self.dtype)

    @override
    def elementwise_log_prob(self, y: Tensor) -> Tensor:
        return self.given(self._of_each(match_shape(y, self.center)))

    def _of_each(self, y: Tensor) -> Tensor:
        found = self._each(y)
        return found.logsumexp(0) - math.log(len(found))

    # --- the difference from the mean direction ---------------------------------------------------

    def _mass(self, x: Tensor) -> Tensor:
        """Return the probability of differences from 0 to x of each sample; a turn adds 1."""
        turns = (x / (2 * math.pi)).round()
        narrow = self._narrow
        second, fourth, sixth = _cumulants(self.concentration)
        total = torch.where(narrow, self.variances + second, 1.0)
        t = (x - 2 * math.pi * turns) * total.rsqrt()
        close = turns - 0.5 + _edgeworth(t, fourth / total**2, sixth / total**3)
        if bool(narrow.all()):
            return close
        wide = x / (2 * math.pi)
        for n, fade in self._fading(noise=True):
            wide = wide + (fade * torch.sin(n * x) / (n * math.pi)).sum(0)
        return torch.where(narrow, close, wide)

    def _share(self, difference: Tensor) -> Tensor:
        """Return the probability of differences from -pi to ``difference``."""
        offset = self.means - self.center
        return (self._mass(difference - offset) - self._mass(-math.pi - offset)).mean(0)

    def unwrapped(self, y: Tensor) -> Tensor:
        """Return the angles shifted by full turns to within half a turn of the mean."""
        mean = self.mean
        return mean + torch.remainder(y - mean + math.pi, 2 * math.pi) - math.pi

    def cdf(self, y: Tensor) -> Tensor:
        """Return the probability of angles from half a turn below the center up to ``y``."""
        return self.given(
            self._share(_wrapped(match_shape(y, self.center) - self.center)).clamp(0, 1)
        )

    def quantile(self, q: float) -> Tensor:
        """Return the mean direction plus a quantile of the difference from it."""
        root_finding.check_probability(q)
        std = self._square(noise=True).sqrt()
        score = torch.special.ndtri(torch.tensor(q, dtype=torch.float64)).clamp(-3, 3).to(std)
        found = root_finding.invert(self._share, q, score * std, std / 4, is_discrete=False)
        return self.given(self.center + found.clamp(-math.pi, math.pi))

    @property
    def mode(self) -> Tensor:
        """The most probable angle: the mean direction, or the best near those of the samples."""
        if len(self.means) == 1:
            return self.given(_wrapped(self.means[0]))
        few = self.means[:: max(len(self.means) // _MAX_STARTS, 1)]
        step = self._square(noise=True).sqrt() / 4
        found = root_finding.climb(self._of_each, few, step, is_discrete=False)
        return self.given(_wrapped(found))

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Return samples between -pi and pi: a random weight sample's direction plus noise."""
        device = self.means.device
        which = torch.randint(len(self.means), (n,), generator=generator).to(device)
        concentration = self.concentration.expand_as(self.means)[which]
        scores = torch.randn(
            concentration.shape, generator=generator, dtype=concentration.dtype
        ).to(device)
        z = self.means[which] + self.variances[which].sqrt() * scores
        with seeded(generator, device):
            noise = VonMises(
                torch.zeros_like(concentration), concentration, validate_args=False
            ).sample()
        return self.given(_wrapped(z + noise))

    # --- the same prediction, changed ------------------------------------------------------

    @override
    def squeezed(self) -> CircularPredictive:
        single = self.means.ndim == 3 and self.means.shape[2] == 1
        return replace(self, column=True) if single else self

    @override
    def double(self) -> CircularPredictive:
        novelty = None if self.novelty is None else self.novelty.double()
        return replace(self, dtype=torch.float64, novelty=novelty)

    def mixture_over_draws(self, n_samples: int) -> CircularPredictive:
        """Return the mixture, which is of the same kind."""
        if n_samples == 1:
            return self
        return replace(
            self,
            means=self.means.unflatten(1, (n_samples, -1)).flatten(0, 1),
            variances=self.variances.unflatten(1, (n_samples, -1)).flatten(0, 1),
            concentration=self.concentration.repeat_interleave(n_samples, 0),
            ratios=self.ratios.repeat_interleave(n_samples, 1),
            densities=tuple((number * n_samples, density) for number, density in self.densities),
        )


def circular_mixture(parts: Sequence[CircularPredictive]) -> CircularPredictive:
    """Return the even mixture of predictions of the same rows, with equal weights."""
    many = math.lcm(*(len(part.means) for part in parts))
    copies = [many // len(part.means) for part in parts for _ in part.densities]
    every = [density for part in parts for density in part.densities]

    def repeated(name: str, dim: int) -> Tensor:
        found = [
            getattr(part, name).repeat_interleave(many // len(part.means), dim) for part in parts
        ]
        return torch.cat(found, dim)

    return replace(
        parts[0],
        means=repeated("means", 0),
        variances=repeated("variances", 0),
        concentration=repeated("concentration", 0),
        ratios=repeated("ratios", 1),
        densities=tuple((n * m, density) for (n, density), m in zip(every, copies, strict=True)),
        novelty=None,
    )


def _wrapped(angles: Tensor) -> Tensor:
    """Return angles between -pi and pi."""
    return torch.remainder(angles + math.pi, 2 * math.pi) - math.pi


def _wrapped_square(difference: Tensor, variance: Tensor) -> Tensor:
    """Return the mean square of a normal angle: beyond pi it is ``y^2 - 4 pi (y - pi)``."""
    std = variance.clamp_min(1e-300).sqrt()
    beyond = torch.zeros_like(difference)
    for t in (difference - math.pi, -difference - math.pi):
        density = torch.exp(-0.5 * (t / std) ** 2) / math.sqrt(2 * math.pi)
        beyond = beyond + t * torch.special.ndtr(t / std) + std * density
    return (difference * difference + variance - 4 * math.pi * beyond).clamp_min(0)


def _cumulants(concentration: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return cumulants 2, 4 and 6 of von Mises noise of at least ``_MIN_CONCENTRATION``."""
    k = concentration.clamp_min(_MIN_CONCENTRATION).unsqueeze(-1)
    t = torch.linspace(-12, 12, 241, dtype=k.dtype, device=k.device)
    angle = t * k.rsqrt()
    weight = (-2 * k * torch.sin(angle / 2) ** 2).softmax(-1)
    second, fourth, sixth = ((weight * t**power).sum(-1) for power in (2, 4, 6))
    scale = 1 / k.squeeze(-1)
    return (
        second * scale,
        (fourth - 3 * second**2) * scale**2,
        (sixth - 15 * fourth * second + 30 * second**3) * scale**3,
    )


def _edgeworth(t: Tensor, fourth: Tensor, sixth: Tensor) -> Tensor:
    """Return the distribution function at t of a symmetric variable with these cumulants."""
    square = t * t
    third = t * (square - 3)
    fifth = t * (square * (square - 10) + 15)
    seventh = t * (square * (square * (square - 21) + 105) - 105)
    terms = fourth / 24 * third + sixth / 720 * fifth + fourth**2 / 1152 * seventh
    density = torch.exp(-0.5 * square) / math.sqrt(2 * math.pi)
    return torch.special.ndtr(t) - density * terms
