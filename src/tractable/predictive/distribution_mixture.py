"""Weighted mixtures of ``torch.distributions``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.distributions import Distribution
from typing_extensions import override

from tractable.predictive import cdfs, root_finding, sampling
from tractable.predictive.base import match_shape
from tractable.predictive.sampling import SampledQuantiles

_STARTS = 24
_MAX_START = 3.0
"""Standard deviations from the mean at which the search for a quantile starts, at most."""
_ROUNDING = 1e-6
"""Distance from a whole number at which a rescaled target still counts as one."""


@dataclass(frozen=True)
class ExactMixtureFunctions:
    """Functions and moments of a mixture that are more accurate than those of its parts.

    All are in double precision, in the unit of the parts and in the shape of the targets.

    Args:
        log_prob: log density of each number.
        sample: draws targets, given their number and a generator.
        cdf: distribution function of each number; None if there is none.
        mean: mean of each number.
        epistemic: variance of the expected number.
        aleatoric: expected variance of the number.
        max_roots: largest number of targets for which quantiles are roots of ``cdf``; quantiles of
            more targets are those of samples (default: any number).
    """

    log_prob: Callable[[Tensor], Tensor]
    sample: Callable[[int, torch.Generator | None], Tensor]
    cdf: Callable[[Tensor], Tensor] | None = None
    mean: Tensor | None = None
    epistemic: Tensor | None = None
    aleatoric: Tensor | None = None
    max_roots: float = math.inf


@dataclass(frozen=True)
class DistributionMixturePredictive(SampledQuantiles):
    """A weighted mixture of torch's distributions: of quadrature nodes, or of components.

    Everything is computed in double precision and returned in ``dtype``.

    Approximate: quantiles are those of 4,096 samples where neither torch nor
    ``tractable.predictive.cdfs`` has the distribution function.

    Args:
        parts: a distribution with a batch shape of ``[parts, rows, outputs]``.
        weights: weights of the parts, which sum to one along the first dimension.
        density: log density of each row of targets.  Default: computed from the parts.
        epistemic_variance: epistemic variance. Default: the variance between the parts, which are
            then values of the network's outputs.
        exact: functions and moments that replace those of the parts, which then determine the
            support only.
        widen: returns the prediction with more epistemic variance.
        dtype: precision of results.
        column: whether the only output of a row is squeezed.
        offset: targets are ``offset + unit * y`` with ``y`` in the unit of the parts.
        unit: see ``offset``.
        novelty: distance of each row to the training rows; see ``Predictive``.
    """

    parts: Distribution
    weights: Tensor
    density: Callable[[Tensor], Tensor] | None = field(default=None, compare=False, repr=False)
    epistemic_variance: Tensor | None = None
    exact: ExactMixtureFunctions | None = field(default=None, compare=False, repr=False)
    widen: Callable[[Tensor], DistributionMixturePredictive] | None = field(
        default=None, compare=False, repr=False
    )
    dtype: torch.dtype = torch.float64
    column: bool = False
    offset: Tensor | float = 0.0
    unit: Tensor | float = 1.0
    novelty: Tensor | None = field(default=None, compare=False, repr=False)

    # --- shapes and units ------------------------------------------------------------------

    def given(self, values: Tensor) -> Tensor:
        """Return values in the precision and shape of results."""
        values = values.to(self.dtype)
        return values.squeeze(-1) if self.column else values

    def taken(self, y: Tensor) -> Tensor:
        """Return targets in the shape and the unit of the component distributions."""
        y = match_shape(y, self.center)
        return (y - self.offset) / self.unit

    @property
    @override
    def is_discrete(self) -> bool:
        return self._counts and isinstance(self.unit, float) and self.unit == 1.0

    # --- moments ---------------------------------------------------------------------------

    @property
    def center(self) -> Tensor:
        """The mean, in double precision and in the unit of the parts."""
        if self.exact is not None and self.exact.mean is not None:
            return self.exact.mean
        return (self.weights * self.parts.mean).sum(0)

    @property
    @override
    def mean(self) -> Tensor:
        return self.given(self.offset + self.unit * self.center)

    @property
    def between(self) -> Tensor:
        """Variance of the parts' means."""
        if self.exact is not None and self.exact.epistemic is not None:
            return self.exact.epistemic
        return (self.weights * (self.parts.mean - self.center) ** 2).sum(0)

    @property
    def _total(self) -> Tensor:
        """The variance, in double precision and in the unit of the parts."""
        if self.exact is not None and self.exact.aleatoric is not None:
            return self.exact.aleatoric + self.between
        return (self.weights * self.parts.variance).sum(0) + self.between

    @property
    def variance(self) -> Tensor:
        """Mean variance of the parts plus variance of their means."""
        return self.given(self.unit * self.unit * self._total)

    @property
    def epistemic(self) -> Tensor:
        """Variance of the expected target over the uncertain outputs."""
        inner = self.between if self.epistemic_variance is None else self.epistemic_variance
        return self.given(self.unit * self.unit * inner)

    @property
    def aleatoric(self) -> Tensor:
        """Variance minus ``epistemic``."""
        inner = self.between if self.epistemic_variance is None else self.epistemic_variance
        return self.given(self.unit * self.unit * (self._total - inner))

    # --- densities -------------------------------------------------------------------------

    def log_prob(self, y: Tensor) -> Tensor:
        """Return the log density of each row, summed over its targets."""
        if self.density is None:
            return self._rounded(self._each(y).flatten(1).sum(1))
        y, never = self._possible(y)
        found = self.density(y).masked_fill(never.flatten(1).any(1), -math.inf)
        return self._rounded(found - self._log_unit(y).flatten(1).sum(1))

    @override
    def elementwise_log_prob(self, y: Tensor) -> Tensor:
        return self.given(self._each(y))

    def _rounded(self, log_density: Tensor) -> Tensor:
        """Return values in ``dtype``; finite ones are never rounded to minus infinity."""
        least = torch.finfo(self.dtype).min
        inside = torch.where(torch.isfinite(log_density), log_density.clamp_min(least), log_density)
        return inside.to(self.dtype)

    def _each(self, y: Tensor) -> Tensor:
        """Return the log density of each number, in double precision."""
        y, never = self._possible(y)
        if self.exact is not None:
            found = self.exact.log_prob(y)
        else:
            found = (self.parts.log_prob(y) + self.weights.log()).logsumexp(0)
        return (found - self._log_unit(y)).masked_fill(never, -math.inf)

    def _log_unit(self, y: Tensor) -> Tensor:
        """Return the log of the unit, zero for the probabilities of integers."""
        support = self.parts.support
        if support is not None and bool(support.is_discrete):
            return torch.zeros_like(y)
        unit = torch.as_tensor(self.unit, dtype=y.dtype, device=y.device)
        return unit.abs().log().expand_as(y)

    def _possible(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return targets in the unit of the parts, and which were replaced as impossible."""
        y = self.taken(y)
        never = self._impossible(y)
        inside = torch.where(torch.isfinite(self.center), self.center, torch.zeros_like(y))
        return torch.where(never, inside.round() if self._counts else inside, y), never

    def _impossible(self, y: Tensor) -> Tensor:
        """Return where a value lies outside of the support of the parts."""
        support = self.parts.support
        if support is None:
            return torch.zeros_like(y, dtype=torch.bool)
        possible: Tensor = support.check(y)
        return ~possible.expand_as(y)

    @property
    @override
    def has_cdf(self) -> bool:
        if self.exact is not None:
            return self.exact.cdf is not None
        return cdfs.has_cdf(self.parts)

    def cdf(self, y: Tensor) -> Tensor:
        """Return the mean of the distribution functions of the parts, target by target."""
        y, falling = self.taken(y), self._falling
        if self._counts:  # a count below is as good, as the unit has been divided by
            y = torch.where(falling, (y - _ROUNDING).ceil() - 1, (y + _ROUNDING).floor())
        share = self._share(y)
        return self.given(torch.where(falling, 1 - share, share))

    def _share(self, y: Tensor) -> Tensor:
        """Return the distribution function in the unit of the parts."""
        if self.exact is not None and self.exact.cdf is not None:
            return self.exact.cdf(y)
        if self.exact is not None:
            raise TypeError(f"{type(self.parts).__name__} has no distribution function in torch")
        return (self.weights * cdfs.cdf(self.parts, y)).sum(0)

    @property
    def _falling(self) -> Tensor:
        """Where a greater value in the unit of the parts is a smaller target."""
        return torch.as_tensor(self.unit, device=self.weights.device) < 0

    @property
    def _counts(self) -> bool:
        """Whether the parts are of whole numbers, in whatever unit."""
        support = self.parts.support
        return support is not None and bool(support.is_discrete)

    def quantile(self, q: float) -> Tensor:
        """Return the root of the distribution function; without one, a quantile of samples.

        A distribution function of two outputs is an integral over both, which takes milliseconds
        for one number. More than 64 such targets have quantiles of 4,096 samples, whose
        probabilities have a standard error of at most 0.008.
        """
        root_finding.check_probability(q)
        is_slow = self.exact is not None and self.center.numel() > self.exact.max_roots
        if is_slow or not self.has_cdf:
            return self.quantile_of_samples(q)
        center, std = self.center, self._total.sqrt()
        share = torch.where(self._falling.expand_as(center), 1 - q, torch.full_like(center, q))
        step = torch.where(torch.isfinite(std), std, 1 + center.abs()).nan_to_num(1.0)
        start = torch.where(torch.isfinite(center), center, torch.zeros_like(center))
        start = start + step * torch.special.ndtri(share).clamp(-_MAX_START, _MAX_START)
        found = root_finding.invert(
            self._share, share, start, step / 4, is_discrete=self._counts, strict=self._falling
        )
        return self.given(self.offset + self.unit * found)

    @property
    def mode(self) -> Tensor:
        """The most probable value; one of the means of the parts for several targets."""
        means = self.parts.mean.expand(self.weights.shape[0], *self.center.shape)
        few = means[:: max(len(means) // _STARTS, 1)]
        plain = replace(self, column=False, dtype=torch.float64, offset=0.0, unit=1.0)
        one = self.density is None
        density = plain.elementwise_log_prob if one else plain.log_prob
        alone = one or few[0, 0].numel() == 1
        found = root_finding.climb(
            density, few, plain.std / 4, is_discrete=self._counts, alone=alone
        )
        return self.given(self.offset + self.unit * found)

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Return samples, each target by itself."""
        if self.exact is not None:
            drawn = self.exact.sample(n, generator)
        else:
            drawn = sampling.sample_mixture(self.parts, self.weights, n, generator)
        return self.given(self.offset + self.unit * drawn)

    # --- the same prediction, changed ------------------------------------------------------

    @override
    def squeezed(self) -> DistributionMixturePredictive:
        single = self.center.ndim == 2 and self.center.shape[1] == 1
        return replace(self, column=True) if single else self

    @override
    def double(self) -> DistributionMixturePredictive:
        novelty = None if self.novelty is None else self.novelty.double()
        return replace(self, dtype=torch.float64, novelty=novelty)

    @override
    def rescaled(
        self, mean: Tensor | float, scale: Tensor | float
    ) -> DistributionMixturePredictive:
        return replace(self, offset=mean + scale * self.offset, unit=scale * self.unit)

    @override
    def with_extra_variance(self, extra: Tensor) -> DistributionMixturePredictive:
        if self.widen is None:
            raise TypeError(f"a mixture of {type(self.parts).__name__} cannot have extra variance")
        wider = self.widen(extra.double().reshape(self.center.shape) / (self.unit * self.unit))
        return replace(
            wider, dtype=self.dtype, column=self.column, offset=self.offset, unit=self.unit,
            novelty=self.novelty,
        )  # fmt: skip
