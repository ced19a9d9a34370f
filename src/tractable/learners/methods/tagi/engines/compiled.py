"""TAGI's step traced into one graph and compiled, once per shape of its inputs.

``make_fx`` runs the step with proxies.  Moment rules, autograd and the batch rule become one flat
graph of tensor operations, independent of the Python code of the user's module.

Compilation of a deep network takes minutes.  The first shape of a batch is compiled at once, others
only if they are frequent, so that the smaller last batch of every epoch is not compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten
from typing_extensions import override

from tractable.errors import NonFiniteUpdate
from tractable.gaussian import Gaussian
from tractable.learners.methods.base import TensorDict
from tractable.learners.methods.tagi import batch_rule
from tractable.learners.methods.tagi.engines.base import (
    NON_FINITE,
    Engine,
    Floats,
    Snapshot,
    TAGIState,
)
from tractable.learners.methods.tagi.engines.eager import TorchEngine
from tractable.likelihoods import Likelihood
from tractable.posterior import flat
from tractable.training.inputs import Inputs, is_uncertain

_OFTEN = 100  # batches of another shape, before it is compiled as well


class CompiledEngine(Engine):
    """An engine with compiled updates; everything else is computed by the torch engine."""

    name = "torch"

    def __init__(self, eager: TorchEngine) -> None:
        self.eager = eager
        self.graphs: dict[tuple[Any, ...], Callable[..., Any]] = {}
        self.came: Counter[tuple[Any, ...]] = Counter()

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the graphs; a copy compiles its own."""
        return {"eager": self.eager, "graphs": {}, "came": Counter()}

    def update(
        self,
        state: TAGIState,
        x: Inputs,
        y: Tensor,
        forget: float,
        memory_rows: float | None = None,
    ) -> None:
        """Learn a batch; uncertain inputs and targets are passed to the torch engine.

        The gate looks at one row after the other, which no graph can hold: where there is one,
        the outputs are computed beforehand to weigh the rows.
        """
        if is_uncertain(x) or isinstance(y, Gaussian):
            self.eager.update(state, x, y, forget, memory_rows)
            return
        posterior, verdict = state.posterior, None
        if state.gate is not None:
            buffers = {name: b.clone() for name, b in state.buffers.items()}
            with torch.no_grad():
                z = self.eager.run(*posterior.leaves, buffers, x, train=True)
                verdict = self.eager.weigh(state, y, z)
        with self.eager.forward_rng.drawing_from(state.generator, train=True):
            loc, variance, buffers, noise, finite = self._call(
                state.likelihood,
                memory_rows,
                posterior.loc,
                posterior.variance,
                state.buffers,
                dict(state.likelihood.named_buffers(remove_duplicate=False)),
                x,
                y,
                None if verdict is None else verdict.weight,
                posterior.flat_prior_variance if forget > 0 else None,
                torch.tensor(forget, dtype=posterior.loc.dtype, device=posterior.loc.device),
            )
        if not bool(finite):
            raise NonFiniteUpdate(NON_FINITE)
        posterior.loc.copy_(loc)
        posterior.variance.copy_(variance)
        state.buffers = buffers
        state.likelihood.set_buffers(noise)
        if state.gate is not None and verdict is not None:
            state.gate.take(verdict)

    @override
    def outputs(self, state: TAGIState, x: Inputs) -> tuple[Tensor, Tensor]:
        return self.eager.outputs(state, x)

    @override
    def sample(self, state: TAGIState, x: Inputs, n: int, generator: torch.Generator) -> Tensor:
        return self.eager.sample(state, x, n, generator)

    @override
    def snapshot(self, state: TAGIState, noise: Floats | None = None) -> Snapshot:
        return self.eager.snapshot(state, noise)

    def _call(self, likelihood: Likelihood, memory_rows: float | None, *args: Any) -> Any:
        """Run the step; trace and compile it first if these shapes are frequent."""
        leaves, structure = tree_flatten(args)
        key = (
            memory_rows,
            structure,
            *((leaf.shape, leaf.dtype) for leaf in leaves if leaf is not None),
        )
        if key not in self.graphs:
            self.came[key] += 1
            if self.graphs and self.came[key] < _OFTEN:
                return self._step(likelihood, memory_rows, *args)
            graph = make_fx(lambda *inputs: self._step(likelihood, memory_rows, *inputs))(*args)
            self.graphs[key] = torch.compile(graph, fullgraph=True)
        with torch.no_grad():
            return self.graphs[key](*args)

    def _step(
        self,
        likelihood: Likelihood,
        memory_rows: float | None,
        loc: Tensor,
        variance: Tensor,
        buffers: TensorDict,
        noise: TensorDict,
        x: Inputs,
        y: Tensor,
        weight: Tensor | None,
        prior: Tensor | None,
        rate: Tensor,
    ) -> tuple[Tensor, Tensor, TensorDict, TensorDict, Tensor]:
        """Return the new state without changing the old one, so that a trace can be compiled."""
        eager = self.eager
        buffers = {name: b.clone() for name, b in buffers.items()}
        locs, variances = (
            [part.detach().requires_grad_() for part in eager.network.split(vector)]
            for vector in (loc, variance)
        )
        with torch.enable_grad():
            z = eager.run(locs, variances, buffers, x, train=True)
        with likelihood.holding(noise):
            received, shift, g_var, step = eager.messages(
                likelihood, (locs, variances), z, y, weight=weight, memory_rows=memory_rows
            )
        with torch.no_grad():
            if eager.guard.limit:
                step = batch_rule.limited(step, received.d_mu)
            loc, variance = batch_rule.updated(
                eager.rule, loc, variance, flat(shift), flat(g_var), step
            )
            if prior is not None:
                batch_rule.forget(variance, prior, rate)
        return loc, variance, buffers, received.noise, step.finite
