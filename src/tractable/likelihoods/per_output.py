"""Likelihoods in which every output explains one number, log-concave in it."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.distributions import Distribution

from tractable.likelihoods import quadrature
from tractable.likelihoods.base import Likelihood
from tractable.likelihoods.quadrature import Nodes
from tractable.predictive import MixturePredictive


class PerOutput(Likelihood):
    """One number per output, ``y ~ distribution(z)``; its evidence is by quadrature.

    To supply: ``targets``, ``distribution``, ``log_density``, ``slopes``, ``guess``, ``config``.
    """

    @abstractmethod
    def distribution(self, z: Tensor) -> Distribution:
        """The distribution of every number, given the outputs."""

    @abstractmethod
    def log_density(self, y: Tensor, z: Tensor) -> Tensor:
        """``log p(y|z)`` of every number."""

    @abstractmethod
    def slopes(self, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """First and second derivative of ``log_density`` in ``z``."""

    @abstractmethod
    def guess(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """About where likelihood times Gaussian is greatest."""

    def peak(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Where it is, in standard deviations from the mean."""
        slopes = partial(self.slopes, y)
        return quadrature.find_peak(slopes, mean, variance, self.guess(y, mean, variance))

    def nodes(self, y: Tensor, mean: Tensor, variance: Tensor) -> Nodes:
        """Where the integrand is; all arguments in double precision."""
        with torch.no_grad():  # the integral does not depend on where its nodes are
            peak = self.peak(y, mean, variance)
            return quadrature.place(partial(self.log_density, y), peak, mean, variance)

    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        """See ``Likelihood``; in double precision, as rates leave the range of single precision.

        A density below that of the smallest number of ``z`` is that number, and has no gradient.
        """
        found = self.log_density(y.double(), z.double()).flatten(1).sum(1)
        return _in_range(found, z.dtype)

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """By quadrature, output by output; in double precision."""
        dtype = mean.dtype
        y, mean, variance = y.double(), mean.double(), variance.double()
        nodes = self.nodes(y.detach(), mean.detach(), variance.detach())
        found = quadrature.log_evidence(partial(self.log_density, y), nodes, mean, variance)
        return _in_range(found.flatten(1).sum(1), dtype)

    def posterior(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs at the nodes, and the weight of each given the observation."""
        density = partial(self.log_density, y)
        return quadrature.posterior(density, self.nodes(y, mean, variance), mean, variance)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Averages over the nodes; see ``tractable.likelihoods.quadrature``."""
        dtype = mean.dtype
        y, mean, variance = y.double(), mean.double(), variance.double()
        z, weight = self.posterior(y, mean, variance)
        d_mu, d_var = quadrature.messages(partial(self.slopes, y), z, weight, mean, variance)
        return d_mu.to(dtype), d_var.to(dtype)

    def predictive(self, mean: Tensor, variance: Tensor) -> MixturePredictive:
        """Exact: the density.  Approximate: the rest, as a mixture over 61 values of the output."""
        return over_nodes(self, self.distribution, mean, variance)


def _in_range(log_density: Tensor, dtype: torch.dtype) -> Tensor:
    return log_density.clamp_min(torch.finfo(dtype).min).to(dtype)


def over_nodes(
    likelihood: Likelihood,
    distribution: Callable[[Tensor], Distribution],
    mean: Tensor,
    variance: Tensor,
) -> MixturePredictive:
    """The prediction of a likelihood whose evidence is known, as a mixture over its outputs."""
    z, weight = quadrature.prior_nodes(mean, variance)
    now = copy.deepcopy(likelihood)  # a noise that is learnt goes on changing
    mean, variance, dtype = mean.double(), variance.double(), mean.dtype
    return MixturePredictive(
        distribution(z),
        weight,
        partial(_density, now, mean, variance),
        widen=partial(_wider, now, mean, variance) if likelihood.can_widen else None,
        dtype=dtype,
    )


def _density(likelihood: Likelihood, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
    return likelihood.log_evidence(y, mean, variance)


def _wider(
    likelihood: Likelihood, mean: Tensor, variance: Tensor, extra: Tensor
) -> MixturePredictive:
    wider = likelihood.predictive(mean, variance + extra)
    assert isinstance(wider, MixturePredictive)
    return wider
