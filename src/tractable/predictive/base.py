"""The interface of a prediction: the same members whatever the learner and the likelihood."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor


class Predictive(ABC):
    """The distribution of the target at each row of the inputs.

    Its uncertainty has two parts.  ``epistemic`` is what more data would remove: it comes from
    not knowing the weights (and, where they have error bars, the inputs).  ``aleatoric`` is what
    the data hide, and stays.

    * For numbers both are variances and sum to ``variance``: the variance of the mean over the
      weights, and the mean over the weights of the variance of the noise.
    * For classes both are in nats and sum to ``entropy``, the entropy of ``probs``: the mutual
      information between the label and the weights, and the expected entropy, which is the mean
      over the weights of the entropy of the label once they are known.
    """

    novelty: Tensor | None = None
    """How unlike the training rows each row is: 0 for those that lie among them, else how much
    farther it is from the nearest than they are from each other, in standard deviations of the
    inputs.  For numbers it has widened ``epistemic``; the probabilities of classes it has evened
    out where inputs have few columns.  None where nothing is known of the training rows, as after
    online updates only."""

    @property
    def has_classes(self) -> bool:
        """Whether the target is a class, so that there are ``probs``."""
        return False

    @property
    def is_discrete(self) -> bool:
        """Whether the target is a whole number, so that quantiles are."""
        return False

    @property
    @abstractmethod
    def mean(self) -> Tensor:
        """Expected value of the target (of its one-hot code, for classes)."""

    @property
    @abstractmethod
    def variance(self) -> Tensor:
        """Variance of the target (of its one-hot code, for classes)."""

    @property
    @abstractmethod
    def epistemic(self) -> Tensor:
        """What more data would remove: a variance, or mutual information in nats for classes."""

    @property
    @abstractmethod
    def aleatoric(self) -> Tensor:
        """What the data hide: a variance, or expected entropy in nats for classes."""

    @property
    def std(self) -> Tensor:
        """Standard deviation of the target."""
        return self.variance.sqrt()

    @abstractmethod
    def log_prob(self, y: Tensor) -> Tensor:
        """Log density (or log probability) of each observed row of ``y``."""

    def elementwise_log_prob(self, y: Tensor) -> Tensor:
        """Log density of every number by itself, in the shape of ``mean``."""
        raise TypeError(f"{type(self).__name__} has densities of whole rows only")

    @abstractmethod
    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """``n`` draws of the targets, stacked in front."""

    def unwrapped(self, y: Tensor) -> Tensor:
        """Targets as they compare with ``mean`` and ``interval``: of angles, whole turns off."""
        return y

    @property
    def has_cdf(self) -> bool:
        """Whether there is a distribution function ``cdf``.

        Without one, quantiles of a mixture with others are those of samples.  True by default
        where a class defines ``cdf``.
        """
        return type(self).cdf is not Predictive.cdf

    def cdf(self, y: Tensor) -> Tensor:
        """Probability of at most ``y``, of each output by itself."""
        raise TypeError(f"{type(self).__name__} has no distribution function")

    @property
    def mode(self) -> Tensor:
        """The most probable value of the target."""
        raise TypeError(f"{type(self).__name__} does not say where its mode is")

    def quantile(self, q: float) -> Tensor:
        """The value below which a share ``q`` of the probability lies."""
        raise TypeError(f"{type(self).__name__} has no quantiles: classes have no order")

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """The central interval that holds a share ``level`` of the probability."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level}")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    @property
    def probs(self) -> Tensor:
        """Probability of each class."""
        raise TypeError(f"{type(self).__name__} has no classes: use mean, std or interval")

    @property
    def labels(self) -> Tensor:
        """The most probable class."""
        return self.probs.argmax(-1)

    @property
    def entropy(self) -> Tensor:
        """Entropy of ``probs``, in nats: ``epistemic`` plus ``aleatoric``."""
        raise TypeError(f"{type(self).__name__} has no classes: use variance")

    def double(self) -> Predictive:
        """The same in double precision; class probabilities then sum to one as closely."""
        raise TypeError(f"{type(self).__name__} does not say what it is in double precision")

    def rescaled(self, mean: Tensor | float, scale: Tensor | float) -> Predictive:
        """The predictive of ``mean + scale * target``: back to the units of the data."""
        raise TypeError(f"{type(self).__name__} cannot be rescaled: it has no unit of measurement")

    def with_noise_scaled(self, factors: Tensor) -> Predictive:
        """The same with the noise variance of each row and output multiplied by a factor."""
        raise TypeError(f"{type(self).__name__} has no noise to multiply: it is not of numbers")

    def with_noise_mixture(self, tails: Tensor) -> Predictive:
        """The same with a noise of heavier tails: its variance times one of these factors, drawn
        with equal chances at every row and output.
        """
        raise TypeError(f"{type(self).__name__} has no noise to multiply: it is not of numbers")

    def with_extra_variance(self, extra: Tensor) -> Predictive:
        """The same mean with more epistemic variance, ``extra`` for each row and output."""
        raise TypeError(f"{type(self).__name__} cannot be widened: it is not of numbers")

    def with_novelty(self, novelty: Tensor) -> Self:
        """The same, with the ``novelty`` of each row beside it."""
        twin = copy.copy(self)
        object.__setattr__(twin, "novelty", novelty)
        return twin

    def squeezed(self) -> Predictive:
        """The same, with a single output per row given flat, as the targets were."""
        return self

    def mixture_with(self, others: Sequence[Predictive]) -> Predictive:
        """Return the even mixture of this and others of the same rows, of no particular kind."""
        from tractable.predictive.mixtures import general_mixture

        return general_mixture([self, *others])

    def mixture_over_draws(self, draws: int) -> Predictive:
        """The even mixture of ``draws`` predictions, whose rows stand here one after the other."""
        from tractable.predictive.mixtures import MixturePredictive

        return self if draws == 1 else MixturePredictive((self,), (draws,))


def match_shape(y: Tensor, reference: Tensor) -> Tensor:
    """``y`` in the shape of ``reference``: a column of one output may be given flat."""
    y = torch.as_tensor(y, dtype=reference.dtype, device=reference.device)
    if y.shape == reference.shape:
        return y
    if y.numel() == reference.numel() and y.shape[:1] == reference.shape[:1]:
        return y.reshape(reference.shape)
    raise ValueError(
        f"targets of shape {tuple(y.shape)} do not fit predictions of shape "
        f"{tuple(reference.shape)}"
    )
