"""TAGI with torch, operation by operation: the definition that the other engines are held to.

One update: moments forward through the network (``tractable.rules``), messages of the likelihood
backward to every parameter (carried by autograd), and the batch rule that turns summed messages
into new means and variances.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from tractable.errors import NonFiniteUpdate
from tractable.gaussian import Gaussian
from tractable.learners import batch_rule
from tractable.learners.batch_rule import BatchRule
from tractable.learners.engines.base import NON_FINITE, Engine, Floats, Snapshot, TAGIState
from tractable.learners.method import Named
from tractable.learners.network import Network
from tractable.likelihoods import Likelihood
from tractable.posterior import flat
from tractable.rules.activation import Mode, activation_moments

_FLAT_UPDATE_BELOW = 1 << 17  # parameters; above, updating one by one saves memory passes


class TorchEngine(Engine):
    """Torch, operation by operation."""

    name = "torch"

    def __init__(self, network: Network, moments: Mode, rule: BatchRule) -> None:
        self.network, self.moments, self.rule = network, moments, rule
        size = sum(shape.numel() for shape in network.shapes.values())
        self.at_once = size < _FLAT_UPDATE_BELOW
        """Whether an update treats all parameters as one vector, or each by itself."""

    def update(self, state: TAGIState, x: Tensor, y: Tensor, forget: float) -> None:
        """See ``Engine``."""
        buffers = {name: b.clone() for name, b in state.buffers.items()}
        posterior = state.posterior
        noise, shift, g_var, step = self.messages(
            state.likelihood, posterior.leaves, buffers, x, y, self._pieces(posterior.scratch)[0]
        )
        alpha, observed, finite = torch.stack([step.alpha, step.observed, step.finite]).tolist()
        if not finite:
            raise NonFiniteUpdate(NON_FINITE)
        with torch.no_grad():
            pieces = zip(
                *self._pieces(posterior.loc, posterior.variance), shift, g_var, strict=True
            )
            for loc, variance, move, bend in pieces:
                batch_rule.apply(self.rule, loc, variance, move, bend, alpha, observed)
            if forget > 0:
                self._forget(state, forget)
        state.buffers = buffers
        state.likelihood.set_buffers(noise)

    def messages(
        self,
        likelihood: Likelihood,
        leaves: tuple[list[Tensor], list[Tensor]],
        buffers: Named,
        x: Tensor,
        y: Tensor,
        scratch: list[Tensor] | None = None,
    ) -> tuple[Named, list[Tensor], list[Tensor], batch_rule.Step]:
        """The likelihood's new buffers; ``v g`` and the variance messages; the planned step.

        Args:
            likelihood: likelihood of the observations.
            leaves: means and variances of the parameters, each the root of a graph.
            buffers: buffers of the network, which are changed.
            x: inputs.
            y: targets.
            scratch: memory that ``v g`` is written to, if there is one.
        """
        locs, variances = leaves
        with torch.enable_grad():
            z = self.run(locs, variances, buffers, x, train=True)
        mean, variance = z.loc.detach(), z.variance.detach()
        with torch.no_grad():
            d_mu, d_var = likelihood.messages(y, mean, variance)
            noise = likelihood.update_noise(y, mean, variance)
        both = [*locs, *variances]
        grads = torch.autograd.grad([z.loc, z.variance], both, [d_mu, d_var], allow_unused=True)
        full = [
            torch.zeros_like(leaf) if d is None else d.contiguous()
            for d, leaf in zip(grads, both, strict=True)
        ]
        g, g_var, prior = full[: len(locs)], full[len(locs) :], variances
        if self.at_once:
            g, g_var, prior = [flat(g)], [flat(g_var)], [flat(prior)]
        with torch.no_grad():
            outs: list[Any] = [None] * len(g) if scratch is None else list(scratch)
            shift = [torch.mul(v, a, out=o) for v, a, o in zip(prior, g, outs, strict=True)]
            step = batch_rule.plan(self.rule, d_mu, d_var, variance, shift, g, g_var)
        return noise, shift, g_var, step

    def run(
        self, locs: list[Tensor], variances: list[Tensor], buffers: Named, x: Tensor, train: bool
    ) -> Gaussian:
        """The Gaussian of the network's output, with its graph."""
        parameters: Named = {
            name: Gaussian.wrap(loc, variance)
            for name, loc, variance in zip(self.network.shapes, locs, variances, strict=True)
        }
        with activation_moments(self.moments):
            z = self.network({**parameters, **buffers}, x, train=train)
        if not isinstance(z, Gaussian):
            raise TypeError(
                f"the network must return one tensor that depends on its parameters, got "
                f"{type(z).__name__}"
            )
        return z

    def outputs(self, state: TAGIState, x: Tensor) -> tuple[Tensor, Tensor]:
        """See ``Engine``."""
        with torch.no_grad():
            z = self.run(*state.posterior.leaves, state.buffers, x, train=False)
        return z.loc, z.variance

    def sample(self, state: TAGIState, x: Tensor, n: int, generator: torch.Generator) -> Tensor:
        """See ``Engine``."""
        with torch.no_grad():
            weights = state.posterior.draws(n, generator)
            drawn = [self.network({**named, **state.buffers}, x) for named in weights]
        return torch.stack(drawn)

    def snapshot(self, state: TAGIState) -> Snapshot:
        """See ``Engine``."""
        frozen = copy.deepcopy(state)

        def outputs(rows: Floats) -> tuple[Floats, Floats]:
            mean, variance = self.outputs(frozen, torch.from_numpy(rows))
            return mean.numpy(), variance.numpy()

        return outputs

    def _forget(self, state: TAGIState, rate: float) -> None:
        posterior = state.posterior
        if self.at_once:
            prior = posterior.flat_prior_variance
            batch_rule.forget(posterior.variance, prior, rate, posterior.scratch)
            return
        pieces = self._pieces(posterior.variance, posterior.scratch)
        for name, variance, scratch in zip(posterior, *pieces, strict=True):
            batch_rule.forget(variance, posterior.prior_variance[name], rate, scratch)

    def _pieces(self, *vectors: Tensor) -> list[list[Tensor]]:
        """Flat vectors as the pieces that an update treats at once."""
        if self.at_once:
            return [[vector] for vector in vectors]
        return [self.network.split(vector) for vector in vectors]
