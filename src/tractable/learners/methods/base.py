"""``Method`` and ``State``: the interface between a learning algorithm and the rest of the library.

A **method** is a learning algorithm with its network, likelihood and options; it is immutable.
Everything that training changes is in a **state**, which is plain data: a copied state is an
independent model, a list of states is an ensemble, and a saved state is a checkpoint.
``tractable.Learner`` contains the rest: training loop, checks, callbacks, validation, locking and
files.

To write a method, derive from ``Method`` and supply, in this order: ``options_class``, ``init``,
``update``, ``outputs``, ``sample``, ``log_prob_gradient``, ``posterior``, ``learnt``, ``restore``;
then a learner is two lines (see ``docs/developer/learner.md`` and
``learners/methods/laplace/laplace.py``):

    class Mine(Learner):
        method_class = MyMethod
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor, nn

from tractable.learners.network.functional import Network
from tractable.learners.outputs import Outputs
from tractable.likelihoods import Likelihood
from tractable.likelihoods.base import HeldOut
from tractable.persistence import validation
from tractable.persistence.validation import Domain
from tractable.posterior import Posterior
from tractable.training.callbacks import EpochRecord
from tractable.training.data import ArrayData, LoaderData
from tractable.training.inputs import Inputs

TensorDict = dict[str, Tensor]
OnBatch = Callable[[int], object]

MAX_WEIGHT_SAMPLES = 1_000_000
"""The largest number of weight samples that an option in a file may request."""


@dataclass(frozen=True)
class BatchPosition:
    """The position of a batch within a fit; online updates have none."""

    share: float
    """Number of rows in the batch divided by the number in an epoch."""
    progress: float
    """Number of finished epochs divided by the total number."""
    batch: int
    """Index of the batch in its epoch, from 0."""
    batches: int
    """Number of batches in an epoch."""


@dataclass(frozen=True)
class NoOptions:
    """Options of a method that has none."""


@dataclass
class State:
    """The fields that the states of all methods contain; a method adds further ones."""

    likelihood: Likelihood
    """The state's copy of the likelihood, with the inferred noise."""
    buffers: TensorDict
    """Buffers of the network, such as running statistics."""
    seed: int
    """Seed of the random generator for initial weights, the order of rows and samples."""
    generator: torch.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.generator = torch.Generator().manual_seed(self.seed)


S = TypeVar("S", bound=State)


