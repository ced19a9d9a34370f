"""A positive target whose logarithm is normal, or a mixture of normals."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from tractable.predictive import search
from tractable.predictive.base import Predictive
from tractable.predictive.normal_mixture import NormalMixturePredictive
from tractable.predictive.shapes import like

_STARTS = 32
_LARGEST = 340.0  # exponent in double precision, so that a variance far from all data is finite
_LARGEST_SINGLE = 40.0


@dataclass(frozen=True)
class LogNormalPredictive(Predictive):
    """What is known of a target whose logarithm was learnt.

    With the mean m of the logarithm, its epistemic variance e and its noise a, one member of the
    mixture has (Aitchison & Brown, "The Lognormal Distribution", 1957)

        E[y] = exp(m + (e + a) / 2),
        Var[E[y | f]] = exp(2 m + e + a) (exp(e) - 1),
        E[Var[y | f]] = exp(2 m + 2 e + a) (exp(a) - 1),

    and the mixture their averages, with the variance of the members' means in the epistemic one.
    Exact: all of this, but for the mean of rows off the data.  What ``growth`` adds to e there
    widens intervals and variances and is left out of the mean, which would otherwise follow the
    doubt.

    Args:
        logarithm: what is known of the logarithm of the target plus ``shift``.
        shift: what was added to the target before taking its logarithm.
        growth: part of its epistemic variance that does not count in the mean.
        novelty: how unlike the training rows each row is; see ``Predictive``.
    """

    logarithm: NormalMixturePredictive
    shift: float = 0.0
    growth: Tensor | None = None
    novelty: Tensor | None = field(default=None, compare=False, repr=False)

    @property
    def mean(self) -> Tensor:
        """Expected value of the target."""
        of, calm = self.logarithm, self.logarithm.within
        if self.growth is not None:
            calm = (calm - self.growth).clamp_min(0)
        return _exp(of.draws + (calm + of.noise) / 2).mean(0) - self.shift

    @property
    def variance(self) -> Tensor:
        """Epistemic plus aleatoric variance."""
        return self.epistemic + self.aleatoric

    @property
    def epistemic(self) -> Tensor:
        """Variance of the expected value over what is not known of the network."""
        of = self.logarithm
        expected = of.draws + (of.within + of.noise) / 2
        inner = _exp(2 * expected + _log_expm1(of.within), 2).mean(0)
        return inner + _exp(expected).var(0, correction=0)

    @property
    def aleatoric(self) -> Tensor:
        """What is left of the variance once the network is known."""
        of = self.logarithm
        return _exp(2 * (of.draws + of.within) + of.noise + _log_expm1(of.noise), 2).mean(0)

    def log_prob(self, y: Tensor) -> Tensor:
        """Log density of each row, summed over its outputs; none below ``-shift``."""
        y = like(y, self.logarithm.draws[0]) + self.shift
        possible = y > 0
        log = torch.where(possible, y, torch.ones_like(y)).log()
        jacobian = log if log.ndim < 2 else log.flatten(1).sum(1)
        never = ~(possible if possible.ndim < 2 else possible.flatten(1).all(1))
        return (self.logarithm.log_prob(log) - jacobian).masked_fill(never, -torch.inf)

    def cdf(self, y: Tensor) -> Tensor:
        """That of the logarithm."""
        y = like(y, self.logarithm.draws[0]) + self.shift
        share = self.logarithm.cdf(torch.where(y > 0, y, torch.ones_like(y)).log())
        return torch.where(y > 0, share, torch.zeros_like(share))

    def quantile(self, q: float) -> Tensor:
        """The exponential of that of the logarithm."""
        return _exp(self.logarithm.quantile(q)) - self.shift

    @property
    def mode(self) -> Tensor:
        """The most probable value."""
        of = self.logarithm
        starts = (of.draws - of.within - of.noise)[:: max(len(of.draws) // _STARTS, 1)].double()

        def density(log: Tensor) -> Tensor:
            return self.log_prob(_exp(log) - self.shift)

        step = (of.within + of.noise).mean(0).sqrt().double() / 4
        alone = starts[0, 0].numel() == 1
        found = search.climb(density, starts, step, whole=False, alone=alone)
        return (_exp(found) - self.shift).to(of.draws)

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """The exponential of draws of the logarithm."""
        return _exp(self.logarithm.sample(n, generator)) - self.shift

    def flat(self) -> LogNormalPredictive:
        """One number per row instead of a column."""
        logarithm, growth = self.logarithm.flat(), self.growth
        if growth is not None and logarithm.draws.ndim < self.logarithm.draws.ndim:
            growth = growth.squeeze(-1)
        return replace(self, logarithm=logarithm, growth=growth)

    def double(self) -> LogNormalPredictive:
        """See ``Predictive``."""
        growth = None if self.growth is None else self.growth.double()
        novelty = None if self.novelty is None else self.novelty.double()
        return LogNormalPredictive(self.logarithm.double(), self.shift, growth, novelty)

    def noisier(self, factors: Tensor) -> LogNormalPredictive:
        """See ``Predictive``; the noise is that of the logarithm."""
        return replace(self, logarithm=self.logarithm.noisier(factors))

    def widened(self, extra: Tensor) -> LogNormalPredictive:
        """See ``Predictive``; ``extra`` is of the logarithm."""
        growth = extra if self.growth is None else self.growth + extra
        return replace(self, logarithm=self.logarithm.widened(extra), growth=growth)


def _exp(exponent: Tensor, power: int = 1) -> Tensor:
    """The exponential, cut so that the square of it, or it as a square, is finite."""
    largest = _LARGEST if exponent.dtype == torch.float64 else _LARGEST_SINGLE
    return exponent.clamp(max=power * largest).exp()


def _log_expm1(x: Tensor) -> Tensor:
    """The logarithm of exp(x) - 1, which overflows nowhere."""
    return x + torch.log(-torch.expm1(-x))
