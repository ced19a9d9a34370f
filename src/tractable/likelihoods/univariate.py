"""Likelihoods in which every output explains one number, log-concave in it."""

from __future__ import annotations

import copy
from abc import abstractmethod
from functools import partial
from typing import Protocol

import torch
from torch import Tensor
from torch.distributions import Distribution

from tractable.likelihoods import marginal, quadrature
from tractable.likelihoods.base import Likelihood
from tractable.likelihoods.quadrature import Nodes
from tractable.predictive.distribution_mixture import DistributionMixturePredictive, Exact

Moments = tuple[Tensor, Tensor, Tensor]


class Univariate(Likelihood):
    """One number per output, ``y ~ conditional(z)``; its evidence is by quadrature.

    A subclass implements ``targets``, ``conditional``, ``log_density``, ``derivatives``,
    ``initial_peak`` and ``config``.
    """

    @abstractmethod
    def conditional(self, z: Tensor) -> Distribution:
        """The distribution of every number, given the outputs."""

    @abstractmethod
    def log_density(self, y: Tensor, z: Tensor) -> Tensor:
        """``log p(y|z)`` of every number."""

    @abstractmethod
    def derivatives(self, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """First and second derivative of ``log_density`` in ``z``."""

    @abstractmethod
    def initial_peak(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """About where likelihood times Gaussian is greatest."""

    def standardized_peak(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Where it is, in standard deviations from the mean."""
        slopes = partial(self.derivatives, y)
        return quadrature.find_peak(slopes, mean, variance, self.initial_peak(y, mean, variance))

    def nodes(self, y: Tensor, mean: Tensor, variance: Tensor) -> Nodes:
        """Where the integrand is; all arguments in double precision."""
        with torch.no_grad():  # the integral does not depend on where its nodes are
            peak = self.standardized_peak(y, mean, variance)
            return quadrature.place(partial(self.log_density, y), peak, mean, variance)

    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        """See ``Likelihood``; in double precision, as rates leave the range of single precision.

        A density below that of the smallest number of ``z`` is that number, and has no gradient.
        """
        found = self.log_density(y.double(), z.double()).flatten(1).sum(1)
        return _in_range(found, z.dtype)

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """By quadrature, output by output; in double precision."""
        found = self.elementwise_log_evidence(y.double(), mean.double(), variance.double())
        return _in_range(found.flatten(1).sum(1), mean.dtype)

    def elementwise_log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Log evidence of every number; all arguments in double precision."""
        nodes = self.nodes(y.detach(), mean.detach(), variance.detach())
        return quadrature.log_evidence(partial(self.log_density, y), nodes, mean, variance)

    def cumulative(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """``P(Y <= y)`` of every number; all arguments in double precision."""
        return marginal.cumulative(self.conditional, y, mean, variance)

    def moments(self, mean: Tensor, variance: Tensor) -> Moments | None:
        """Mean, epistemic and aleatoric variance of every number, if they are known exactly."""
        return None

    def posterior(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs at the nodes, and the weight of each given the observation."""
        density = partial(self.log_density, y)
        return quadrature.posterior(density, self.nodes(y, mean, variance), mean, variance)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Averages over the nodes; see ``tractable.likelihoods.quadrature``."""
        dtype = mean.dtype
        y, mean, variance = y.double(), mean.double(), variance.double()
        z, weight = self.posterior(y, mean, variance)
        d_mu, d_var = quadrature.messages(partial(self.derivatives, y), z, weight, mean, variance)
        return d_mu.to(dtype), d_var.to(dtype)

    def predictive(self, mean: Tensor, variance: Tensor) -> DistributionMixturePredictive:
        """Exact: density, distribution function and samples; mean and variance by 61 nodes."""
        return mixture_over_nodes(self, mean, variance)


def _in_range(log_density: Tensor, dtype: torch.dtype) -> Tensor:
    return log_density.clamp_min(torch.finfo(dtype).min).to(dtype)


class UnivariateLikelihood(Protocol):
    """Functions of a likelihood of single numbers from which its predictions are made."""

    def conditional(self, z: Tensor) -> Distribution:
        """The distribution of every number, given the outputs."""

    def elementwise_log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Log evidence of every number."""

    def cumulative(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """``P(Y <= y)`` of every number."""

    def moments(self, mean: Tensor, variance: Tensor) -> Moments | None:
        """Mean, epistemic and aleatoric variance of every number, if they are known exactly."""

    @property
    def can_widen(self) -> bool:
        """Whether predictions can be made with more epistemic variance."""


def mixture_over_nodes(
    likelihood: UnivariateLikelihood, mean: Tensor, variance: Tensor
) -> DistributionMixturePredictive:
    """Return the prediction of a likelihood of single numbers, one output for each."""
    now = copy.deepcopy(likelihood)  # a noise that is learnt goes on changing
    return _predictive(now, mean.double(), variance.double(), mean.dtype)


def _predictive(
    now: UnivariateLikelihood, mean: Tensor, variance: Tensor, dtype: torch.dtype
) -> DistributionMixturePredictive:
    z, weight = quadrature.prior_nodes(mean, variance)
    has_cdf = marginal.has_cdf(now.conditional, mean)
    exact = Exact(
        partial(_density, now, mean, variance),
        partial(marginal.sample, now.conditional, mean, variance),
        partial(_cumulative, now, mean, variance) if has_cdf else None,
        *(now.moments(mean, variance) or ()),
    )
    widen = partial(_wider, now, mean, variance) if now.can_widen else None
    return DistributionMixturePredictive(
        now.conditional(z), weight, exact=exact, widen=widen, dtype=dtype
    )


def _density(likelihood: UnivariateLikelihood, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
    return likelihood.elementwise_log_evidence(y, mean, variance)


def _cumulative(
    likelihood: UnivariateLikelihood, mean: Tensor, variance: Tensor, y: Tensor
) -> Tensor:
    return likelihood.cumulative(y, mean, variance)


def _wider(
    likelihood: UnivariateLikelihood, mean: Tensor, variance: Tensor, extra: Tensor
) -> DistributionMixturePredictive:
    return _predictive(likelihood, mean, variance + extra, mean.dtype)
