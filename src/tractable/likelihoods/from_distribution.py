"""Any distribution of torch as a likelihood."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution
from typing_extensions import override

from tractable.errors import InvalidTarget
from tractable.likelihoods import marginal, quadrature
from tractable.likelihoods.base import Likelihood
from tractable.likelihoods.quadrature import Nodes
from tractable.likelihoods.targets import real_targets
from tractable.predictive.distribution_mixture import (
    DistributionMixturePredictive,
    ExactMixtureFunctions,
)

Factory = Callable[[Tensor], Distribution]

_NEWTON = 25
_GRIDS = ((8.0, 25), (6.0, 25), (8.0, 45))  # reach and nodes along each of two outputs
# Targets with two outputs each, above which quantiles are those of samples: a root of their
# distribution function takes about half a second for each target.
_MAX_ROOTS = 64
_MIN_CURVATURE = 0.05
_NEVER = -1e300
_STEEP = 1e100  # steeper than this an output has no weight


class FromDistribution(Likelihood):
    """``y ~ factory(z)`` with a function that returns a ``torch.distributions`` object.

        likelihoods.FromDistribution(lambda z: Gamma(2.0, 2.0 * torch.exp(-z)))
        likelihoods.FromDistribution(lambda z: Gamma(z[..., 0].exp(), z[..., 1].exp()), outputs=2)

    The evidence is an integral over one or two Gaussian outputs, by nodes around the greatest peak
    of the integrand (see ``tractable.likelihoods.quadrature``); scores are by differentiation.

    Exact: to some eight digits with one output and five with two, for one peak.
    Approximate: further peaks far from the greatest are missed, and an observation that makes an
    output *less* certain leaves its variance as it is.

    Args:
        factory: returns the distribution of the targets, given outputs ``z``.  With two outputs
            per target they are the last dimension of ``z``.  A file does not hold the function:
            load with ``Learner.load(path, likelihood=...)``.
        outputs: outputs per target, one or two.  The network returns the first outputs of all
            targets, then the second outputs of all targets.
    """

    def __init__(self, factory: Factory | None = None, outputs: int = 1) -> None:
        super().__init__()
        if factory is None:
            raise ValueError(
                "the function of FromDistribution is not stored in the file: pass the same one, "
                "load(path, likelihood=FromDistribution(...))"
            )
        if outputs not in (1, 2):
            raise ValueError(f"outputs must be 1 or 2, got {outputs}")
        self.factory, self.outputs = factory, outputs

    @property
    @override
    def outputs_needed(self) -> int:
        return self.outputs

    def check_targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        """Return checked targets; raise ``InvalidTarget`` for values outside of the support."""
        if outputs[-1] % self.outputs:
            raise ValueError(
                f"FromDistribution needs {self.outputs} outputs per target, the network gives "
                f"{outputs[-1]}"
            )
        shape = torch.Size([*outputs[:-1], outputs[-1] // self.outputs])
        y = real_targets(y, shape)
        if not y.is_floating_point():
            y = y.to(torch.get_default_dtype())
        z = torch.zeros(outputs, dtype=y.dtype, device=y.device)
        support = self.conditional(z).support
        bad = torch.zeros_like(y, dtype=torch.bool) if support is None else ~support.check(y)
        if bool(bad.any()):
            row = int(torch.nonzero(bad)[0, 0])
            raise InvalidTarget(
                f"{type(self.conditional(z)).__name__} cannot have the value "
                f"{y[bad][0].item():g} in row {row}: its support is {support}"
            )
        return y

    def conditional(self, z: Tensor) -> Distribution:
        """Return the distribution of the targets, given the network's outputs."""
        return self._of(self._grouped(z))

    def _grouped(self, z: Tensor) -> Tensor:
        """Return outputs with those of one target along a new last dimension."""
        return torch.stack(z.chunk(self.outputs, -1), -1)

    def _of(self, grouped: Tensor) -> Distribution:
        made = self.factory(grouped.squeeze(-1) if self.outputs == 1 else grouped)
        if made.event_shape:
            raise ValueError(
                f"{type(made).__name__} is a distribution of vectors: FromDistribution needs "
                "one of single numbers"
            )
        return made

    def _log_density(self, y: Tensor, grouped: Tensor) -> Tensor:
        """Return ``log p(y|z)``; outputs for which the function overflows have density zero."""
        return self._of(grouped).log_prob(y).nan_to_num(_NEVER, _NEVER, _NEVER)

    # --- where the integrand is ------------------------------------------------------------

    def _peak(self, y: Tensor, mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor]:
        """Return the highest peak as ``e``, and minus the second derivative there."""
        coarse = torch.linspace(-6, 6, 13 if self.outputs == 1 else 7).tolist()
        starts = mean.new_tensor(list(itertools.product(coarse, repeat=self.outputs)))
        starts = starts.reshape(len(starts), *[1] * (mean.ndim - 1), self.outputs)
        height = self._integrand(y, mean, std, starts.expand(len(starts), *mean.shape))
        best = height.nan_to_num(-math.inf).argmax(0)
        e = starts.reshape(len(starts), self.outputs)[best]
        top = self._integrand(y, mean, std, e)
        size = torch.ones_like(top)
        for _ in range(_NEWTON):
            slope, bend = self._curvature(y, mean, std, e)
            step = torch.linalg.solve(bend, slope.unsqueeze(-1)).squeeze(-1)
            step = step / (step.norm(dim=-1, keepdim=True) / 3).clamp_min(1)
            there = self._integrand(y, mean, std, e + size.unsqueeze(-1) * step)
            better = there >= top
            e = torch.where(better.unsqueeze(-1), e + size.unsqueeze(-1) * step, e)
            top = torch.where(better, there, top)
            size = torch.where(better, (2 * size).clamp(max=1), size / 4)
        return e, self._curvature(y, mean, std, e)[1]

    def _integrand(self, y: Tensor, mean: Tensor, std: Tensor, e: Tensor) -> Tensor:
        return self._log_density(y, mean + std * e) - 0.5 * (e * e).sum(-1)

    def _curvature(self, y: Tensor, mean: Tensor, std: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first derivative, and minus the second, made positive definite."""
        with torch.enable_grad():
            leaf = e.detach().requires_grad_()
            (slope,) = torch.autograd.grad(
                self._integrand(y, mean, std, leaf).sum(), leaf, create_graph=True
            )
            rows = [
                torch.autograd.grad(slope[..., k].sum(), leaf, retain_graph=True)[0]
                for k in range(self.outputs)
            ]
        values, vectors = torch.linalg.eigh(-torch.stack(rows, -2).nan_to_num(0.0, 0.0, 0.0))
        values = values.clamp_min(_MIN_CURVATURE).unsqueeze(-2)
        bend = (vectors * values) @ vectors.transpose(-1, -2)
        return slope.detach().nan_to_num(0.0, 0.0, 0.0), bend

    def _nodes(self, y: Tensor, mean: Tensor, variance: Tensor) -> Nodes:
        """Return nodes in the first dimension; ``e`` has the outputs of a target last."""
        with torch.no_grad():
            std = variance.sqrt()
            peak, bend = self._peak(y, mean, std)
            if self.outputs == 1:
                flat = quadrature.place(
                    lambda z: self._log_density(y, z.unsqueeze(-1)),
                    peak.squeeze(-1), mean.squeeze(-1), variance.squeeze(-1),
                )  # fmt: skip
                return Nodes(flat.e.unsqueeze(-1), flat.log_weight)
            return self._around(y, mean, std, peak, torch.linalg.inv(bend))

    def _around(
        self, y: Tensor, mean: Tensor, std: Tensor, peak: Tensor, covariance: Tensor
    ) -> Nodes:
        """Return a grid around the peak, moved twice to the mean that it finds."""
        for reach, side in _GRIDS:
            values, vectors = torch.linalg.eigh(covariance)
            values = values.clamp_min(1e-12)
            spread = vectors * values.sqrt().unsqueeze(-2)
            line = torch.linspace(-reach, reach, side, dtype=mean.dtype, device=mean.device)
            grid = torch.cartesian_prod(line, line)
            grid = grid.reshape(len(grid), *[1] * (mean.ndim - 1), 2)
            e = peak + (spread @ grid.unsqueeze(-1)).squeeze(-1)
            weight = self._integrand(y, mean, std, e).softmax(0).unsqueeze(-1)
            peak = (weight * e).sum(0)
            off = e - peak
            covariance = torch.einsum("n...i,n...j->...ij", weight * off, off)
        area = 2 * math.log(2 * reach / (side - 1)) + 0.5 * values.log().sum(-1)
        return Nodes(e, area - 0.5 * (e * e).sum(-1) - math.log(2 * math.pi))

    # --- evidence --------------------------------------------------------------------------

    @override
    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        return self.conditional(z).log_prob(y).flatten(1).sum(1)

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the log evidence by quadrature, in double precision."""
        found = self.elementwise_log_evidence(y.double(), mean.double(), variance.double())
        return found.flatten(1).sum(1).to(mean.dtype)

    def elementwise_log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the log evidence of every number; arguments in double precision."""
        mean, variance = self._grouped(mean), self._grouped(variance)
        nodes = self._nodes(y.detach(), mean.detach(), variance.detach())
        z = mean + variance.sqrt() * nodes.e
        return (self._log_density(y, z) + nodes.log_weight).logsumexp(0)

    def cumulative(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return ``P(Y <= y)`` of every number; arguments in double precision."""
        if self.outputs == 1:
            return marginal.cumulative(self.conditional, y, mean, variance)
        return marginal.cumulative_of_two(self.conditional, y, mean, variance)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Return averages over the nodes of derivatives, which autograd computes."""
        dtype, y = mean.dtype, y.double()
        mean, variance = self._grouped(mean.double()), self._grouped(variance.double())
        nodes = self._nodes(y, mean, variance)
        z = mean + variance.sqrt() * nodes.e
        weight = (self._log_density(y, z) + nodes.log_weight).softmax(0).unsqueeze(-1)
        d_mu, d_var = quadrature.messages(partial(self._derivatives, y), z, weight, mean, variance)
        return tuple(torch.cat(d.unbind(-1), -1).to(dtype) for d in (d_mu, d_var))  # type: ignore[return-value]

    def _derivatives(self, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = z.detach().requires_grad_()
            (score,) = torch.autograd.grad(
                self._log_density(y, leaf).sum(), leaf, create_graph=True
            )
            bend = torch.stack(
                [
                    torch.autograd.grad(score[..., k].sum(), leaf, retain_graph=True)[0][..., k]
                    for k in range(self.outputs)
                ],
                -1,
            )
        known = (score.abs() < _STEEP) & (bend.abs() < _STEEP)
        nothing = torch.zeros_like(bend)
        return torch.where(known, score.detach(), nothing), torch.where(known, bend, nothing)

    def predictive(self, mean: Tensor, variance: Tensor) -> DistributionMixturePredictive:
        """Return the prediction for ``z ~ N(mean, variance)``.

        Exact: density, distribution function and samples.

        Approximate: mean and variance, by 61 nodes, or 19 for each of two outputs; quantiles, of
        4,096 samples where the distribution has no distribution function, or where more than 64
        targets have two outputs each.
        """
        now, dtype = copy.copy(self), mean.dtype
        z, weight = quadrature.prior_nodes(mean, variance)
        if self.outputs == 2 and len(z) > 1:
            z, weight = z[2:-1:3], weight[2:-1:3]  # three quarters of a deviation apart
            first, second = z.chunk(2, -1)
            number = len(z)
            z = torch.cat([
                first.repeat_interleave(number, 0), second.repeat(number, *[1] * (z.ndim - 1))
            ], -1)  # fmt: skip
            weight = (weight.unsqueeze(1) * weight.unsqueeze(0)).flatten(0, 1)
            weight = weight / weight.sum(0)
        moments = (mean.double(), variance.double())
        has_cdf = marginal.has_cdf(self.conditional, moments[0])
        exact = ExactMixtureFunctions(
            partial(_density, now, *moments),
            partial(marginal.sample, self.conditional, *moments),
            partial(_cumulative, now, *moments) if has_cdf else None,
            max_roots=math.inf if self.outputs == 1 else _MAX_ROOTS,
        )
        return DistributionMixturePredictive(self.conditional(z), weight, exact=exact, dtype=dtype)

    def config(self) -> dict[str, Any]:
        """Return the arguments without the function."""
        return {"outputs": self.outputs}


def _density(likelihood: FromDistribution, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
    return likelihood.elementwise_log_evidence(y, mean, variance)


def _cumulative(likelihood: FromDistribution, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
    return likelihood.cumulative(y, mean, variance)
