"""TAGI with torch, operation by operation: the reference for the other engines.

One update: moments forward through the network (``tractable.rules``), messages of the likelihood
backward to every parameter (carried by autograd), and the batch rule that turns summed messages
into new means and variances.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from tractable.errors import NoMomentRule, NonFiniteUpdate
from tractable.gaussian import Gaussian, require_messages
from tractable.learners.methods.base import TensorDict
from tractable.learners.methods.tagi import batch_rule
from tractable.learners.methods.tagi.batch_rule import BatchRule
from tractable.learners.methods.tagi.engines.base import (
    NON_FINITE,
    Engine,
    Floats,
    Snapshot,
    TAGIState,
)
from tractable.learners.methods.tagi.outlier_gate import OutlierWeights
from tractable.learners.methods.tagi.robustness import NOT_ROBUST, Robustness
from tractable.learners.network.functional import Network
from tractable.learners.network.rng import PREDICTION_SEED, ForwardRng
from tractable.likelihoods import Likelihood
from tractable.likelihoods.base import Messages
from tractable.posterior import flat
from tractable.rules.activation import Mode, activation_moments
from tractable.rules.norm import robust_running_stats
from tractable.training.inputs import Inputs, map_inputs

_FLAT_UPDATE_BELOW = 1 << 17  # parameters; above, updating one by one saves memory passes


class TorchEngine(Engine):
    """The reference engine: torch, operation by operation."""

    name = "torch"

    def __init__(
        self, network: Network, moments: Mode, rule: BatchRule, guard: Robustness = NOT_ROBUST
    ) -> None:
        self.network, self.moments, self.rule, self.guard = network, moments, rule, guard
        self.forward_rng = ForwardRng(network.device)
        size = sum(shape.numel() for shape in network.shapes.values())
        self.at_once = size < _FLAT_UPDATE_BELOW
        """Whether an update processes all parameters as one vector instead of one by one."""

    @override
    def update(
        self,
        state: TAGIState,
        x: Inputs,
        y: Tensor,
        forget: float,
        memory_rows: float | None = None,
    ) -> None:
        buffers = {name: b.clone() for name, b in state.buffers.items()}
        posterior = state.posterior
        with torch.enable_grad(), self.running(*posterior.leaves, buffers):
            with self.forward_rng.drawing_from(state.generator, train=True):
                z = self.forward(x, train=True)
            verdict = self.weigh(state, y, z)
            received, shift, g_var, step = self.messages(
                state.likelihood,
                posterior.leaves,
                z,
                y,
                scratch=self._pieces(posterior.scratch)[0],
                weight=None if verdict is None or verdict.all_trusted else verdict.weight,
                memory_rows=memory_rows,
            )
        numbers = [step.alpha, step.observed, step.finite, step.power]
        alpha, observed, finite, power = torch.stack(numbers).tolist()
        if not finite:
            raise NonFiniteUpdate(NON_FINITE)
        with torch.no_grad():
            if self.guard.limit and batch_rule.may_be_long(alpha, power):
                alpha = float(batch_rule.limited(step, received.d_mu).alpha)
            pieces = zip(
                *self._pieces(posterior.loc, posterior.variance), shift, g_var, strict=True
            )
            for loc, variance, move, bend in pieces:
                batch_rule.apply(self.rule, loc, variance, move, bend, alpha, observed)
            if forget > 0:
                self._forget(state, forget)
        state.buffers = buffers
        state.likelihood.set_buffers(received.noise)
        if state.gate is not None and verdict is not None:
            state.gate.take(verdict)

    def weigh(self, state: TAGIState, y: Tensor, z: Gaussian) -> OutlierWeights | None:
        """Return the weights of a batch by the outlier gate, if there is one."""
        if state.gate is None:
            return None
        mean, variance = z.loc.detach(), z.variance.detach()
        return state.gate.weigh(*state.likelihood.predicted_targets(y, mean, variance))

    def messages(
        self,
        likelihood: Likelihood,
        leaves: tuple[list[Tensor], list[Tensor]],
        z: Gaussian,
        y: Tensor,
        *,
        scratch: list[Tensor] | None = None,
        weight: Tensor | None = None,
        memory_rows: float | None = None,
    ) -> tuple[Messages, list[Tensor], list[Tensor], batch_rule.Step]:
        """Return the messages of the likelihood, ``v g``, variance messages, and the planned step.

        Args:
            likelihood: likelihood of the observations.
            leaves: means and variances of the parameters, each the root of a graph.
            z: the network's output, with its graph.
            y: targets.
            scratch: memory that ``v g`` is written to, if there is one.
            weight: weight of each value, where there is a gate.
            memory_rows: rows that the noise is to be inferred from, or None for all.
        """
        locs, variances = leaves
        mean, variance = z.loc.detach(), z.variance.detach()
        with torch.no_grad():
            received = likelihood.observe(y, mean, variance, weight=weight, memory_rows=memory_rows)
        both, d = [*locs, *variances], [received.d_mu, received.d_var]
        grads = torch.autograd.grad([z.loc, z.variance], both, d, allow_unused=True)
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
            step = batch_rule.plan(
                self.rule,
                received.d_mu,
                received.unweighted_d_var,
                variance,
                shift,
                g,
                g_var,
                exactly=self.guard.limit,
            )
        return received, shift, g_var, step

    def run(
        self,
        locs: list[Tensor],
        variances: list[Tensor],
        buffers: TensorDict,
        x: Inputs,
        train: bool,
    ) -> Gaussian:
        """Return the Gaussian output of the network, with its graph."""
        with self.running(locs, variances, buffers):
            return self.forward(x, train=train)

    @contextmanager
    def running(
        self, locs: list[Tensor], variances: list[Tensor], buffers: TensorDict
    ) -> Iterator[None]:
        """Give the network Gaussian parameters inside the block, also for backward messages."""
        tensors: TensorDict = {
            name: Gaussian.wrap(loc, variance)
            for name, loc, variance in zip(self.network.shapes, locs, variances, strict=True)
        }
        tensors.update(buffers)
        with (
            activation_moments(self.moments),
            robust_running_stats(self.guard.statistics),
            require_messages(torch.is_grad_enabled()),
            self.network.holding(tensors),
        ):
            yield
        for name, buffer in buffers.items():
            if isinstance(buffer, Gaussian):  # a state was written to it: keep its mean
                buffers[name] = buffer.loc.detach()

    def forward(self, x: Inputs, *, train: bool) -> Gaussian:
        """Return the Gaussian output, inside ``running``."""
        try:
            z = self.network.run(map_inputs(_own, x), train=train)
        except RuntimeError as error:
            if "functorch transforms" not in str(error):
                raise
            raise NoMomentRule(
                "torch.func.vmap and its kin do not run on Gaussians: write the network for a "
                "batch of rows, or use a learner that draws weights"
            ) from error
        if not isinstance(z, Gaussian):
            raise TypeError(
                "the network must return a tensor that depends on its parameters: no message "
                "would reach any of them"
            )
        return z

    @override
    def outputs(self, state: TAGIState, x: Inputs) -> tuple[Tensor, Tensor]:
        rng = self.forward_rng.drawing_from(state.seed + PREDICTION_SEED, train=False)
        with torch.no_grad(), rng:
            z = self.run(*state.posterior.leaves, state.buffers, x, train=False)
        return z.loc, z.variance

    @override
    def sample(self, state: TAGIState, x: Inputs, n: int, generator: torch.Generator) -> Tensor:
        with torch.no_grad(), self.forward_rng.drawing_from(generator, train=False):
            weights = state.posterior.iter_samples(n, generator)
            drawn = [self.network({**named, **state.buffers}, x) for named in weights]
        return torch.stack(drawn)

    @override
    def snapshot(self, state: TAGIState, noise: Floats | None = None) -> Snapshot:
        frozen = copy.deepcopy(state)
        if noise is not None:
            posterior = frozen.posterior
            draw = torch.from_numpy(noise).to(posterior.loc)
            posterior.loc.addcmul_(posterior.variance.sqrt(), draw)
            posterior.variance.zero_()

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
        """Return flat vectors as the pieces that an update processes together."""
        if self.at_once:
            return [[vector] for vector in vectors]
        return [self.network.split(vector) for vector in vectors]


def _own(x: Tensor) -> Tensor:
    """Return a separate tensor: a network that adds to its input in place makes it a Gaussian."""
    return x.detach() if type(x) is Tensor and not x.requires_grad else x
