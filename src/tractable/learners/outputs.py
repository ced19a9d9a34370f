"""Distributions of a network's outputs: Gaussian moments, samples, or those of an ensemble."""

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
    """The distribution of the network's outputs at some rows, without observation noise."""

    @abstractmethod
    def moments(self) -> tuple[Tensor, Tensor]:
        """Return mean and variance of every output, rows first."""

    @abstractmethod
    def within(self) -> Tensor:
        """Return the variance within each network, averaged over the networks of an ensemble."""

    @abstractmethod
    def predictive(self) -> Predictive:
        """Return the distribution of the targets."""

    @abstractmethod
    def with_extra_variance(self, extra: Tensor) -> Outputs:
        """Return outputs with the same means and ``extra`` variance per row and output."""


@dataclass(frozen=True)
class GaussianOutputs(Outputs):
    """Independent Gaussian outputs."""

    mean: Tensor
    variance: Tensor
    likelihood: Likelihood

    def moments(self) -> tuple[Tensor, Tensor]:
        """Return mean and variance."""
        return self.mean, self.variance

    def within(self) -> Tensor:
        """Return the variance."""
        return self.variance

    def predictive(self) -> Predictive:
        """Return the predictive distribution of the likelihood, in closed form."""
        return self.likelihood.predictive(self.mean, self.variance)

    @override
    def with_extra_variance(self, extra: Tensor) -> GaussianOutputs:
        return replace(self, variance=self.variance + extra)


@dataclass(frozen=True)
class SampledOutputs(Outputs):
    """Outputs for several weight samples, ``[samples, rows, ...]``."""

    values: Tensor
    likelihood: Likelihood
    extra: Tensor | None = None

    def moments(self) -> tuple[Tensor, Tensor]:
        """Return mean and variance over the samples."""
        variance = self.values.var(0, correction=0)
        return self.values.mean(0), variance if self.extra is None else variance + self.extra

    def within(self) -> Tensor:
        """Return the extra variance; single samples have no variance."""
        return torch.zeros_like(self.values[0]) if self.extra is None else self.extra

    def predictive(self) -> Predictive:
        """Return the mixture of the predictions of all samples, with equal weights."""
        within = torch.zeros_like(self.values)
        if self.extra is not None:
            within = within + self.extra
        rows, within = self.values.flatten(0, 1), within.flatten(0, 1)
        return self.likelihood.predictive(rows, within).mixture_over_draws(len(self.values))

    def with_extra_variance(self, extra: Tensor) -> SampledOutputs:
        """Return outputs with extra variance in every sample."""
        return replace(self, extra=extra if self.extra is None else self.extra + extra)


@dataclass(frozen=True)
class EnsembleOutputs(Outputs):
    """The outputs of several members with equal weights."""

    parts: list[Outputs]

    def moments(self) -> tuple[Tensor, Tensor]:
        """Return mean and variance of the mixture, by the law of total variance."""
        pairs = [part.moments() for part in self.parts]
        means = torch.stack([mean for mean, _ in pairs])
        variances = torch.stack([variance for _, variance in pairs])
        return means.mean(0), variances.mean(0) + means.var(0, correction=0)

    @override
    def within(self) -> Tensor:
        return torch.stack([part.within() for part in self.parts]).mean(0)

    def predictive(self) -> Predictive:
        """Return the mixture of the members' predictions."""
        return mixture([part.predictive() for part in self.parts])

    def with_extra_variance(self, extra: Tensor) -> EnsembleOutputs:
        """Return outputs with extra variance in every member."""
        return EnsembleOutputs([part.with_extra_variance(extra) for part in self.parts])


def in_batches(
    function: Callable[[Inputs], tuple[Tensor, ...]], x: Inputs, batch_size: int | None
) -> tuple[Tensor, ...]:
    """Apply a function to batches of rows and concatenate the results."""
    return joined([function(rows) for rows in chunks(x, batch_size)])


def chunks(x: Inputs, batch_size: int | None) -> list[Inputs]:
    """Return the rows in batches of at most ``batch_size``; in one batch if it is None."""
    if batch_size is None or len(x) <= batch_size:
        return [x]
    return [x[i : i + batch_size] for i in range(0, len(x), batch_size)]


def joined(parts: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Concatenate the results of several batches."""
    if len(parts) == 1:
        return parts[0]
    return tuple(torch.cat(tensors) for tensors in zip(*parts, strict=True))
