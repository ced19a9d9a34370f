"""The base of the gradient methods: flat parameters, an optimizer, and sampled predictions.

A method keeps its parameters in a few flat vectors and supplies the gradient of its objective for
one batch.  The objective of a batch of B rows is ``(w KL - sum of log p(y|z)) / B``, where w is the
batch's share of the divergence (or of the log prior): the scale of the gradient, and so of the
learning rate, does not depend on the size of the batch.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from typing_extensions import override

from tractable.errors import NonFiniteGradient
from tractable.learners.methods import optimizers
from tractable.learners.methods.base import BatchPosition, Method, State, TensorDict
from tractable.learners.methods.optimizers import Factory
from tractable.learners.network.functional import Network
from tractable.learners.network.rng import PREDICTION_SEED, ForwardRng
from tractable.learners.outputs import Outputs, SampledOutputs
from tractable.likelihoods import Likelihood
from tractable.persistence import validation
from tractable.training.callbacks import EpochRecord
from tractable.training.inputs import Inputs, is_uncertain

Schedule = Literal["constant", "cosine"] | Factory

DROPOUT = (
    nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout
)  # fmt: skip
_VALIDATION_SAMPLES = 10
_NOISE_ROWS = 500.0
"""Maximum number of recent rows of a stream that an inferred noise is averaged over."""
_NOISE_SAMPLES = 5
"""Number of weight samples for the moments of outputs from which the noise is inferred."""


@dataclass
class GradientState(State):
    """A state whose vectors are changed by an optimizer."""

    vectors: list[Tensor] = field(init=False)
    """The trained flat vectors, leaves of autograd."""
    optimizer: torch.optim.Optimizer = field(init=False)
    scheduler: Any = None
    rows: float = 0.0
    """Number of rows that share the divergence: those of an epoch plus those of later updates."""
    log_likelihood: float = 0.0
    """Sum since the end of the last epoch."""
    statistics: Tensor | None = None
    """Sufficient statistics of the noise, summed since the noise was last set."""
    kept: Tensor | None = None
    """Mask of the weights that may change; None before pruning."""
    memory: TensorDict = field(default_factory=dict)
    """Reusable vectors, because allocating memory in every step costs more than the arithmetic."""

    def scratch(self, name: str, size: int | None = None) -> Tensor:
        """Return a reusable vector to write to."""
        if name not in self.memory:
            like = self.vectors[0].detach()
            self.memory[name] = like.new_empty(like.numel() if size is None else size)
        return self.memory[name]


@dataclass(frozen=True, kw_only=True)
class OptimizerOptions:
    """Options of all methods that follow a gradient.

    Attributes:
        lr: learning rate.
        optimizer: class of ``torch.optim``, its name, or a ``functools.partial`` of it.
        schedule: schedule of the learning rate: ``"constant"``, ``"cosine"`` or a factory.
        n_weight_samples: number of weight samples that a prediction averages over.
    """

    lr: float = 1e-3
    """The default of ``torch.optim.Adam``."""
    optimizer: Factory = "Adam"
    schedule: Schedule = "cosine"
    n_weight_samples: int = 50

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise ValueError(f"lr must be a positive number, got {self.lr}")
        if self.n_weight_samples < 1:
            raise ValueError(f"n_weight_samples must be at least 1, got {self.n_weight_samples}")

    def config(self) -> dict[str, Any]:
        """Return the options of this class as JSON values."""
        schedule = self.schedule
        if schedule not in ("constant", "cosine"):
            schedule = optimizers.factory_config(schedule, torch.optim.lr_scheduler)
        return {
            "lr": self.lr,
            "optimizer": optimizers.factory_config(self.optimizer, torch.optim),
            "schedule": schedule,
            "n_weight_samples": self.n_weight_samples,
        }

    def start(self, state: GradientState, vectors: list[Tensor], like: Network) -> None:
        """Store the vectors to train in a state, with a new optimizer."""
        state.vectors = [v.detach().to(like.device, like.dtype).requires_grad_() for v in vectors]
        state.optimizer = optimizers.make_optimizer(self.optimizer, state.vectors, self.lr)
        state.scheduler, state.memory = None, {}
        if self.schedule not in ("constant", "cosine"):
            home = torch.optim.lr_scheduler
            state.scheduler = optimizers.resolve_factory(self.schedule, home, "schedule")(
                state.optimizer
            )


class GradientMethod(Method[GradientState]):
    """Base class of methods that follow the gradient of an objective."""

    keeps_dropout = False
    """Whether dropout stays active when predicting."""

    options: OptimizerOptions

    def __init__(self, network: Network, likelihood: Likelihood, options: Any = None) -> None:
        super().__init__(network, likelihood, options)
        layers = network.module.modules()
        self.drops = any(isinstance(m, DROPOUT) and m.p > 0 for m in layers)
        self.forward_rng = ForwardRng(network.device, self.drops)

    # --- what a gradient method supplies ---------------------------------------------------

    @abstractmethod
    def gradients(
        self, state: GradientState, x: Inputs, y: Tensor, buffers: TensorDict, weight: float
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Return log-likelihood and outputs of a batch, and the gradient of each vector.

        The gradients are of ``weight * divergence - log-likelihood``, summed over the batch.
        """

    @abstractmethod
    def weights(
        self, state: GradientState, n_weight_samples: int, generator: torch.Generator
    ) -> Iterator[list[Tensor]]:
        """Yield samples of all parameters for predictions."""

    @abstractmethod
    def keep(self, state: GradientState, kept: Tensor) -> None:
        """Set all entries that are not kept permanently to zero, without variance."""

    @abstractmethod
    def divergence_share(self, position: BatchPosition) -> float:
        """Return the weight of the divergence in a batch."""

    # --- the network -----------------------------------------------------------------------

    def run(self, weights: list[Tensor], buffers: TensorDict, x: Inputs, train: bool) -> Tensor:
        """Return the network's output with these weights."""
        if is_uncertain(x):
            raise TypeError("inputs are Gaussian, expected tensors: use TAGI for uncertain inputs")
        with self.holding(weights, buffers):
            return self.network.run(x, train=train)

    def holding(self, weights: list[Tensor], buffers: TensorDict) -> AbstractContextManager[None]:
        """Return a context in which the network has these weights, also for a backward pass."""
        named = dict(zip(self.network.shapes, weights, strict=True))
        return self.network.holding({**named, **buffers})

    def log_likelihood(
        self, state: GradientState, weights: list[Tensor], buffers: TensorDict, x: Inputs, y: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the log-likelihood of a batch with dropout, and the outputs."""
        with self.forward_rng.drawing_from(state.generator, train=True):
            z = self.run(weights, buffers, x, train=True)
        return state.likelihood.log_prob(y, z).sum(), z

    # --- learning --------------------------------------------------------------------------

    def update(
        self, state: GradientState, x: Inputs, y: Tensor, position: BatchPosition | None
    ) -> None:
        """Make a gradient step; online, a learnable noise is updated as well."""
        noise: TensorDict = {}
        if position is None and state.likelihood.traits.learns_noise:
            noise = updated_noise(
                state.likelihood, y, self.outputs(state, x, n_weight_samples=_NOISE_SAMPLES)
            )
        self.follow(state, x, y, position)
        state.likelihood.set_buffers(noise)

    def follow(
        self, state: GradientState, x: Inputs, y: Tensor, position: BatchPosition | None
    ) -> None:
        """Make one gradient step, or raise an error and leave the state unchanged."""
        before = state.generator.get_state()
        rows, weight = self.shared_by(state, len(x), position)
        buffers = {name: b.clone() for name, b in state.buffers.items()}
        log_likelihood, z, gradients = self.gradients(state, x, y, buffers, weight)
        try:
            self.step(state, float(log_likelihood), gradients, len(x), position)
        except NonFiniteGradient:
            state.generator.set_state(before)
            raise
        state.rows, state.buffers = rows, buffers
        if position is not None:
            state.log_likelihood += float(log_likelihood)
            new = state.likelihood.sufficient_statistics(y, z.detach())
            if new is not None:
                state.statistics = new if state.statistics is None else state.statistics + new

    def shared_by(
        self, state: GradientState, rows: int, position: BatchPosition | None
    ) -> tuple[float, float]:
        """Return the number of rows that share the divergence, and its weight in a batch."""
        if position is None:
            return state.rows + rows, rows / (state.rows + rows)
        return rows / position.share, self.divergence_share(position)

    def step(
        self,
        state: GradientState,
        log_likelihood: float,
        gradients: list[Tensor],
        rows: int,
        position: BatchPosition | None,
    ) -> None:
        """Apply gradients, or raise ``NonFiniteGradient``."""
        if not math.isfinite(log_likelihood + sum(float(g.sum()) for g in gradients)):
            raise NonFiniteGradient(_NON_FINITE)
        if self.options.schedule == "cosine":
            done = position.progress if position is not None else 0.0
            for group in state.optimizer.param_groups:
                group["lr"] = self.options.lr * 0.5 * (1 + math.cos(math.pi * done))
        for vector, gradient in zip(state.vectors, gradients, strict=True):
            vector.grad = gradient.div_(rows)
        state.optimizer.step()
        for vector in state.vectors:
            vector.grad = None
        if state.kept is not None:
            self.keep(state, state.kept)  # an optimizer's momentum must not move them again

    @override
    def end_epoch(self, state: GradientState) -> EpochRecord:
        record = {"log_likelihood": state.log_likelihood}
        self.update_noise_from_statistics(state)
        self.step_schedule(state)
        return record

    def update_noise_from_statistics(self, state: GradientState) -> None:
        """Set the noise to its maximum-likelihood value for the residuals since the last call."""
        statistics, state.statistics, state.log_likelihood = state.statistics, None, 0.0
        if statistics is not None:
            state.likelihood.m_step(statistics)

    @override
    def step_schedule(self, state: GradientState) -> None:
        if state.scheduler is not None:
            state.scheduler.step()

    # --- predicting ------------------------------------------------------------------------

    def outputs(
        self,
        state: GradientState,
        x: Inputs,
        *,
        batch_size: int | None = None,
        n_weight_samples: int | None = None,
    ) -> SampledOutputs:
        """Return outputs for sampled weights, the same samples at every call and for all rows."""
        if n_weight_samples is not None and n_weight_samples < 1:
            raise ValueError(f"n_weight_samples must be at least 1, got {n_weight_samples}")
        generator = torch.Generator().manual_seed(state.seed + PREDICTION_SEED)
        number = self.options.n_weight_samples if n_weight_samples is None else n_weight_samples
        values = self.sampled_outputs(state, x, number, generator, batch_size)
        return SampledOutputs(values, state.likelihood)

    def sampled_outputs(
        self,
        state: GradientState,
        x: Inputs,
        n_weight_samples: int,
        generator: torch.Generator,
        batch_size: int | None = None,
    ) -> Tensor:
        """Return outputs for sampled weights, ``[n_weight_samples, rows, ...]``."""
        samples = []
        rng = self.forward_rng.drawing_from(generator, train=False, always=self.keeps_dropout)
        with torch.set_grad_enabled(x.requires_grad), rng:
            for weights in self.weights(state, n_weight_samples, generator):
                rows = x.split(batch_size or len(x))
                parts = [self.evaluate(state, weights, part) for part in rows]
                samples.append(parts[0] if len(parts) == 1 else torch.cat(parts))
        return torch.stack(samples)

    def evaluate(self, state: GradientState, weights: list[Tensor], x: Inputs) -> Tensor:
        """Return outputs for a prediction with one sample of the weights."""
        return self.run(weights, state.buffers, x, train=False)

    @override
    def sample(self, state: GradientState, x: Inputs, n: int, generator: torch.Generator) -> Tensor:
        with torch.no_grad():
            return self.sampled_outputs(state, x, n, generator)

    def log_prob_gradient(
        self, state: GradientState, x: Tensor, y: Tensor, *, n_weight_samples: int | None = None
    ) -> Tensor:
        """Return the gradient of the log predictive density, the mean over all weight samples."""
        leaf = x.detach().clone().requires_grad_()
        log_prob = (
            self.outputs(state, leaf, n_weight_samples=n_weight_samples).predictive().log_prob(y)
        )
        return torch.autograd.grad(log_prob.sum(), leaf)[0]

    @override
    def output_shape(self, state: GradientState, x: Inputs) -> torch.Size:
        rng = self.forward_rng.drawing_from(state.seed + PREDICTION_SEED, train=False)
        with torch.no_grad(), rng:
            weights = self.network.split(state.vectors[0])
            return self.run(weights, state.buffers, x, train=False).shape

    def scoring_options(self) -> dict[str, Any]:
        """Return fewer weight samples, which suffice for validation during training."""
        return {"n_weight_samples": min(self.options.n_weight_samples, _VALIDATION_SAMPLES)}

    # --- state -----------------------------------------------------------------------------

    @override
    def prune(self, state: GradientState, fraction: float, per_layer: bool) -> None:
        self.keep(state, self.posterior(state).pruning_mask(fraction, per_layer=per_layer))

    def named(self, vector: Tensor, kind: str) -> TensorDict:
        """Return the parts of a vector by ``kind`` and parameter name."""
        parts = self.network.split(vector.detach())
        return {f"{kind}/{n}": part for n, part in zip(self.network.shapes, parts, strict=True)}

    @override
    def training(self, state: GradientState) -> tuple[TensorDict, Any]:
        tensors, values = optimizers.optimizer_state(state.optimizer)
        schedule = None if state.scheduler is None else _plain(state.scheduler.state_dict())
        if state.statistics is not None:
            tensors["statistics"] = state.statistics
        return tensors, {"optimizer": values, "schedule": schedule, "rows": state.rows}

    @override
    def restore_training(self, state: GradientState, tensors: TensorDict, values: Any) -> None:
        tensors = {name: tensor.to(self.network.device) for name, tensor in tensors.items()}
        state.statistics = tensors.pop("statistics", None)
        if state.statistics is not None:
            _check_statistics(state.statistics, state.likelihood)
        factory = self.options.optimizer
        optimizers.restore_optimizer(factory, state.optimizer, tensors, values["optimizer"])
        if state.scheduler is not None and values["schedule"] is not None:
            usual = _plain(state.scheduler.state_dict())
            for key, value in values["schedule"].items():
                optimizers.check_value(value, usual[key], key)
            state.scheduler.load_state_dict(values["schedule"])
        state.rows = float(values["rows"])
        if not 0 <= state.rows < math.inf:
            raise ValueError(f"rows must be a finite number of at least 0, got {state.rows}")


def _check_statistics(statistics: Tensor, likelihood: Likelihood) -> None:
    """Raise an error for statistics that give an invalid noise."""
    updated = copy.deepcopy(likelihood)
    updated.m_step(statistics)
    validation.check_same_tensors(
        dict(likelihood.named_buffers()), dict(updated.named_buffers()), "noise"
    )
    updated.check_buffers(updated.state_dict())


def updated_noise(likelihood: Likelihood, y: Tensor, outputs: Outputs) -> TensorDict:
    """Return the buffers of a likelihood after an online update of its noise; empty if it is given.

    Approximate: the noise is an average over about the last 500 rows.  It contains the errors of
    the network on these rows before it learns them, except for the part that the variance of
    ``outputs`` explains.

    Args:
        likelihood: the likelihood; it is not changed.
        y: targets of some rows.
        outputs: outputs at these rows, before the network learns them.
    """
    with torch.no_grad():
        return likelihood.update_noise(y, *outputs.moments(), memory_rows=_NOISE_ROWS)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a scheduler's state that JSON can represent."""
    kinds = (bool, int, float, str, list, tuple, type(None))
    return {key: value for key, value in values.items() if isinstance(value, kinds)}


_NON_FINITE = (
    "the gradient is not finite, so the step was not made: (a) inputs or targets are too large "
    "(standardize them), (b) the learning rate is too high, or (c) the noise of the likelihood is "
    "far too small for the residuals"
)
