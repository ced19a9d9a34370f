"""Positive targets whose logarithm is normal, or a mixture of normals."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor
from torch.special import log_ndtr, ndtr
from typing_extensions import override

from tractable.predictive import root_finding
from tractable.predictive.base import Predictive, match_shape
from tractable.predictive.normal_mixture import NormalMixturePredictive

_MAX_STARTS = 32
_BESIDE = 9.0
"""Standard deviations from the edge beyond which the other side is negligible."""
_STRAIGHT = 1e-9
"""Variance of z below which the scale is taken as linear; the error is below 1e-4 of it."""
_NODES, _WEIGHTS = np.polynomial.hermite.hermgauss(32)


@dataclass(frozen=True)
class LogScale:
    """A logarithm up to a point, and a straight line with the same slope beyond it.

        z = log(y + c)                                        for y <= t,
        z = log(t + c) + (y - t) / (t + c)                    above.

    With t the largest training target, predictions beyond it grow linearly, not exponentially.

    Args:
        shift: c, added to the target.
        top: t, where the line begins.
    """

    shift: float = 0.0
    top: float = math.inf

    @property
    def edge(self) -> float:
        """Where the line begins, in z."""
        return math.log(self.top + self.shift) if math.isfinite(self.top) else math.inf

    def forward(self, y: Tensor) -> Tensor:
        """Return z of targets above ``-shift``."""
        if not math.isfinite(self.top):
            return (y + self.shift).log()
        line = self.edge + (y - self.top) / (self.top + self.shift)
        return torch.where(y > self.top, line, (y.clamp(max=self.top) + self.shift).log())

    def inverse(self, z: Tensor) -> Tensor:
        """Return the target of z."""
        if not math.isfinite(self.top):
            return z.exp() - self.shift
        line = self.top + (self.top + self.shift) * (z - self.edge)
        return torch.where(z > self.edge, line, z.clamp(max=self.edge).exp() - self.shift)

    def log_slope(self, y: Tensor) -> Tensor:
        """Logarithm of the slope of ``forward``."""
        return -(y.clamp(max=self.top) + self.shift).log()

    def expectation(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Return E[y] for z ~ N(mean, variance), in closed form."""
        if not math.isfinite(self.top):
            return (mean + variance / 2).exp() - self.shift
        std = variance.clamp_min(1e-30).sqrt()
        a = (self.edge - mean) / std
        below = (mean + variance / 2 + log_ndtr(a - std)).exp() - self.shift * ndtr(a)
        slope = self.top + self.shift
        density = (-0.5 * a * a).exp() / math.sqrt(2 * math.pi)
        above = (self.top + slope * (mean - self.edge)) * ndtr(-a) + slope * std * density
        return below + above

    def square(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Return E[y^2] for z ~ N(mean, variance), in closed form."""
        c = self.shift
        if not math.isfinite(self.top):
            return (2 * (mean + variance)).exp() - 2 * c * (mean + variance / 2).exp() + c * c
        std = variance.clamp_min(1e-30).sqrt()
        a = (self.edge - mean) / std
        below = (2 * (mean + variance) + log_ndtr(a - 2 * std)).exp()
        below = below - 2 * c * (mean + variance / 2 + log_ndtr(a - std)).exp() + c * c * ndtr(a)
        slope = self.top + c
        start, rise = self.top + slope * (mean - self.edge), slope * std
        density = (-0.5 * a * a).exp() / math.sqrt(2 * math.pi)
        tail = ndtr(-a)
        return below + (
            start * start * tail + 2 * start * rise * density + rise * rise * (tail + a * density)
        )

    def variance(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Return Var[y] for z ~ N(mean, variance), in double precision.

        That of a log-normal or normal target where z stays on one side of the edge, without the
        cancellation of ``E[y^2] - E[y]^2`` when the variance is small.
        """
        log_normal = (2 * mean + variance).exp() * torch.expm1(variance)
        if not math.isfinite(self.top):
            return log_normal
        slope = self.top + self.shift
        away = (mean - self.edge) * torch.rsqrt(variance.clamp_min(1e-30))
        moment = self.expectation(mean, variance)
        mixed = (self.square(mean, variance) - moment * moment).clamp_min(0)
        # the slope is continuous: within so narrow a distribution the target is a straight line
        narrow = torch.minimum(mean, torch.full_like(mean, self.edge)).exp().square() * variance
        mixed = torch.where(variance < _STRAIGHT, narrow, mixed)
        mixed = torch.where(away < -_BESIDE, log_normal, mixed)
        return torch.where(away > _BESIDE, slope * slope * variance, mixed)


@dataclass(frozen=True)
class LogNormalPredictive(Predictive):
    """A prediction for targets that were learned on a logarithmic scale.

    Given the mean m, the epistemic variance e and the noise a on that scale, the expected target
    and its square are those of a normal z under ``LogScale``, in closed form, and those of the
    mixture their averages; the epistemic variance is that of E[y | f] over f ~ N(m, e), by
    quadrature.

    Exact: all but the mean of rows far from the data.  There ``growth`` increases e, and with it
    intervals and variances, but not the mean: it would increase with the uncertainty.

    Args:
        logarithm: the prediction on the logarithmic scale.
        scale: that scale.
        growth: part of the epistemic variance that does not change the mean.
        novelty: distance of each row to the training rows; see ``Predictive``.
    """

    logarithm: NormalMixturePredictive
    scale: LogScale = LogScale()
    growth: Tensor | None = None
    novelty: Tensor | None = field(default=None, compare=False, repr=False)

    @property
    @override
    def mean(self) -> Tensor:
        of = self.logarithm.components
        calm = of.epistemic_variance
        if self.growth is not None:
            calm = (calm - self.growth).clamp_min(0)
        return self.scale.expectation(of.means, calm + of.noise_variance).mean(0)

    @property
    @override
    def variance(self) -> Tensor:
        of = self.logarithm.components
        draws, total = of.means.double(), (of.epistemic_variance + of.noise_variance).double()
        between = self.scale.expectation(draws, total).var(0, correction=0)
        return (self.scale.variance(draws, total).mean(0) + between).to(of.means)

    @property
    def epistemic(self) -> Tensor:
        """Variance of the expected target over the uncertain outputs."""
        of = self.logarithm.components
        shape = (-1, *[1] * of.means.ndim)
        nodes, weights = (torch.from_numpy(part).to(of.means) for part in (_NODES, _WEIGHTS))
        f = of.means + (2 * of.epistemic_variance).sqrt() * nodes.reshape(shape)
        given = self.scale.expectation(f, of.noise_variance.expand_as(f))
        share = (weights / math.sqrt(math.pi) / len(of.means)).reshape(shape)
        mean = (share * given).sum((0, 1))
        return (share * (given - mean).square()).sum((0, 1)).minimum(self.variance)

    @property
    def aleatoric(self) -> Tensor:
        """Variance minus ``epistemic``."""
        return self.variance - self.epistemic

    def log_prob(self, y: Tensor) -> Tensor:
        """Return the log density of each row, summed over its targets; zero below ``-shift``."""
        y = match_shape(y, self.logarithm.means[0])
        possible = y > -self.scale.shift
        inside = torch.where(possible, y, torch.ones_like(y))
        slope = self.scale.log_slope(inside)
        slope = slope if slope.ndim < 2 else slope.flatten(1).sum(1)
        never = ~(possible if possible.ndim < 2 else possible.flatten(1).all(1))
        found = self.logarithm.log_prob(self.scale.forward(inside)) + slope
        return found.masked_fill(never, -torch.inf)

    @override
    def cdf(self, y: Tensor) -> Tensor:
        y = match_shape(y, self.logarithm.means[0])
        possible = y > -self.scale.shift
        inside = torch.where(possible, y, torch.ones_like(y))
        share = self.logarithm.cdf(self.scale.forward(inside))
        return torch.where(possible, share, torch.zeros_like(share))

    @override
    def quantile(self, q: float) -> Tensor:
        return self.scale.inverse(self.logarithm.quantile(q))

    @property
    @override
    def mode(self) -> Tensor:
        of = self.logarithm.components
        starts = (of.means - of.epistemic_variance - of.noise_variance)[
            :: max(len(of.means) // _MAX_STARTS, 1)
        ].double()

        def density(z: Tensor) -> Tensor:
            return self.log_prob(self.scale.inverse(z))

        step = (of.epistemic_variance + of.noise_variance).mean(0).sqrt().double() / 4
        alone = starts[0, 0].numel() == 1
        found = root_finding.climb(density, starts, step, is_discrete=False, alone=alone)
        return self.scale.inverse(found).to(of.means)

    @override
    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        return self.scale.inverse(self.logarithm.sample(n, generator))

    @override
    def squeezed(self) -> LogNormalPredictive:
        logarithm, growth = self.logarithm.squeezed(), self.growth
        if growth is not None and logarithm.means.ndim < self.logarithm.means.ndim:
            growth = growth.squeeze(-1)
        return replace(self, logarithm=logarithm, growth=growth)

    def with_noise_scaled(self, factors: Tensor) -> LogNormalPredictive:
        """Change the noise on the logarithmic scale."""
        return replace(self, logarithm=self.logarithm.with_noise_scaled(factors))

    def with_noise_mixture(self, tails: Tensor) -> LogNormalPredictive:
        """Change the noise on the logarithmic scale."""
        return replace(self, logarithm=self.logarithm.with_noise_mixture(tails))

    def with_extra_variance(self, extra: Tensor) -> LogNormalPredictive:
        """Add ``extra`` on the logarithmic scale."""
        growth = extra if self.growth is None else self.growth + extra
        return replace(self, logarithm=self.logarithm.with_extra_variance(extra), growth=growth)
