"""The interface of a prediction: the same members for every learner and likelihood."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor
from typing_extensions import override


class Predictive(ABC):
    """The distribution of the target at each row of the inputs.

    Members have the same meaning in every subclass.  Tensors have the shape of ``mean`` unless
    stated otherwise: ``[rows]`` or ``[rows, targets]`` for numbers, ``[rows, classes]`` for
    classes.

    * Moments: ``mean``, ``variance``, ``std``.
    * Distribution: ``log_prob`` (of rows), ``cdf``, ``quantile``, ``interval``, ``mode``,
      ``sample``; for classes ``probs``, ``labels`` and ``entropy``.
    * Parts of the uncertainty: ``epistemic`` decreases with more data, because it is due to
      uncertain weights (and uncertain inputs).  ``aleatoric`` remains when the weights are known.
      For numbers both are variances and add up to ``variance``: the variance of the mean over the
      weights, and the mean over the weights of the noise variance.  For classes both are in nats
      and add up to ``entropy``: the mutual information of label and weights, and the mean over the
      weights of the entropy of the label.
    * ``novelty``: how much a row differs from the training rows.

    A subclass implements the abstract members.  A member that does not apply raises ``TypeError``
    with a message that gives the reason: there is no mean of several kinds of targets, no quantile
    of classes without an order.
    """

    novelty: Tensor | None = None
    """Distance of each row to the training rows, ``[rows]``: 0 among them, otherwise by how much
    the distance to the nearest exceeds the usual distance between training rows, in standard
    deviations of the inputs.  It has increased ``epistemic`` of numbers, and has made the
    probabilities of classes more even if the inputs have few columns.  None if the training rows
    are unknown, as after online updates only."""

    # --- kind of the target ----------------------------------------------------------------

    @property
    def has_classes(self) -> bool:
        """Whether the target is a class, so that there are ``probs``."""
        return False

    @property
    def is_discrete(self) -> bool:
        """Whether the target is an integer, so that quantiles are integers."""
        return False

    # --- moments ---------------------------------------------------------------------------

    @property
    @abstractmethod
    def mean(self) -> Tensor:
        """Expected value of the target (of its one-hot code, for classes)."""

    @property
    @abstractmethod
    def variance(self) -> Tensor:
        """Variance of the target (of its one-hot code, for classes)."""

    @property
    def std(self) -> Tensor:
        """Standard deviation of the target."""
        return self.variance.sqrt()

    @property
    @abstractmethod
    def epistemic(self) -> Tensor:
        """Uncertainty due to the weights: a variance, or nats for classes (``[rows]``)."""

    @property
    @abstractmethod
    def aleatoric(self) -> Tensor:
        """Uncertainty given the weights: a variance, or nats for classes (``[rows]``)."""

    # --- distribution ----------------------------------------------------------------------

    @abstractmethod
    def log_prob(self, y: Tensor) -> Tensor:
        """Return the log density (or log probability) of each row of targets, ``[rows]``."""

    def elementwise_log_prob(self, y: Tensor) -> Tensor:
        """Return the log density of every number by itself, in the shape of ``mean``."""
        raise TypeError(f"{type(self).__name__} has densities of whole rows only")

    @abstractmethod
    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Return ``n`` samples of the targets, ``[n, rows, ...]``."""

    @property
    def has_cdf(self) -> bool:
        """Whether there is a distribution function ``cdf``.

        Without one, quantiles of a mixture with other predictions are those of samples.  Default:
        whether the class defines ``cdf``.
        """
        return type(self).cdf is not Predictive.cdf

    def cdf(self, y: Tensor) -> Tensor:
        """Return the probability of at most ``y``, of each target by itself."""
        raise TypeError(f"{type(self).__name__} has no distribution function")

    def quantile(self, q: float) -> Tensor:
        """Return the value below which a share ``q`` of the probability lies."""
        raise TypeError(f"{type(self).__name__} has no quantiles: classes have no order")

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Return the bounds of the central interval with probability ``level``."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level}")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    @property
    def mode(self) -> Tensor:
        """The most probable value of the target."""
        raise TypeError(f"{type(self).__name__} does not compute its mode")

    def unwrapped(self, y: Tensor) -> Tensor:
        """Return targets in the turn of ``mean``, for comparison: only angles change."""
        return y

    # --- classes ---------------------------------------------------------------------------

    @property
    def probs(self) -> Tensor:
        """Probability of each class, in the last dimension."""
        raise TypeError(f"{type(self).__name__} has no classes: use mean, std or interval")

    @property
    def labels(self) -> Tensor:
        """The most probable class, ``[rows]``."""
        return self.probs.argmax(-1)

    @property
    def entropy(self) -> Tensor:
        """Entropy of ``probs`` in nats, ``[rows]``: ``epistemic`` plus ``aleatoric``."""
        raise TypeError(f"{type(self).__name__} has no classes: use variance")

    # --- the same prediction, changed ------------------------------------------------------

    def double(self) -> Predictive:
        """Return the prediction in double precision; class probabilities are normalized again.

        Default: every tensor and every part of a dataclass is converted.
        """
        if not is_dataclass(self):
            raise TypeError(f"{type(self).__name__} does not support double precision")
        changes = {field.name: _double(getattr(self, field.name)) for field in fields(self)}
        doubled: Self = replace(self, **changes)
        return doubled

    def rescaled(self, mean: Tensor | float, scale: Tensor | float) -> Predictive:
        """Return the prediction of ``mean + scale * target``, as in the units of the data."""
        raise TypeError(f"{type(self).__name__} cannot be rescaled: it has no unit of measurement")

    def with_noise_scaled(self, factors: Tensor) -> Predictive:
        """Return the prediction with the noise variance times a factor per row and target.

        Args:
            factors: positive factors, ``[rows, targets]``, or a shape that broadcasts to it.
        """
        raise TypeError(f"{type(self).__name__} has no noise variance: targets are not numbers")

    def with_noise_mixture(self, tails: Tensor) -> Predictive:
        """Return the prediction with a scale mixture as noise, which has heavier tails.

        Args:
            tails: factors on the noise variance, ``[factors]``, each equally likely at every row
                and target.
        """
        raise TypeError(f"{type(self).__name__} has no noise variance: targets are not numbers")

    def with_extra_variance(self, extra: Tensor) -> Predictive:
        """Return the prediction with ``extra`` added to the epistemic variance; same mean."""
        raise TypeError(f"{type(self).__name__} has no variance to extend: targets are not numbers")

    def with_novelty(self, novelty: Tensor) -> Self:
        """Return the prediction with the ``novelty`` of each row."""
        changed = copy.copy(self)
        object.__setattr__(changed, "novelty", novelty)  # subclasses are frozen dataclasses
        return changed

    def squeezed(self) -> Predictive:
        """Return the prediction with a single target per row as ``[rows]``."""
        return self

    def mixture_with(self, others: Sequence[Predictive]) -> Predictive:
        """Return the even mixture of this prediction and others of the same rows.

        Args:
            others: predictions of the same rows.
        """
        from tractable.predictive.mixtures import general_mixture

        return general_mixture([self, *others])

    def mixture_over_draws(self, n_samples: int) -> Predictive:
        """Return the even mixture of ``n_samples`` predictions that are stacked along the rows.

        Args:
            n_samples: number of predictions; this one has ``n_samples`` times as many rows as the
                result.
        """
        from tractable.predictive.mixtures import MixturePredictive

        return self if n_samples == 1 else MixturePredictive((self,), (n_samples,))