class Method(ABC, Generic[S]):
    """A learning algorithm with its network, likelihood and options.

    Args:
        network: the user's module as a function of its parameters and buffers.
        likelihood: the likelihood as the user passed it; the one that is trained is in the state.
        options: an object of ``options_class``. Default: all options at their defaults.
    """

    parallel: bool = False
    """Whether training releases the interpreter lock, so that threads run in parallel."""

    online: bool = False
    """Whether one pass over a stream is enough, because updates do not forget earlier rows."""

    by_rows: bool = False
    """Whether the method runs the network on single rows of a batch."""

    domains: ClassVar[dict[str, Domain]] = {}
    """Domain of the tensors of ``learnt``, by the first part of their names. Default: finite."""

    options_class: ClassVar[type] = NoOptions
    """A frozen dataclass: the arguments of the learner's constructor, with their defaults."""

    def __init__(self, network: Network, likelihood: Likelihood, options: Any = None) -> None:
        self.network, self.likelihood = network, likelihood
        self.options: Any = self.options_class() if options is None else options

    # --- to supply -------------------------------------------------------------------------

    @abstractmethod
    def init(self, likelihood: Likelihood, seed: int) -> S:
        """Return the untrained state; ``likelihood`` becomes part of it."""

    @abstractmethod
    def update(self, state: S, x: Inputs, y: Tensor, position: BatchPosition | None) -> None:
        """Learn from one batch of checked rows, or raise an error and leave the state unchanged.

        ``position`` is None for an online update.
        """

    @abstractmethod
    def outputs(self, state: S, x: Inputs, *, batch_size: int | None = None) -> Outputs:
        """Return the distribution of the network's outputs, computed ``batch_size`` rows at a
        time.
        """

    @abstractmethod
    def sample(self, state: S, x: Inputs, n: int, generator: torch.Generator) -> Tensor:
        """Return the outputs of ``n`` functions sampled from the posterior, ``[n, rows, ...]``.

        All rows of a sample have the same weights.
        """

    @abstractmethod
    def log_prob_gradient(self, state: S, x: Tensor, y: Tensor) -> Tensor:
        """Return the gradient of each row's log predictive density of ``y`` with respect to ``x``.

        A method that returns an approximation documents it in its own docstring.
        """

    @abstractmethod
    def posterior(self, state: S) -> Posterior:
        """Return independent Gaussian distributions over the parameters."""

    @abstractmethod
    def learnt(self, state: S) -> TensorDict:
        """Return the trained tensors by name; ``init`` and ``restore`` rebuild the state from
        them.
        """

    @abstractmethod
    def restore(self, state: S, learnt: TensorDict) -> None:
        """Copy the result of ``learnt`` into a state; names, shapes and numbers were checked
        before.
        """

    # --- with a default --------------------------------------------------------------------

    def on_network(self, network: Network) -> Self:
        """Return this method for another copy of the network, for example on another device.

        Args:
            network: copy of the network, with the same parameters.
        """
        return type(self)(network, self.likelihood, self.options)

    def config(self) -> dict[str, Any]:
        """Return the options as JSON values, for files."""
        return {entry.name: getattr(self.options, entry.name) for entry in fields(self.options)}

    def copied(self, state: S) -> S:
        """Return an independent copy of a state that continues in the same way."""
        result = self.init(copy.deepcopy(state.likelihood), state.seed)
        self.restore(result, {name: tensor.clone() for name, tensor in self.learnt(state).items()})
        tensors, values = self.training(state)
        self.restore_training(result, {k: t.clone() for k, t in tensors.items()}, values)
        result.generator = torch.Generator().manual_seed(state.generator.initial_seed())
        result.generator.set_state(state.generator.get_state())
        return result

    def backup(self, state: S) -> tuple[Any, ...]:
        """Return what ``undo`` needs to revert an update."""
        tensors, values = self.training(state)
        return (
            {name: tensor.clone() for name, tensor in self.learnt(state).items()},
            {name: tensor.clone() for name, tensor in tensors.items()},
            copy.deepcopy(values),
            {name: tensor.clone() for name, tensor in state.likelihood.named_buffers()},
            state.generator.get_state(),
        )

    def undo(self, state: S, backup: tuple[Any, ...]) -> None:
        """Revert a state to where ``backup`` was taken."""
        learnt, tensors, values, noise, generator = backup
        self.restore(state, learnt)
        self.restore_training(state, tensors, values)
        state.likelihood.set_buffers(noise)
        state.generator.set_state(generator)

    def update_within(self, state: S, x: Inputs, y: Tensor, memory_rows: float) -> None:
        """Learn from an online batch and remember about the last ``memory_rows`` rows."""
        raise TypeError(
            f"{type(self).__name__} does not support memory_rows=, because only TAGI forgets in "
            f"closed form: leave it out, or use TAGI"
        )

    def learn_epoch(
        self,
        state: S,
        source: ArrayData | LoaderData,
        order: Tensor | None,
        progress: float,
        on_batch: OnBatch,
    ) -> bool:
        """Learn every row once in one call and return True; False leaves it to ``update``.

        Args:
            state: the state to change.
            source: the rows, in batches.
            order: row numbers in the order in which to learn them. None: the order of the data.
            progress: number of finished epochs divided by the total number.
            on_batch: called with the number of batches finished since the last call.
        """
        return False

    def batches_of(
        self, state: S, source: ArrayData | LoaderData, order: Tensor | None = None
    ) -> Iterator[tuple[Inputs, Tensor]]:
        """Yield the checked inputs and targets of one epoch.

        Args:
            state: state whose likelihood checks the targets of a loader.
            source: the rows, in batches.
            order: row numbers in the order of the epoch. None: the order of the data.
        """
        for x, y in source.epoch(order):
            if isinstance(source, LoaderData):
                y = state.likelihood.check_targets(y, self.output_shape(state, x))
            yield x, y

    def end_epoch(self, state: S) -> EpochRecord:
        """Finish an epoch of ``fit`` and return metrics for its record."""
        return {}

    def end_fit(self, state: S, source: ArrayData | LoaderData) -> EpochRecord:
        """Finish a fit, given its rows, and return metrics for the last record.

        It computes quantities at the final weights, such as a curvature.  A checkpoint is written
        before this call, and a resumed fit repeats it, so the result may depend only on the state
        and the rows.  A replay memory calls it after every pass.

        Args:
            state: the state to change.
            source: the rows of the fit.
        """
        return {}

    def update_noise_from_statistics(self, state: S) -> None:
        """Set an inferred noise from the statistics collected since the last call.

        It is called where training has no epochs, such as training from a replay memory.
        """

    def step_schedule(self, state: S) -> None:
        """Step the learning-rate schedule, if there is one; ``end_epoch`` calls it."""

    def rescale_noise(self, state: S, scale: float) -> None:
        """Multiply the noise variance by ``scale``."""
        state.likelihood.rescale(scale)

    def held_out_scale(self, state: S, held_out: list[HeldOut]) -> float:
        """Return the factor on the noise variance that maximizes the held-out likelihood.

        Args:
            state: the state.
            held_out: predictions of each fit for rows that it was not trained on.
        """
        return state.likelihood.held_out_scale(held_out)

    def held_out_log_prob(
        self, likelihood: Likelihood, y: Tensor, mean: Tensor, variance: Tensor
    ) -> Tensor:
        """Return the log density of each held-out row, to compare fits."""
        return likelihood.held_out_log_prob(y, mean, variance)

    def warn_about_scale(self, source: ArrayData | LoaderData) -> None:
        """Warn before a fit if the data have an unsuitable scale.

        Args:
            source: the rows of the fit.
        """

    def predictive_likelihood(self, state: S) -> Likelihood:
        """Return the likelihood with the noise that predictions have."""
        return state.likelihood

    def prune(self, state: S, fraction: float, per_layer: bool) -> None:
        """Set the least certain weights permanently to zero, with zero variance.

        Args:
            state: the state to change.
            fraction: share of the weights to prune, from 0 to 1.
            per_layer: whether to prune this share of every parameter tensor instead of all weights
                together.
        """
        raise TypeError(f"{type(self).__name__} does not support prune()")

    def output_shape(self, state: S, x: Inputs) -> torch.Size:
        """Return the shape of the network's output for these rows."""
        return self.outputs(state, x).moments()[0].shape

    def scoring_options(self) -> dict[str, Any]:
        """Return the options of ``outputs`` for the validation rows of every epoch."""
        return {}

    @classmethod
    def check_file(cls, options: dict[str, Any], net: nn.Module, tensors: TensorDict) -> None:
        """Raise an error for options in a file that would need more memory than the file
        justifies.

        Args:
            options: options in the file.
            net: the network.
            tensors: tensors in the file.
        """
        for name in ("n_weight_samples", "n_train_samples"):
            if name in options:
                validation.require_at_most(options[name], MAX_WEIGHT_SAMPLES, name)

    def training(self, state: S) -> tuple[TensorDict, Any]:
        """Return further tensors and JSON values that are needed to resume training bit for bit."""
        return {}, None

    def restore_training(self, state: S, tensors: TensorDict, values: Any) -> None:
        """Copy the result of ``training`` into a state."""
        if tensors or values is not None:
            raise TypeError(
                f"{type(self).__name__} has no training state, but the file contains one: it is "
                f"damaged"
            )
