"""Likelihoods in which every output explains one number."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.distributions import Distribution
from typing_extensions import override

from tractable.likelihoods import marginal, quadrature
from tractable.likelihoods.base import Likelihood
from tractable.likelihoods.quadrature import Nodes
from tractable.likelihoods.targets import real_targets
from tractable.predictive.distribution_mixture import (
    DistributionMixturePredictive,
    ExactMixtureFunctions,
)

Moments = tuple[Tensor, Tensor, Tensor]


class Univariate(Likelihood):
    """One number per output, ``y ~ conditional(z)``, log-concave in the output.

    A subclass implements ``conditional`` and ``config``.  The evidence is computed by quadrature
    from ``log_density``, the messages from its ``derivatives``; both have defaults that use
    ``conditional`` and autograd, and may be overridden, like ``elementwise_log_evidence`` where it
    has a closed form.

    Exact: to about ten digits, for a density with one peak in the output.
    """

    @abstractmethod
    def conditional(self, z: Tensor) -> Distribution:
        """Return the distribution of every number, given its output."""

    @override
    def check_targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        return real_targets(y, outputs)

    # --- the density -----------------------------------------------------------------------

    def log_density(self, y: Tensor, z: Tensor) -> Tensor:
        """Return ``log p(y|z)`` of every number."""
        return self.conditional(z).log_prob(y)

    def derivatives(self, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first and second derivative of ``log_density`` in ``z``."""
        with torch.enable_grad():
            leaf = z.detach().requires_grad_()
            (first,) = torch.autograd.grad(self.log_density(y, leaf).sum(), leaf, create_graph=True)
            (second,) = torch.autograd.grad(first.sum(), leaf)
        return first.detach(), second

    def initial_posterior_mode(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the start of the search for the posterior mode of each output."""
        return mean

    def standardized_posterior_mode(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the posterior mode of each output, in standard deviations from its mean."""
        start = self.initial_posterior_mode(y, mean, variance)
        return quadrature.find_peak(partial(self.derivatives, y), mean, variance, start)

    @override
    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        # In double precision, as rates leave the range of single precision.  A density below the
        # smallest number of ``z`` counts as that number and has no gradient.
        found = self.log_density(y.double(), z.double()).flatten(1).sum(1)
        return _in_range(found, z.dtype)

    # --- evidence and messages -------------------------------------------------------------

    def nodes(self, y: Tensor, mean: Tensor, variance: Tensor) -> Nodes:
        """Return nodes where the integrand is large; arguments in double precision."""
        with torch.no_grad():  # the integral does not depend on its nodes
            peak = self.standardized_posterior_mode(y, mean, variance)
            return quadrature.place(partial(self.log_density, y), peak, mean, variance)

    @override
    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        found = self.elementwise_log_evidence(y.double(), mean.double(), variance.double())
        return _in_range(found.flatten(1).sum(1), mean.dtype)

    def elementwise_log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the log evidence of every number; arguments in double precision."""
        nodes = self.nodes(y.detach(), mean.detach(), variance.detach())
        return quadrature.log_evidence(partial(self.log_density, y), nodes, mean, variance)

    def posterior(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs at the nodes, and the weight of each given the observation."""
        density = partial(self.log_density, y)
        return quadrature.posterior(density, self.nodes(y, mean, variance), mean, variance)

    def posterior_mean(
        self, function: Callable[[Tensor], Tensor], y: Tensor, mean: Tensor, variance: Tensor
    ) -> Tensor:
        """Return the expectation of a function of the outputs, given the observations.

        Args:
            function: function of the outputs, element by element.
            y: targets; all tensors in double precision.
            mean: mean of the outputs before the observations.
            variance: variance of the outputs before the observations.
        """
        if not bool(variance.any()):
            return function(mean)
        z, weight = self.posterior(y, mean, variance)
        return (weight * function(z)).sum(0)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Return averages of the derivatives over the nodes; see ``likelihoods.quadrature``."""
        dtype = mean.dtype
        y, mean, variance = y.double(), mean.double(), variance.double()
        z, weight = self.posterior(y, mean, variance)
        d_mu, d_var = quadrature.messages(partial(self.derivatives, y), z, weight, mean, variance)
        return d_mu.to(dtype), d_var.to(dtype)

    # --- predictions -----------------------------------------------------------------------

    def cumulative(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return ``P(Y <= y)`` of every number; arguments in double precision."""
        return marginal.cumulative(self.conditional, y, mean, variance)

    def moments(self, mean: Tensor, variance: Tensor) -> Moments | None:
        """Return mean, epistemic and aleatoric variance of every number, if known exactly."""
        return None

    def predictive(self, mean: Tensor, variance: Tensor) -> DistributionMixturePredictive:
        """Return the prediction for ``z ~ N(mean, variance)``.

        Exact: density, distribution function and samples; mean and variance if ``moments`` gives
        them.  Approximate: mean and variance otherwise, by 61 nodes.
        """
        # A copy: a noise that is learned goes on changing.
        return _predictive(copy.deepcopy(self), mean.double(), variance.double(), dtype=mean.dtype)


def _in_range(log_density: Tensor, dtype: torch.dtype) -> Tensor:
    return log_density.clamp_min(torch.finfo(dtype).min).to(dtype)


def _predictive(
    likelihood: Univariate, mean: Tensor, variance: Tensor, *, dtype: torch.dtype
) -> DistributionMixturePredictive:
    z, weight = quadrature.prior_nodes(mean, variance)
    has_cdf = marginal.has_cdf(likelihood.conditional, mean)
    exact = ExactMixtureFunctions(
        partial(_density, likelihood, mean, variance),
        partial(marginal.sample, likelihood.conditional, mean, variance),
        partial(_cumulative, likelihood, mean, variance) if has_cdf else None,
        *(likelihood.moments(mean, variance) or ()),
    )
    widen = None
    if likelihood.traits.supports_extra_variance:
        widen = partial(_with_extra_variance, likelihood, mean, variance)
    parts = likelihood.conditional(z)
    return DistributionMixturePredictive(parts, weight, exact=exact, widen=widen, dtype=dtype)


def _density(likelihood: Univariate, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
    return likelihood.elementwise_log_evidence(y, mean, variance)


def _cumulative(likelihood: Univariate, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
    return likelihood.cumulative(y, mean, variance)


def _with_extra_variance(
    likelihood: Univariate, mean: Tensor, variance: Tensor, extra: Tensor
) -> DistributionMixturePredictive:
    return _predictive(likelihood, mean, variance + extra, dtype=mean.dtype)
