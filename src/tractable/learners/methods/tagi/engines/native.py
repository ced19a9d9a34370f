"""TAGI by the compiled kernel: which networks it can serve, and how they are handed over.

The kernel changes the posterior's flat vectors and the likelihood's noise in place, so a model
is the same whichever engine taught it.  There is no mathematics here: the torch path defines it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from tractable import layer_iteration, native
from tractable.errors import NonFiniteUpdate, UnsupportedByKernel
from tractable.gaussian import Gaussian
from tractable.learners.methods.base import OnBatch
from tractable.learners.methods.tagi.batch_rule import BatchRule
from tractable.learners.methods.tagi.engines.base import (
    NON_FINITE,
    Engine,
    Floats,
    Slopes,
    Snapshot,
    TAGIState,
)
from tractable.learners.methods.tagi.engines.noise import export_noise, import_noise
from tractable.learners.methods.tagi.robustness import NOT_ROBUST, Robustness
from tractable.learners.network.functional import Network
from tractable.likelihoods import (
    Bernoulli,
    Categorical,
    HeteroscedasticNormal,
    Likelihood,
    NegativeBinomial,
    Normal,
    Poisson,
)
from tractable.rules.activation import Mode
from tractable.training.data import ArrayData, LoaderData
from tractable.training.inputs import Inputs, single_input
from tractable.training.parallel import stop_if_cancelled

_log = logging.getLogger("tractable")

MISSING = (
    "the compiled kernel is not installed (no C++ compiler when tractable was installed?); "
    "`tractable info` reports details"
)


@cache
def log_missing_kernel() -> None:
    """Log once per process that the kernel is missing."""
    _log.warning("small networks learn with torch, several times slower: %s", MISSING)


# --- what a network is to the kernel -----------------------------------------------------------


@dataclass(frozen=True)
class KernelNetwork:
    """A network in the form that the kernel takes.

    Attributes:
        arguments: arguments of the kernel's constructor.
        inputs: number of inputs of the first layer.
        flattens: whether the network flattens its inputs itself.
    """

    arguments: dict[str, Any]
    inputs: int
    flattens: bool

    @property
    def parameters(self) -> int:
        """Number of weights and biases."""
        layers = self.arguments["layers"]
        return sum((into + bias) * out for into, out, bias, _ in layers)


def kernel_network(
    network: Network,
    likelihood: Likelihood,
    moments: Mode,
    rule: BatchRule,
    guard: Robustness = NOT_ROBUST,
) -> KernelNetwork:
    """Return the kernel's form of a network under a likelihood.

    Raises:
        UnsupportedByKernel: names the first thing that the kernel does not do.
    """
    if network.dtype != torch.float32 or network.device.type != "cpu":
        raise UnsupportedByKernel(
            f"engine='native' computes in float32 on the CPU, not in {network.dtype} on "
            f"{network.device}"
        )
    for name, module in network.module.named_modules():
        if layer_iteration.has_forward_hooks(module):
            what = layer_iteration.Layer(name, module).description
            raise UnsupportedByKernel(f"engine='native' runs no hooks, and {what} has some")
    traversal = _NetworkTraversal()
    for layer in layer_iteration.layers(network.module):
        traversal.visit(layer)
    if not traversal.layers or traversal.names != list(network.shapes):
        raise UnsupportedByKernel("engine='native' takes no frozen or shared parameters")
    activations = [*traversal.before, *(step for layer in traversal.layers for step in layer[3])]
    if moments == "exact" and activations:
        raise UnsupportedByKernel(
            f"engine='native' computes moments='linear', not moments='exact', of the activation "
            f"{activations[0][0]}: take engine='torch' or moments='linear'"
        )
    arguments = {
        "before": traversal.before,
        "layers": traversal.layers,
        "rule": rule,
        "limit": guard.limit,
        "gate": guard.gate,
        **_observed(likelihood, traversal.layers[-1][1]),
    }
    return KernelNetwork(arguments, traversal.layers[0][0], traversal.flattens)


@dataclass
class _NetworkTraversal:
    """The layers of a network that were visited so far."""

    before: list[tuple[str, float]] = field(default_factory=list)
    layers: list[tuple[int, int, bool, list[tuple[str, float]]]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    flattens: bool = False

    def visit(self, layer: layer_iteration.Layer) -> None:
        module, what = layer.module, layer.description
        if type(module) is nn.Linear:
            self._linear(module, layer.name)
        elif type(module) in _ACTIVATIONS:
            slope = module.negative_slope if isinstance(module, nn.LeakyReLU) else 0.0
            steps = self.layers[-1][3] if self.layers else self.before
            steps.append((_ACTIVATIONS[type(module)], slope))
        elif isinstance(module, nn.Dropout) and self.layers:
            pass  # the weights are uncertain already: see tractable.rules.structural
        elif isinstance(module, nn.Flatten):
            if (module.start_dim, module.end_dim) != (1, -1):
                raise UnsupportedByKernel(f"engine='native' flattens rows only, not as {what}")
            self.flattens |= not self.layers
        elif type(module) is not nn.Identity:
            raise UnsupportedByKernel(
                f"engine='native' takes Linear layers and the activations identity, ReLU, "
                f"LeakyReLU, Tanh and Sigmoid in nn.Sequential; there is {what}"
            )

    def _linear(self, module: nn.Linear, name: str) -> None:
        if self.layers and self.layers[-1][1] != module.in_features:
            raise UnsupportedByKernel(
                f"layer {name} takes {module.in_features} inputs and gets {self.layers[-1][1]}"
            )
        biased = module.bias is not None
        self.layers.append((module.in_features, module.out_features, biased, []))
        prefix = f"{name}." if name else ""
        self.names += [f"{prefix}weight", f"{prefix}bias"] if biased else [f"{prefix}weight"]


_ACTIVATIONS: dict[type[nn.Module], str] = {
    nn.ReLU: "relu",
    nn.LeakyReLU: "leaky_relu",
    nn.Tanh: "tanh",
    nn.Sigmoid: "sigmoid",
}


def _observed(likelihood: Likelihood, outputs: int) -> dict[str, Any]:
    """Return the kernel's arguments for a likelihood."""
    if type(likelihood) is Normal and _one_noise_each(likelihood, outputs):
        return _plain("inferred" if likelihood.traits.learns_noise else "normal")
    if type(likelihood) is Bernoulli:
        if outputs > 1 or likelihood.link == "logit":
            return _plain(likelihood.link)
        paths = torch.tensor([[-1], [1]], dtype=torch.int8)
        return {"likelihood": "probit_tree", "tree_noise": 1.0, "paths": paths.numpy()}
    if type(likelihood) is Categorical and likelihood.outputs == outputs:
        return {
            "likelihood": f"{likelihood.link}_tree",
            "tree_noise": likelihood.decision_noise,
            "paths": likelihood.paths.contiguous().numpy(),
        }
    if type(likelihood) is Poisson and likelihood.link == "exp":
        return _plain("poisson")
    if type(likelihood) is NegativeBinomial and likelihood.outputs in (1, outputs):
        if not likelihood.traits.learns_noise:
            return _plain("negative_binomial")
        if likelihood.outputs == outputs:
            return _plain("dispersed")
    if type(likelihood) is HeteroscedasticNormal and outputs % 2 == 0:
        return _plain("heteroscedastic")
    raise UnsupportedByKernel(
        f"engine='native' takes the likelihoods Normal, HeteroscedasticNormal, Poisson (of log "
        f"rates), NegativeBinomial, Bernoulli and Categorical that fit the network, not "
        f"{likelihood} with {outputs} outputs"
    )


