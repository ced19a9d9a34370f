"""What a method knows of a network's outputs at some rows: moments, draws, or several of these."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from typing_extensions import override

from tractable.likelihoods import Likelihood
from tractable.predictive import Predictive, mixture
from tractable.training.inputs import Inputs


class Outputs(ABC):
    """The outputs at some rows, without the noise of an observation."""

    @abstractmethod
    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of every output, rows first."""

    @abstractmethod
    def within(self) -> Tensor:
        """The share of that variance that each network has by itself, the mean over networks."""

    @abstractmethod
    def predictive(self) -> Predictive:
        """The distribution of the targets."""

    @abstractmethod
    def with_extra_variance(self, extra: Tensor) -> Outputs:
        """The same means with more variance, ``extra`` for each row and output."""


@dataclass(frozen=True)
class GaussianOutputs(Outputs):
    """Outputs that are independent Gaussians."""

    mean: Tensor
    variance: Tensor
    likelihood: Likelihood

    def moments(self) -> tuple[Tensor, Tensor]:
        """As they are."""
        return self.mean, self.variance

    def within(self) -> Tensor:
        """All of it."""
        return self.variance

    def predictive(self) -> Predictive:
        """In closed form, by the likelihood."""
        return self.likelihood.predictive(self.mean, self.variance)

    @override
    def with_extra_variance(self, extra: Tensor) -> GaussianOutputs:
        return replace(self, variance=self.variance + extra)


@dataclass(frozen=True)
class SampledOutputs(Outputs):
    """Outputs of several draws of the weights, stacked in front of the rows."""

    values: Tensor
    likelihood: Likelihood
    extra: Tensor | None = None

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance over the draws."""
        variance = self.values.var(0, correction=0)
        return self.values.mean(0), variance if self.extra is None else variance + self.extra

    def within(self) -> Tensor:
        """A draw is sure, but for what was added."""
        return torch.zeros_like(self.values[0]) if self.extra is None else self.extra

    def predictive(self) -> Predictive:
        """The even mixture of what each draw predicts."""
        within = torch.zeros_like(self.values)
        if self.extra is not None:
            within = within + self.extra
        rows, within = self.values.flatten(0, 1), within.flatten(0, 1)
        return self.likelihood.predictive(rows, within).mixture_over_draws(len(self.values))

    def with_extra_variance(self, extra: Tensor) -> SampledOutputs:
        """See ``Outputs``; every draw is as unsure."""
        return replace(self, extra=extra if self.extra is None else self.extra + extra)


@dataclass(frozen=True)
class EnsembleOutputs(Outputs):
    """The outputs of several members, each as likely as the others."""

    parts: list[Outputs]

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of the mixture, by the law of total variance."""
        pairs = [part.moments() for part in self.parts]
        means = torch.stack([mean for mean, _ in pairs])
        variances = torch.stack([variance for _, variance in pairs])
        return means.mean(0), variances.mean(0) + means.var(0, correction=0)

    @override
    def within(self) -> Tensor:
        return torch.stack([part.within() for part in self.parts]).mean(0)

    def predictive(self) -> Predictive:
        """The even mixture of the members' predictions."""
        return mixture([part.predictive() for part in self.parts])

    def with_extra_variance(self, extra: Tensor) -> EnsembleOutputs:
        """See ``Outputs``; every member is as unsure."""
        return EnsembleOutputs([part.with_extra_variance(extra) for part in self.parts])


def in_batches(
    function: Callable[[Inputs], tuple[Tensor, ...]], x: Inputs, batch_size: int | None
) -> tuple[Tensor, ...]:
    """A function of rows, applied to at most so many rows at once, and the results joined."""
    return joined([function(rows) for rows in chunks(x, batch_size)])


def chunks(x: Inputs, batch_size: int | None) -> list[Inputs]:
    """The rows in parts of at most ``batch_size``; all in one part if that is None."""
    if batch_size is None or len(x) <= batch_size:
        return [x]
    return [x[i : i + batch_size] for i in range(0, len(x), batch_size)]


def joined(parts: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """The results for several parts of the rows as one."""
    if len(parts) == 1:
        return parts[0]
    return tuple(torch.cat(tensors) for tensors in zip(*parts, strict=True))