class DelegatingPredictive(Predictive):
    """A prediction that consists of others and asks them for its moments and quantiles."""

    @abstractmethod
    def each(self, ask: Callable[[Predictive], Tensor]) -> Tensor:
        """Return what ``ask`` returns for the parts, as one tensor in the shape of ``mean``."""

    @property
    @override
    def mean(self) -> Tensor:
        return self.each(lambda part: part.mean)

    @property
    @override
    def variance(self) -> Tensor:
        return self.each(lambda part: part.variance)

    @property
    @override
    def epistemic(self) -> Tensor:
        return self.each(lambda part: part.epistemic)

    @property
    @override
    def aleatoric(self) -> Tensor:
        return self.each(lambda part: part.aleatoric)

    @override
    def quantile(self, q: float) -> Tensor:
        return self.each(lambda part: part.quantile(q))

    @property
    @override
    def mode(self) -> Tensor:
        return self.each(lambda part: part.mode)


def _double(value: Any) -> Any:
    """Return tensors and predictions in double precision, also inside of tuples."""
    if isinstance(value, Predictive):
        return value.double()
    if isinstance(value, tuple):
        return tuple(_double(part) for part in value)
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def match_shape(y: Tensor, reference: Tensor) -> Tensor:
    """Return targets in the shape of predictions; a column may be given as a vector.

    Args:
        y: targets.
        reference: predictions, whose shape, type and device the result has.
    """
    y = torch.as_tensor(y, dtype=reference.dtype, device=reference.device)
    if y.shape == reference.shape:
        return y
    if y.numel() == reference.numel() and y.shape[:1] == reference.shape[:1]:
        return y.reshape(reference.shape)
    raise ValueError(
        f"targets of shape {tuple(y.shape)} do not fit predictions of shape "
        f"{tuple(reference.shape)}"
    )
