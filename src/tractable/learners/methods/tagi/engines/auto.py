"""Choice of the engine: that of the user, or the faster one for each call."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from tractable import native
from tractable.errors import UnsupportedByKernel
from tractable.gaussian import Gaussian
from tractable.learners.methods.base import OnBatch
from tractable.learners.methods.tagi.engines.base import (
    ENGINES,
    Engine,
    EngineName,
    Floats,
    Slopes,
    Snapshot,
    TAGIState,
)
from tractable.learners.methods.tagi.engines.compiled import CompiledEngine
from tractable.learners.methods.tagi.engines.eager import TorchEngine
from tractable.learners.methods.tagi.engines.native import (
    MISSING,
    NativeEngine,
    kernel_network,
    log_missing_kernel,
)
from tractable.likelihoods import Likelihood
from tractable.training.data import ArrayData, LoaderData
from tractable.training.inputs import Inputs


@dataclass(frozen=True)
class KernelLimits:
    """Sizes up to which the kernel is faster than torch on one thread (benchmarks/native.py).

    BLAS is faster for large batches, and outside of an epoch every call copies the parameters.
    Work is the number of parameters times the number of rows in a batch.
    """

    epoch_work: float = 1 << 24
    update_work: float = 1 << 22
    update_parameters: float = 1 << 18
    predict_work: float = 1 << 21
    predict_parameters: float = 1 << 17
    drawn_together: int = 8
    """Rows whose outputs are drawn together: with more of them, drawing the weights costs less."""


_EVERYTHING = float("inf")
NO_LIMITS = KernelLimits(_EVERYTHING, _EVERYTHING, _EVERYTHING, _EVERYTHING, _EVERYTHING)


def choose_engine(
    eager: TorchEngine, likelihood: Likelihood, *, engine: EngineName, compile: bool
) -> Engine:
    """Return the engine for a network under a likelihood.

    Args:
        eager: torch engine of the network, for all calls that the chosen engine does not support.
        likelihood: observation model.
        engine: name of the requested engine.
        compile: whether to compile the step.

    Raises:
        UnsupportedByKernel: ``engine="native"`` and the kernel is missing or cannot serve.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}; got {engine!r}")
    if compile:
        if engine == "native":
            raise UnsupportedByKernel(
                "compile=True asks for torch.compile: engine='native' has none"
            )
        return CompiledEngine(eager)
    if engine == "torch":
        return eager
    try:
        chain = kernel_network(eager.network, likelihood, eager.moments, eager.rule, eager.guard)
    except UnsupportedByKernel:
        if engine == "native":
            raise
        return eager
    if native.kernel() is None:
        if engine == "native":
            raise UnsupportedByKernel(f"engine='native': {MISSING}")
        log_missing_kernel()
        return eager
    limits = NO_LIMITS if engine == "native" else KernelLimits()
    if chain.parameters > limits.epoch_work:
        return eager
    return AutoEngine(NativeEngine(chain), eager, limits)


class AutoEngine(Engine):
    """The compiled kernel where it is applicable and faster, otherwise torch."""

    name = "native"
    parallel = True

    def __init__(self, kernel: NativeEngine, eager: TorchEngine, limits: KernelLimits) -> None:
        self.kernel, self.eager, self.limits = kernel, eager, limits
        self.parameters = kernel.chain.parameters

    @override
    def update(
        self,
        state: TAGIState,
        x: Inputs,
        y: Tensor,
        forget: float,
        memory_rows: float | None = None,
    ) -> None:
        limits = self.limits
        fast = self._within(len(x), limits.update_work, limits.update_parameters)
        self._which(fast, x).update(state, x, y, forget, memory_rows)

    @override
    def learn_epoch(
        self,
        state: TAGIState,
        source: ArrayData | LoaderData,
        order: Tensor | None,
        forget: float,
        on_batch: OnBatch,
    ) -> bool:
        if isinstance(source, LoaderData):
            return False
        if self.parameters * source.batch_size > self.limits.epoch_work:
            return False
        return self.kernel.learn_epoch(state, source, order, forget, on_batch)

    @override
    def outputs(self, state: TAGIState, x: Inputs) -> tuple[Tensor, Tensor]:
        limits = self.limits
        fast = self._within(len(x), limits.predict_work, limits.predict_parameters)
        return self._which(fast, x).outputs(state, x)

    @override
    def sample(self, state: TAGIState, x: Inputs, n: int, generator: torch.Generator) -> Tensor:
        fast = len(x) <= self.limits.drawn_together
        return self._which(fast, x).sample(state, x, n, generator)

    @override
    def snapshot(self, state: TAGIState, noise: Floats | None = None) -> Snapshot:
        return self.kernel.snapshot(state, noise)

    @override
    def slopes(self, state: TAGIState, x: Gaussian) -> Slopes | None:
        return self.kernel.slopes(state, x)

    def _within(self, rows: int, work: float, parameters: float) -> bool:
        return self.parameters <= parameters and self.parameters * rows <= work

    def _which(self, fast: bool, x: Inputs) -> Engine:
        return self.kernel if fast and self.kernel.takes(x) else self.eager
