"""Mixtures of predictions of any kind: weight samples, ensemble members, mixture components."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from typing_extensions import override

from tractable.predictive import root_finding
from tractable.predictive.base import Predictive
from tractable.predictive.categorical import CategoricalPredictive, categorical_mixture
from tractable.predictive.circular import CircularPredictive, circular_mixture
from tractable.predictive.normal import NormalPredictive
from tractable.predictive.normal_mixture import NormalMixturePredictive
from tractable.predictive.sampling import SampledQuantiles, chunk_sizes
from tractable.predictive.steps import StepsPredictive

_MAX_STARTS = 32


@dataclass(frozen=True)
class MixturePredictive(SampledQuantiles):
    """A mixture of predictions of the same rows, whatever their kind.

    The variance between the parts counts as epistemic, because the parts differ in their weights,
    unless ``epistemic_variance`` is given.

    Exact: mean, variance, density and distribution function.

    Args:
        parts: the predictions.
        n_draws: number of predictions in each part, stacked along its rows.
        weights: weight of each prediction in each row, ``[predictions, rows]``; even by default.
        epistemic_variance: epistemic variance, where the parts are not weight samples.
        novelty: distance of each row to the training rows; see ``Predictive``.
    """

    parts: tuple[Predictive, ...]
    n_draws: tuple[int, ...]
    weights: Tensor | None = None
    epistemic_variance: Tensor | None = None
    novelty: Tensor | None = field(default=None, compare=False, repr=False)

    @property
    @override
    def is_discrete(self) -> bool:
        return any(part.is_discrete for part in self.parts)

    def stacked(self, ask: Callable[[Predictive], Tensor]) -> Tensor:
        """Return what ``ask`` returns for every prediction, ``[predictions, rows, ...]``."""
        found = [
            ask(part).unflatten(0, (draws, -1))
            for part, draws in zip(self.parts, self.n_draws, strict=True)
        ]
        return found[0] if len(found) == 1 else torch.cat(found)

    def at(self, y: Tensor, ask: Callable[[Predictive, Tensor], Tensor]) -> Tensor:
        """Return what ``ask`` returns for every prediction and targets ``y``."""
        y = torch.as_tensor(y)
        copies = {n: y.repeat(n, *[1] * (y.ndim - 1)) for n in set(self.n_draws)}
        found = [
            ask(part, copies[n]).unflatten(0, (n, -1))
            for part, n in zip(self.parts, self.n_draws, strict=True)
        ]
        return torch.cat(found)

    def average(self, values: Tensor) -> Tensor:
        """Return the weighted mean over the predictions."""
        if self.weights is None:
            return values.mean(0)
        weights = self.weights.reshape(*self.weights.shape, *[1] * (values.ndim - 2))
        return (weights.to(values.dtype) * values).sum(0)

    @property
    @override
    def has_classes(self) -> bool:
        return self.parts[0].has_classes

    @property
    @override
    def mean(self) -> Tensor:
        return self.average(self.stacked(lambda part: part.mean))

    @property
    def between(self) -> Tensor:
        """Variance of the means."""
        means = self.stacked(lambda part: part.mean)
        return self.average((means - self.average(means)) ** 2)

    @property
    def variance(self) -> Tensor:
        """Mean variance plus variance of the means."""
        return self.average(self.stacked(lambda part: part.variance)) + self.between

    @property
    def epistemic(self) -> Tensor:
        """Mean epistemic variance of the parts plus variance of their means."""
        if self.has_classes:
            return self.entropy - self.aleatoric
        if self.epistemic_variance is not None:
            return self.epistemic_variance
        return self.average(self.stacked(lambda part: part.epistemic)) + self.between

    @property
    def aleatoric(self) -> Tensor:
        """Mean of the parts' aleatoric variances, or of their entropies for classes."""
        if self.epistemic_variance is not None:
            return self.variance - self.epistemic_variance
        hidden = self.average(self.stacked(lambda part: part.aleatoric))
        return torch.minimum(hidden, self.entropy) if self.has_classes else hidden

    @property
    def probs(self) -> Tensor:
        """Class probabilities, averaged over the parts."""
        return self.average(self.stacked(lambda part: part.probs))

    @property
    @override
    def entropy(self) -> Tensor:
        return torch.special.entr(self.probs).sum(-1)

    def log_prob(self, y: Tensor) -> Tensor:
        """Return the log of the mean density of each row."""
        return self._log_average(self.at(y, lambda part, rows: part.log_prob(rows)))

    @override
    def elementwise_log_prob(self, y: Tensor) -> Tensor:
        return self._log_average(self.at(y, lambda part, rows: part.elementwise_log_prob(rows)))

    def _log_average(self, found: Tensor) -> Tensor:
        """Return the log of the weighted mean of densities."""
        total = len(found)
        weights = found.new_full((total, 1), 1 / total)
        if self.weights is not None:
            weights = self.weights.to(found.dtype)
        weights = weights.reshape(*weights.shape, *[1] * (found.ndim - 2))
        return (found + weights.log()).logsumexp(0)

    @property
    @override
    def has_cdf(self) -> bool:
        return all(part.has_cdf for part in self.parts)

    def cdf(self, y: Tensor) -> Tensor:
        """Return the mean of the distribution functions of the parts."""
        return self.average(self.at(y, lambda part, rows: part.cdf(rows)))

    def quantile(self, q: float) -> Tensor:
        """Return the root of ``cdf``; if a part has none, a quantile of 4,096 samples."""
        root_finding.check_probability(q)
        if not self.has_cdf:
            return self.quantile_of_samples(q)
        mean, std = self.mean, self.std
        start = mean.double()
        step = torch.where(torch.isfinite(std), std, 1 + mean.abs()).double()
        eps = torch.finfo(mean.dtype).eps
        found = root_finding.invert(self.cdf, q, start, step, is_discrete=self.is_discrete, eps=eps)
        return found.to(mean.dtype)

    @property
    def mode(self) -> Tensor:
        """The most probable value near the means of the parts; one of them for several targets."""
        means = self.stacked(lambda part: part.mean)
        few = means[:: max(len(means) // _MAX_STARTS, 1)].double()
        alone = few[0, 0].numel() == 1
        step = self.std.double() / 4
        found = root_finding.climb(
            self.log_prob, few, step, is_discrete=self.is_discrete, alone=alone
        )
        return found.to(means.dtype)

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Return samples: first one of the predictions is drawn, then a target.

        With even weights a sample uses the same prediction in all rows.
        """
        total = sum(self.n_draws)
        if self.weights is None:
            which = torch.randint(total, (n, 1), generator=generator)
        else:
            which = torch.multinomial(self.weights.T.cpu(), n, True, generator=generator).T
        rows = len(self.mean)
        which = which.expand(n, rows)
        found = [
            self._picked(chosen, generator)
            for chosen in which.split(list(chunk_sizes(n, total * rows)))
        ]
        return torch.cat(found)

    def _picked(self, which: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return a sample of the chosen prediction, for each sample and row."""
        n, rows = which.shape
        drawn = [
            part.sample(n, generator).unflatten(1, (draws, -1))
            for part, draws in zip(self.parts, self.n_draws, strict=True)
        ]
        values = torch.cat(drawn, 1)  # [n, predictions, rows, ...]
        index = which.to(values.device).reshape(n, 1, rows, *[1] * (values.ndim - 3))
        return values.gather(1, index.expand(n, 1, *values.shape[2:])).squeeze(1)

    @override
    def squeezed(self) -> Predictive:
        inner = self.epistemic_variance
        if inner is not None and inner.ndim == 2 and inner.shape[1] == 1:
            inner = inner.squeeze(1)
        return replace(
            self, parts=tuple(part.squeezed() for part in self.parts), epistemic_variance=inner
        )

    @override
    def double(self) -> MixturePredictive:
        novelty, inner = (
            None if t is None else t.double() for t in (self.novelty, self.epistemic_variance)
        )
        weights = None
        if self.weights is not None:
            weights = self.weights.double()
            weights = weights / weights.sum(0)
        parts = tuple(part.double() for part in self.parts)
        return MixturePredictive(parts, self.n_draws, weights, inner, novelty)

    @override
    def rescaled(self, mean: Tensor | float, scale: Tensor | float) -> MixturePredictive:
        inner = None if self.epistemic_variance is None else self.epistemic_variance * scale * scale
        return replace(
            self,
            parts=tuple(part.rescaled(mean, scale) for part in self.parts),
            epistemic_variance=inner,
        )

    def with_extra_variance(self, extra: Tensor) -> MixturePredictive:
        """Add the variance to every part."""
        parts = tuple(
            part.with_extra_variance(extra.repeat(n, *[1] * (extra.ndim - 1)))
            for part, n in zip(self.parts, self.n_draws, strict=True)
        )
        return replace(
            self,
            parts=parts,
            epistemic_variance=None
            if self.epistemic_variance is None
            else self.epistemic_variance + extra,
        )


def general_mixture(parts: Sequence[Predictive]) -> MixturePredictive:
    """Return the even mixture of predictions of the same rows, with equal weight per sample."""
    members: list[Predictive] = []
    draws: list[int] = []
    for part in parts:
        even = isinstance(part, MixturePredictive) and part.weights is None
        if isinstance(part, MixturePredictive) and even and part.epistemic_variance is None:
            members += part.parts
            draws += part.n_draws
        else:
            members.append(part)
            draws.append(1)
    return MixturePredictive(tuple(members), tuple(draws))


def mixture(parts: list[Predictive]) -> Predictive:
    """Return the even mixture of several predictions of the same rows, such as of an ensemble.

    A part that is itself a mixture of weight samples has the weight of its samples.

    Args:
        parts: predictions of any kind, but either of numbers or of classes.
    """
    if not parts:
        raise ValueError("a mixture needs at least one predictive")
    steps = [part for part in parts if isinstance(part, StepsPredictive)]
    if len(steps) == len(parts):
        return StepsPredictive(mixture([part.part for part in steps]), steps[0].steps)
    labels = [part for part in parts if isinstance(part, CategoricalPredictive)]
    if len(labels) == len(parts) and not any(part.has_several_labels for part in labels):
        return categorical_mixture(labels)
    angles = [part for part in parts if isinstance(part, CircularPredictive)]
    if len(angles) == len(parts):
        return circular_mixture(angles)
    stacked = [
        part.mixture_over_draws(1) if isinstance(part, NormalPredictive) else part for part in parts
    ]
    normals = [part for part in stacked if isinstance(part, NormalMixturePredictive)]
    if len(normals) == len(parts):
        tails = normals[0].tails
        if not all(_same(part.tails, tails) for part in normals):
            many = math.lcm(*(1 if part.tails is None else len(part.tails) for part in normals))
            normals, tails = [_spread(part, many) for part in normals], None
        return NormalMixturePredictive(
            torch.cat([part.means for part in normals]),
            torch.cat([part.epistemic_variance for part in normals]),
            torch.cat([part.noise_variance for part in normals]),
            tails=tails,
        )
    if len({part.has_classes for part in parts}) > 1:
        kinds = ", ".join(sorted({type(part).__name__ for part in parts}))
        raise TypeError(f"cannot mix predictives of these kinds: {kinds}")
    return parts[0].mixture_with(parts[1:])


def _spread(part: NormalMixturePredictive, many: int) -> NormalMixturePredictive:
    """Return a mixture of normals only, ``many`` of them for each sample."""
    tails = part.noise_variance.new_ones(1) if part.tails is None else part.tails
    return part.with_noise_mixture(tails.repeat(many // len(tails))).components


def _same(a: Tensor | None, b: Tensor | None) -> bool:
    """Return whether two noises have the same tails."""
    return a is b or (a is not None and b is not None and torch.equal(a, b))
