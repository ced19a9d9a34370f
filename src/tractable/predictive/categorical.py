"""Class labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor
from typing_extensions import override

from tractable.predictive.base import Predictive
from tractable.predictive.root_finding import check_probability


@dataclass(frozen=True)
class CategoricalPredictive(Predictive):
    """A class label.

    Args:
        probabilities: ``[rows, classes]``; rows sum to one.
        binary: whether the target is 0 or 1, so that ``mean`` is the probability of 1.
        expected_entropy: returns the mean over the weights of the entropy of each row's label, in
            nats; called when ``epistemic`` or ``aleatoric`` is read.  None: the weights are known,
            and all entropy is aleatoric.
        novelty: distance of each row to the training rows; see ``Predictive``.
        ordered: whether classes are levels from low to high, so that there are quantiles.
    """

    probabilities: Tensor
    binary: bool = False
    expected_entropy: Callable[[], Tensor] | None = field(default=None, compare=False, repr=False)
    novelty: Tensor | None = field(default=None, compare=False, repr=False)
    ordered: bool = False

    @property
    @override
    def has_classes(self) -> bool:
        return True

    @property
    def mode(self) -> Tensor:
        """The most probable class."""
        return self.labels

    @property
    def probs(self) -> Tensor:
        """Probability of each class; of class 1 in the last column when binary."""
        return self.probabilities

    @property
    def mean(self) -> Tensor:
        """Class probabilities; when binary, the probability of class 1."""
        return self.probabilities[..., 1] if self.binary else self.probabilities

    @property
    def variance(self) -> Tensor:
        """Variance ``p (1 - p)`` of the indicator of each class; when binary, of class 1."""
        return self.mean * (1 - self.mean)

    @property
    def entropy(self) -> Tensor:
        """Entropy of the label, in nats; zero where one class is certain."""
        return torch.special.entr(self.probabilities).sum(-1)

    @property
    def aleatoric(self) -> Tensor:
        """Expected entropy of the label given the weights, in nats.

        A mean of entropies never exceeds the entropy of the mean.  Where an approximate one does,
        by rounding or because ``probs`` are approximate, it is clamped to ``entropy``.
        """
        total = self.entropy
        if self.expected_entropy is None:
            return total
        return torch.minimum(self.expected_entropy().to(total.dtype), total)

    @property
    def epistemic(self) -> Tensor:
        """Mutual information between the label and the weights, in nats; never negative."""
        return self.entropy - self.aleatoric

    def log_prob(self, y: Tensor) -> Tensor:
        """Return the log probability of each observed label.

        Approximate: probabilities below the smallest normal number of their precision count as
        that number, so that no row has less than -87.3 in single and -708.4 in double precision.
        """
        y = torch.as_tensor(y, device=self.probabilities.device).long()
        y = y.reshape(self.probabilities.shape[:-1])
        chosen = self.probabilities.gather(-1, y.unsqueeze(-1)).squeeze(-1)
        found = chosen.clamp_min(torch.finfo(chosen.dtype).tiny).log()
        # the labels of a row are one observation
        return found.flatten(1).sum(1) if self.has_several_labels else found

    @property
    @override
    def has_cdf(self) -> bool:
        return self.ordered

    def cdf(self, y: Tensor) -> Tensor:
        """Return the probability of at most level ``y``, for ordered classes."""
        if not self.ordered:
            return super().cdf(y)
        y = torch.as_tensor(y, device=self.probabilities.device)
        y = y.reshape(self.probabilities.shape[:-1]).unsqueeze(-1)
        levels = torch.arange(self.probabilities.shape[-1], device=y.device)
        return (self.probabilities * (levels <= y)).sum(-1)

    def quantile(self, q: float) -> Tensor:
        """Return the lowest class with a cumulative probability of at least ``q``, if ordered."""
        if not self.ordered:
            return super().quantile(q)
        check_probability(q)
        below = self.probabilities.cumsum(-1) < q
        return below.sum(-1).clamp(max=self.probabilities.shape[-1] - 1)

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Return samples of labels."""
        rows = self.probabilities.reshape(-1, self.probabilities.shape[-1])
        draws = torch.multinomial(rows, n, replacement=True, generator=generator)
        return draws.T.reshape(n, *self.probabilities.shape[:-1])

    @property
    def has_several_labels(self) -> bool:
        """Whether a row has several labels, which are dependent in a mixture."""
        return self.probabilities.ndim > 2

    def mixture_over_draws(self, n_samples: int) -> Predictive:
        """Return mean probabilities: for one label, the mixture is of the same kind."""
        if self.has_several_labels:
            return super().mixture_over_draws(n_samples)
        return CategoricalPredictive(
            self.probabilities.unflatten(0, (n_samples, -1)).mean(0),
            self.binary,
            partial(_mean_over_draws, self, n_samples),
            ordered=self.ordered,
        )

    @override
    def double(self) -> CategoricalPredictive:
        probs = self.probabilities.double()
        novelty = None if self.novelty is None else self.novelty.double()
        return replace(self, probabilities=probs / probs.sum(-1, keepdim=True), novelty=novelty)


def categorical_mixture(parts: Sequence[CategoricalPredictive]) -> CategoricalPredictive:
    """Return the even mixture of predictions of the same rows."""
    return CategoricalPredictive(
        torch.stack([part.probs for part in parts]).mean(0),
        parts[0].binary,
        partial(_mean_over_parts, tuple(parts)),
        ordered=all(part.ordered for part in parts),
    )


def _mean_over_draws(stacked: CategoricalPredictive, draws: int) -> Tensor:
    return stacked.aleatoric.unflatten(0, (draws, -1)).mean(0)


def _mean_over_parts(parts: tuple[CategoricalPredictive, ...]) -> Tensor:
    return torch.stack([part.aleatoric for part in parts]).mean(0)
