"""A weighted mixture of ``torch.distributions``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.distributions import Distribution

from tractable.predictive import draws, search
from tractable.predictive.base import Predictive
from tractable.predictive.pooled import sampled_quantile
from tractable.predictive.shapes import like

_STARTS = 24
_INSIDE = 1e-12


@dataclass(frozen=True)
class MixturePredictive(Predictive):
    """A weighted mixture of torch's distributions: of quadrature nodes, or of components.

    All is computed in double precision and given in ``dtype``.

    Args:
        parts: a distribution with a batch shape of ``[parts, rows, outputs]``.
        weights: weights of the parts, which sum to one along the first dimension.
        density: log density of each row of targets, where it is known better than by the parts.
        within: epistemic variance; by default what lies between the parts, which are then taken
            for values of the network's outputs.
        widen: gives the same with more epistemic variance.
        dtype: precision of what is given.
        column: whether the only output of a row is given flat.
        offset: the unit of the data: targets are ``offset + unit * y``.
        unit: see ``offset``.
        novelty: how unlike the training rows each row is; see ``Predictive``.
    """

    parts: Distribution
    weights: Tensor
    density: Callable[[Tensor], Tensor] | None = field(default=None, compare=False, repr=False)
    within: Tensor | None = None
    widen: Callable[[Tensor], MixturePredictive] | None = field(
        default=None, compare=False, repr=False
    )
    dtype: torch.dtype = torch.float64
    column: bool = False
    offset: Tensor | float = 0.0
    unit: Tensor | float = 1.0
    novelty: Tensor | None = field(default=None, compare=False, repr=False)

    # --- shapes and units ------------------------------------------------------------------

    def given(self, values: Tensor) -> Tensor:
        """As the caller sees it."""
        values = values.to(self.dtype)
        return values.squeeze(-1) if self.column else values

    def taken(self, y: Tensor) -> Tensor:
        """Targets of the caller, in the shape and the unit of the parts."""
        y = like(y, self.centre)
        return (y - self.offset) / self.unit

    @property
    def whole(self) -> bool:
        """See ``Predictive``."""
        support = self.parts.support
        discrete = support is not None and bool(support.is_discrete)
        return discrete and isinstance(self.unit, float) and self.unit == 1.0

    # --- moments ---------------------------------------------------------------------------

    @property
    def centre(self) -> Tensor:
        """The mean, in double precision and in the unit of the parts."""
        return (self.weights * self.parts.mean).sum(0)

    @property
    def mean(self) -> Tensor:
        """Mean over the parts."""
        return self.given(self.offset + self.unit * self.centre)

    @property
    def between(self) -> Tensor:
        """Variance of the parts' means."""
        return (self.weights * (self.parts.mean - self.centre) ** 2).sum(0)

    @property
    def variance(self) -> Tensor:
        """The law of total variance."""
        hidden = (self.weights * self.parts.variance).sum(0)
        return self.given(self.unit * self.unit * (hidden + self.between))

    @property
    def epistemic(self) -> Tensor:
        """Variance of the expected target, over what is not known of the outputs."""
        inner = self.between if self.within is None else self.within
        return self.given(self.unit * self.unit * inner)

    @property
    def aleatoric(self) -> Tensor:
        """What is left of the variance once the outputs are known."""
        return self.variance - self.epistemic

    # --- densities -------------------------------------------------------------------------

    def log_prob(self, y: Tensor) -> Tensor:
        """Log density of each row, summed over the outputs of the row."""
        y = self.taken(y)
        never = self._impossible(y)
        y = torch.where(never, self.centre.round() if self.whole else self.centre, y)
        if self.density is not None:
            found = self.density(y)
        else:
            terms = self.parts.log_prob(y) + self.weights.log()
            found = terms.logsumexp(0).flatten(1).sum(1)
        found = found.masked_fill(never.flatten(1).any(1), -math.inf)
        unit = torch.as_tensor(self.unit, dtype=found.dtype, device=found.device)
        return (found - unit.abs().log().expand_as(y).flatten(1).sum(1)).to(self.dtype)

    def log_prob_of_each(self, y: Tensor) -> Tensor:
        """See ``Predictive``; by the parts."""
        y = self.taken(y)
        never = self._impossible(y)
        y = torch.where(never, self.centre.round() if self.whole else self.centre, y)
        found = (self.parts.log_prob(y) + self.weights.log()).logsumexp(0)
        unit = torch.as_tensor(self.unit, dtype=found.dtype, device=found.device)
        return self.given((found - unit.abs().log()).masked_fill(never, -math.inf))

    def _impossible(self, y: Tensor) -> Tensor:
        """Where a value lies outside of what the parts can have."""
        support = self.parts.support
        if support is None:
            return torch.zeros_like(y, dtype=torch.bool)
        possible: Tensor = support.check(y)
        return ~possible.expand_as(y)

    def cdf(self, y: Tensor) -> Tensor:
        """Mean over the parts of the distribution function, of each output by itself."""
        return self.given(self._share(self.taken(y)))

    def _share(self, y: Tensor) -> Tensor:
        low, high = (
            getattr(self.parts.support, f"{end}_bound", None) for end in ("lower", "upper")
        )
        at = y
        if low is not None and not self.whole:  # torch asks for values inside
            at = torch.maximum(at, torch.as_tensor(low + _INSIDE * (1 + abs(low)), dtype=y.dtype))
        if high is not None:
            at = torch.minimum(at, torch.as_tensor(high - _INSIDE * (1 + abs(high)), dtype=y.dtype))
        try:
            share = (self.weights * self.parts.cdf(at)).sum(0)
        except NotImplementedError as error:
            kind = type(self.parts).__name__
            raise TypeError(f"{kind} has no distribution function in torch") from error
        if low is not None:
            share = torch.where(y < low, torch.zeros_like(share), share)
        return share if high is None else torch.where(y >= high, torch.ones_like(share), share)

    def quantile(self, q: float) -> Tensor:
        """By bisection; without a distribution function, of 4,096 draws, always the same."""
        search.check_share(q)
        centre = self.centre
        std = ((self.weights * self.parts.variance).sum(0) + self.between).sqrt()
        step = torch.where(torch.isfinite(std), std, 1 + centre.abs())
        start = torch.where(torch.isfinite(centre), centre, torch.zeros_like(centre))
        try:
            found = search.invert(self._share, q, start, step, whole=self.whole)
        except TypeError:
            return sampled_quantile(self, q)
        return self.given(self.offset + self.unit * found)

    @property
    def mode(self) -> Tensor:
        """The most probable value; of the parts' means, where a row has several outputs."""
        means = self.parts.mean.expand(self.weights.shape[0], *self.centre.shape)
        few = means[:: max(len(means) // _STARTS, 1)]
        plain = replace(self, column=False, dtype=torch.float64, offset=0.0, unit=1.0)
        alone = few[0, 0].numel() == 1
        found = search.climb(plain.log_prob, few, plain.std / 4, whole=self.whole, alone=alone)
        return self.given(self.offset + self.unit * found)

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Draws of noisy targets, every output by itself."""
        drawn = draws.mixed(self.parts, self.weights, n, generator)
        return self.given(self.offset + self.unit * drawn)

    # --- the same, otherwise ---------------------------------------------------------------

    def flat(self) -> MixturePredictive:
        """See ``Predictive``."""
        single = self.centre.ndim == 2 and self.centre.shape[1] == 1
        return replace(self, column=True) if single else self

    def double(self) -> MixturePredictive:
        """See ``Predictive``."""
        novelty = None if self.novelty is None else self.novelty.double()
        return replace(self, dtype=torch.float64, novelty=novelty)

    def rescaled(self, mean: Tensor | float, scale: Tensor | float) -> MixturePredictive:
        """See ``Predictive``."""
        return replace(self, offset=mean + scale * self.offset, unit=scale * self.unit)

    def widened(self, extra: Tensor) -> MixturePredictive:
        """See ``Predictive``."""
        if self.widen is None:
            raise TypeError(f"a mixture of {type(self.parts).__name__} cannot be widened")
        wider = self.widen(extra.double().reshape(self.centre.shape) / (self.unit * self.unit))
        return replace(
            wider, dtype=self.dtype, column=self.column, offset=self.offset, unit=self.unit,
            novelty=self.novelty,
        )  # fmt: skip