def _plain(kind: str) -> dict[str, Any]:
    return {"likelihood": kind, "tree_noise": 1.0, "paths": None}


def _one_noise_each(likelihood: Normal, outputs: int) -> bool:
    """Return whether noises fit the outputs, without missing targets."""
    shared = likelihood.outputs == 1 and not likelihood.traits.learns_noise
    return not likelihood.missing and (shared or likelihood.outputs == outputs)


# --- running -----------------------------------------------------------------------------------


class NativeEngine(Engine):
    """An engine that runs the compiled kernel on a state.

    Args:
        chain: what the kernel is to compute.
    """

    name = "native"
    parallel = True

    def __init__(self, chain: KernelNetwork) -> None:
        compiled = native.kernel()
        if compiled is None:
            raise UnsupportedByKernel(f"engine='native': {MISSING}")
        self.chain = chain
        self.kernel: Any = compiled.Learner(**chain.arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what copies and pickles need to build their own kernel."""
        return NativeEngine, (self.chain,)

    @property
    def instruction_set(self) -> str:
        """Instruction set that the kernel uses on this processor, such as ``"avx2"``."""
        return str(self.kernel.instructions)

    def takes(self, x: Inputs) -> bool:
        """Return whether the kernel accepts such inputs."""
        if not isinstance(x, Tensor):
            return False
        rows = x.shape[1:]
        width = rows.numel() if self.chain.flattens else rows[-1] if len(rows) == 1 else -1
        return width == self.chain.inputs and x.dtype == torch.float32 and len(x) > 0

    @override
    def update(
        self,
        state: TAGIState,
        x: Inputs,
        y: Tensor,
        forget: float,
        memory_rows: float | None = None,
    ) -> None:
        if not self._learn(state, x, y, None, len(x), forget, None, memory_rows):
            raise NonFiniteUpdate(NON_FINITE)

    def learn_epoch(
        self,
        state: TAGIState,
        source: ArrayData | LoaderData,
        order: Tensor | None,
        forget: float,
        on_batch: OnBatch,
    ) -> bool:
        """Train for one epoch in a single call of the kernel.

        If a message is not finite, the model is as it was before the batch that sent it; if
        ``on_batch`` or a signal raises, as it was before the epoch.
        """
        if isinstance(source, LoaderData) or not self.takes(source.x):
            return False
        learnt = self._learn(state, source.x, source.y, order, source.batch_size, forget, on_batch)
        if learnt < source.batches:
            raise NonFiniteUpdate(NON_FINITE)
        return True

    def _learn(
        self,
        state: TAGIState,
        x: Inputs,
        y: Tensor,
        order: Tensor | None,
        batch_size: int,
        forget: float,
        on_batch: OnBatch | None,
        memory_rows: float | None = None,
    ) -> int:
        """Learn rows once in batches and return the number of learned batches."""
        reported = 0

        def report(done: int) -> None:
            nonlocal reported
            stop_if_cancelled()
            if on_batch is not None:
                on_batch(done - reported)
            reported = done

        posterior, likelihood, gate = state.posterior, state.likelihood, state.gate
        mean, variance = _inputs(x)
        targets, error_bars = y, None
        if isinstance(y, Gaussian):
            targets, error_bars = y.loc, _rows(y.variance)
        targets = targets.detach().reshape(len(x), -1).contiguous()
        labels = self.chain.arguments["paths"] is not None
        noise = export_noise(likelihood, self.chain.arguments["layers"][-1][1])
        learnt = int(
            self.kernel.learn(
                posterior.loc.detach().numpy(),
                posterior.variance.detach().numpy(),
                [posterior.prior_variance[name] for name in posterior.shapes],
                noise[0].numpy(),
                noise[1].numpy(),
                mean,
                variance,
                None if labels else targets.to(torch.float32).numpy(),
                error_bars,
                targets.to(torch.int64).numpy() if labels else None,
                None if order is None else order.contiguous().numpy(),
                batch_size,
                forget,
                report,
                *(_NO_GATE if gate is None else gate.arrays),
                0.0 if memory_rows is None else memory_rows,
            )
        )
        import_noise(likelihood, *noise)
        if on_batch is not None and learnt > reported:
            on_batch(learnt - reported)
        return learnt

    @override
    def outputs(self, state: TAGIState, x: Inputs) -> tuple[Tensor, Tensor]:
        mean, variance = self.kernel.predict(*_parameters(state), *_inputs(x))
        return torch.from_numpy(mean), torch.from_numpy(variance)

    @override
    def sample(self, state: TAGIState, x: Inputs, n: int, generator: torch.Generator) -> Tensor:
        normals = torch.randn(n * len(x) * self.kernel.units, generator=generator)
        drawn = self.kernel.draw(*_parameters(state), _inputs(x)[0], n, normals.numpy())
        return torch.from_numpy(drawn)

    @override
    def snapshot(self, state: TAGIState, noise: Floats | None = None) -> Snapshot:
        compiled = native.kernel()
        assert compiled is not None
        loc, variance = _parameters(state)
        if noise is not None:
            loc, variance = loc + np.sqrt(variance) * noise, np.zeros_like(variance)
        outputs: Snapshot = compiled.Snapshot(self.kernel, loc, variance).predict
        return outputs

    @override
    def slopes(self, state: TAGIState, x: Gaussian) -> Slopes | None:
        if not self.kernel.gives_derivatives:
            return None
        found = self.kernel.derivatives(*_parameters(state), _rows(x.loc), _rows(x.variance))
        mean, variance, curvature = (torch.from_numpy(part) for part in found)
        return mean, variance, curvature


def _parameters(state: TAGIState) -> tuple[Any, Any]:
    posterior = state.posterior
    return posterior.loc.detach().numpy(), posterior.variance.detach().numpy()


def _inputs(x: Inputs) -> tuple[Any, Any]:
    if isinstance(x, Gaussian):
        return _rows(x.loc), _rows(x.variance)
    return _rows(single_input(x, "engine='native'")), None


_NO_GATE = (None, None)


def _rows(x: Tensor) -> Any:
    return x.detach().reshape(len(x), -1).contiguous().numpy()
