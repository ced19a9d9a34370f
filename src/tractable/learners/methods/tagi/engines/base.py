"""Interface of the engines of TAGI, whose results agree up to rounding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tractable.gaussian import Gaussian
from tractable.learners.methods.base import OnBatch, State
from tractable.learners.methods.tagi.batch_norm import RecentBatches
from tractable.learners.methods.tagi.outlier_gate import OutlierGate
from tractable.posterior import Posterior
from tractable.training.data import ArrayData, LoaderData
from tractable.training.inputs import Inputs

EngineName = Literal["auto", "torch", "native"]
ENGINES: tuple[EngineName, ...] = ("auto", "torch", "native")

Floats = NDArray[np.float32]
Snapshot = Callable[[Floats], tuple[Floats, Floats]]
Slopes = tuple[Tensor, Tensor, Tensor]

NON_FINITE = (
    "a message is not finite, so the update was not made: (a) inputs or targets are too large "
    "for the dtype (standardize them), (b) the noise is far too small for the residuals, or "
    "(c) a custom likelihood or rule divides by zero"
)


@dataclass
class TAGIState(State):
    """Gaussian weights, the noise, the outlier gate and the running statistics."""

    posterior: Posterior = field(init=False)
    """The posterior of all parameters; its vectors are changed in place."""
    gate: OutlierGate | None = None
    """The outlier gate; None without outlier detection."""
    start: Tensor | None = field(default=None, repr=False)
    """Initial means of the weights; None before an update with limited memory needs them."""
    recent: RecentBatches | None = field(default=None, repr=False)
    """Most recent rows of the current epoch, if running statistics need them."""


class Engine(ABC):
    """An implementation of updates, outputs and samples of a network under a likelihood."""

    name: EngineName
    """Name of the engine: ``"torch"`` or ``"native"``."""
    parallel: bool = False
    """Whether training releases the interpreter lock, so that threads run in parallel."""

    @abstractmethod
    def update(
        self,
        state: TAGIState,
        x: Inputs,
        y: Tensor,
        forget: float,
        memory_rows: float | None = None,
    ) -> None:
        """Learn a batch and forget a share of all information, or raise an error and change
        nothing.

        Args:
            state: changed.
            x: inputs.
            y: targets.
            forget: share of the information about the weights.
            memory_rows: rows that the noise is to be inferred from, or None for all.
        """

    @abstractmethod
    def outputs(self, state: TAGIState, x: Inputs) -> tuple[Tensor, Tensor]:
        """Return mean and variance of the network's outputs."""

    @abstractmethod
    def sample(self, state: TAGIState, x: Inputs, n: int, generator: torch.Generator) -> Tensor:
        """Return outputs of all rows for sampled weights, ``[n, rows, ...]``."""

    @abstractmethod
    def snapshot(self, state: TAGIState, noise: Floats | None = None) -> Snapshot:
        """Return a function from arrays to output moments, with the current parameters.

        Args:
            state: the current state.
            noise: standard normals, one for each parameter. The weights are then the sample
                ``mean + std * noise``, without variance.
        """

    def learn_epoch(
        self,
        state: TAGIState,
        source: ArrayData | LoaderData,
        order: Tensor | None,
        forget: float,
        on_batch: OnBatch,
    ) -> bool:
        """Learn every row once and return True, or return False if the engine does not support
        it.
        """
        return False

    def slopes(self, state: TAGIState, x: Gaussian) -> Slopes | None:
        """Return mean, variance and curvature of the single output by every input; None if
        unsupported.
        """
        return None
