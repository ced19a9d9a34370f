"""A mixture of predictions of any kind: draws of the weights, members, mixture components."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from tractable.predictive import search
from tractable.predictive.base import Predictive
from tractable.predictive.draws import portions
from tractable.predictive.sampled import SampledQuantiles

_MOST_STARTS = 32


@dataclass(frozen=True)
class PooledPredictive(SampledQuantiles):
    """A mixture of predictions of the same rows, whatever their kind.

    Between the parts lies what is not known of the weights, so it counts as epistemic, unless
    ``within`` says what does.  Mean, variance, density and distribution function are exact.

    Args:
        parts: the predictions.
        draws: how many predictions stand in each part, one after the other along its rows.
        weights: weight of each prediction in each row, ``[predictions, rows]``; even by default.
        within: epistemic variance, where the parts are not draws of the weights.
        novelty: how unlike the training rows each row is; see ``Predictive``.
    """

    parts: tuple[Predictive, ...]
    draws: tuple[int, ...]
    weights: Tensor | None = None
    within: Tensor | None = None
    novelty: Tensor | None = field(default=None, compare=False, repr=False)

    @property
    def whole(self) -> bool:
        """See ``Predictive``."""
        return any(part.whole for part in self.parts)

    def stacked(self, look: Callable[[Predictive], Tensor]) -> Tensor:
        """What every prediction says of something, predictions in front of the rows."""
        found = [
            look(part).unflatten(0, (draws, -1))
            for part, draws in zip(self.parts, self.draws, strict=True)
        ]
        return found[0] if len(found) == 1 else torch.cat(found)

    def at(self, y: Tensor, ask: Callable[[Predictive, Tensor], Tensor]) -> Tensor:
        """What every prediction says of given targets."""
        y = torch.as_tensor(y)
        copies = {n: y.repeat(n, *[1] * (y.ndim - 1)) for n in set(self.draws)}
        found = [
            ask(part, copies[n]).unflatten(0, (n, -1))
            for part, n in zip(self.parts, self.draws, strict=True)
        ]
        return torch.cat(found)

    def average(self, values: Tensor) -> Tensor:
        """The weighted mean of what the predictions say."""
        if self.weights is None:
            return values.mean(0)
        weights = self.weights.reshape(*self.weights.shape, *[1] * (values.ndim - 2))
        return (weights.to(values.dtype) * values).sum(0)

    @property
    def has_classes(self) -> bool:
        """See ``Predictive``."""
        return self.parts[0].has_classes

    @property
    def mean(self) -> Tensor:
        """Mean of the means."""
        return self.average(self.stacked(lambda part: part.mean))

    @property
    def between(self) -> Tensor:
        """Variance of the means."""
        means = self.stacked(lambda part: part.mean)
        return self.average((means - self.average(means)) ** 2)

    @property
    def variance(self) -> Tensor:
        """The law of total variance."""
        return self.average(self.stacked(lambda part: part.variance)) + self.between

    @property
    def epistemic(self) -> Tensor:
        """What the parts are unsure of, and what they disagree on."""
        if self.has_classes:
            return self.entropy - self.aleatoric
        if self.within is not None:
            return self.within
        return self.average(self.stacked(lambda part: part.epistemic)) + self.between

    @property
    def aleatoric(self) -> Tensor:
        """What is hidden within the parts."""
        if self.within is not None:
            return self.variance - self.within
        hidden = self.average(self.stacked(lambda part: part.aleatoric))
        return torch.minimum(hidden, self.entropy) if self.has_classes else hidden

    @property
    def probs(self) -> Tensor:
        """Mean probabilities."""
        return self.average(self.stacked(lambda part: part.probs))

    @property
    def entropy(self) -> Tensor:
        """See ``Predictive``."""
        return torch.special.entr(self.probs).sum(-1)

    def log_prob(self, y: Tensor) -> Tensor:
        """Log of the mean density of each row."""
        return self._log_average(self.at(y, lambda part, rows: part.log_prob(rows)))

    def log_prob_of_each(self, y: Tensor) -> Tensor:
        """See ``Predictive``."""
        return self._log_average(self.at(y, lambda part, rows: part.log_prob_of_each(rows)))

    def _log_average(self, found: Tensor) -> Tensor:
        """Log of the weighted mean of densities."""
        total = len(found)
        weights = found.new_full((total, 1), 1 / total)
        if self.weights is not None:
            weights = self.weights.to(found.dtype)
        weights = weights.reshape(*weights.shape, *[1] * (found.ndim - 2))
        return (found + weights.log()).logsumexp(0)

    @property
    def has_cdf(self) -> bool:
        """See ``Predictive``."""
        return all(part.has_cdf for part in self.parts)

    def cdf(self, y: Tensor) -> Tensor:
        """Mean of the parts' distribution functions."""
        return self.average(self.at(y, lambda part, rows: part.cdf(rows)))

    def quantile(self, q: float) -> Tensor:
        """The root of ``cdf``; where a part has none, a quantile of 4,096 samples."""
        search.check_share(q)
        if not self.has_cdf:
            return self.sampled_quantile(q)
        mean, std = self.mean, self.std
        start = mean.double()
        step = torch.where(torch.isfinite(std), std, 1 + mean.abs()).double()
        eps = torch.finfo(mean.dtype).eps
        found = search.invert(self.cdf, q, start, step, whole=self.whole, eps=eps)
        return found.to(mean.dtype)

    @property
    def mode(self) -> Tensor:
        """The most probable value near the parts' means; of their means, for several outputs."""
        means = self.stacked(lambda part: part.mean)
        few = means[:: max(len(means) // _MOST_STARTS, 1)].double()
        alone = few[0, 0].numel() == 1
        step = self.std.double() / 4
        found = search.climb(self.log_prob, few, step, whole=self.whole, alone=alone)
        return found.to(means.dtype)

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Draws of noisy targets: first one of the predictions, then its noise.

        Even draws see the same prediction in all rows.
        """
        total = sum(self.draws)
        if self.weights is None:
            which = torch.randint(total, (n, 1), generator=generator)
        else:
            which = torch.multinomial(self.weights.T.cpu(), n, True, generator=generator).T
        rows = len(self.mean)
        which = which.expand(n, rows)
        found = [
            self._picked(chosen, generator)
            for chosen in which.split(list(portions(n, total * rows)))
        ]
        return torch.cat(found)

    def _picked(self, which: Tensor, generator: torch.Generator | None) -> Tensor:
        """A draw of the chosen prediction, for each draw and row."""
        n, rows = which.shape
        drawn = [
            part.sample(n, generator).unflatten(1, (draws, -1))
            for part, draws in zip(self.parts, self.draws, strict=True)
        ]
        values = torch.cat(drawn, 1)  # [n, predictions, rows, ...]
        index = which.to(values.device).reshape(n, 1, rows, *[1] * (values.ndim - 3))
        return values.gather(1, index.expand(n, 1, *values.shape[2:])).squeeze(1)

    def flat(self) -> Predictive:
        """See ``Predictive``."""
        inner = self.within
        if inner is not None and inner.ndim == 2 and inner.shape[1] == 1:
            inner = inner.squeeze(1)
        return replace(self, parts=tuple(part.flat() for part in self.parts), within=inner)

    def double(self) -> PooledPredictive:
        """See ``Predictive``."""
        novelty, inner = (None if t is None else t.double() for t in (self.novelty, self.within))
        weights = None
        if self.weights is not None:
            weights = self.weights.double()
            weights = weights / weights.sum(0)
        parts = tuple(part.double() for part in self.parts)
        return PooledPredictive(parts, self.draws, weights, inner, novelty)

    def rescaled(self, mean: Tensor | float, scale: Tensor | float) -> PooledPredictive:
        """See ``Predictive``."""
        inner = None if self.within is None else self.within * scale * scale
        return replace(
            self, parts=tuple(part.rescaled(mean, scale) for part in self.parts), within=inner
        )

    def widened(self, extra: Tensor) -> PooledPredictive:
        """See ``Predictive``; every part is as unsure."""
        parts = tuple(
            part.widened(extra.repeat(n, *[1] * (extra.ndim - 1)))
            for part, n in zip(self.parts, self.draws, strict=True)
        )
        return replace(
            self, parts=parts, within=None if self.within is None else self.within + extra
        )


def pool(parts: Sequence[Predictive]) -> PooledPredictive:
    """The even mixture of predictives of the same rows, one vote for each of their draws."""
    members: list[Predictive] = []
    draws: list[int] = []
    for part in parts:
        even = isinstance(part, PooledPredictive) and part.weights is None
        if isinstance(part, PooledPredictive) and even and part.within is None:
            members += part.parts
            draws += part.draws
        else:
            members.append(part)
            draws.append(1)
    return PooledPredictive(tuple(members), tuple(draws))
