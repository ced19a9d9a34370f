"""What all learners share: the training loop, predicting, saving and loading.

A learner supplies how one batch changes it (``_learn``), what it predicts (``_outputs`` and
``_predictive``) and its state as named tensors.  Everything else is written here, once.
"""

from __future__ import annotations

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from tractable.gaussian import Gaussian
from tractable.learners import saving
from tractable.learners.arrays import Format, InvalidInput, Loader, Rows
from tractable.learners.callbacks import Callback, Record
from tractable.learners.held_out import held_out, tenths
from tractable.learners.progress import Progress
from tractable.learners.storage import InvalidModelFile
from tractable.learners.swap import Swap
from tractable.likelihoods import Likelihood
from tractable.predictive import Predictive


class NotFitted(RuntimeError):
    """Something was asked of a learner that has seen no data."""


@dataclass(frozen=True)
class Moment:
    """Where in the training a batch stands."""

    share: float
    """Rows of the batch over rows of an epoch."""
    progress: float
    """Epochs done over epochs to do."""
    batch: int
    """Number of the batch in its epoch, from 0."""
    batches: int
    """Number of batches in an epoch."""


def usual_epochs(rows: int) -> int:
    """Passes over so many rows by default: 25,000 rows in all, at least 40 and at most 100."""
    return min(max(25_000 // rows, 40), 100)


class Learner(ABC):
    """A network and a likelihood, and a way to learn the first under the second.

    Attributes:
        net: a private copy of the network; its own parameters are not used.
        likelihood: a private copy of the likelihood.
        history: one record per epoch of every ``fit``.
        fitted: whether any data were seen.
    """

    parallel: bool = False
    """Whether learning runs beside other threads (see ``tractable.learners.many``)."""

    _kinds: ClassVar[dict[str, type[Learner]]] = {}

    posterior: Any  # a Posterior; a property in some learners

    def __init_subclass__(cls) -> None:
        """Make the learner known to ``load``."""
        super().__init_subclass__()
        Learner._kinds[cls.__name__] = cls

    def __init__(
        self,
        net: nn.Module,
        likelihood: Likelihood,
        *,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
        seed: int,
    ) -> None:
        if not isinstance(net, nn.Module):
            raise TypeError(f"net must be a torch.nn.Module, got {type(net).__name__}")
        if not isinstance(likelihood, Likelihood):
            raise TypeError(
                f"likelihood must be one of tractable.likelihoods, got {type(likelihood).__name__}"
            )
        self.dtype = torch.get_default_dtype() if dtype is None else dtype
        if self.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"dtype must be torch.float32 or torch.float64, got {self.dtype}")
        self.device = torch.device("cpu" if device is None else device)
        self.net = copy.deepcopy(net).to(self.device, self.dtype)
        self.likelihood = copy.deepcopy(likelihood).to(self.device)
        self.format = Format.of(self.net, self.dtype, self.device)
        self.generator = torch.Generator().manual_seed(seed)
        self.history: list[Record] = []
        self.fitted = False
        self._flat_targets: bool | None = None
        self._epoch = 0  # epochs done of the fit under way, or of the last one
        self._scale: float | None = None  # held-out scale of the noise, once known
        self._plan: dict[str, int] | None = None  # of the fit under way, or of the last one
        self._shapes: dict[tuple[int, ...], torch.Size] = {}
        self._swap = Swap(self.net)

    # --- what a learner supplies ---------------------------------------------------------

    @abstractmethod
    def _learn(self, x: Tensor, y: Tensor, moment: Moment | None) -> None:
        """Learn from one batch of checked rows, or raise and change nothing.

        ``moment`` is None for an online update.
        """

    @abstractmethod
    def _outputs(self, x: Tensor) -> tuple[Tensor, ...]:
        """What is needed to predict the given rows, each tensor with one row per input."""

    @abstractmethod
    def _predictive(self, outputs: tuple[Tensor, ...]) -> Predictive:
        """The predictive of outputs that were gathered over batches."""

    @abstractmethod
    def _moments(self, outputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Mean and variance of the network's output, as a likelihood takes them."""

    @abstractmethod
    def _tensors(self) -> dict[str, Tensor]:
        """The learnt state, by name."""

    @abstractmethod
    def _restore(self, tensors: dict[str, Tensor]) -> None:
        """Take over a state that ``_tensors`` gave."""

    @abstractmethod
    def _options(self) -> dict[str, Any]:
        """The constructor's own arguments, as JSON values."""

    # --- what a learner may add ----------------------------------------------------------

    def _prune(self, kept: Tensor) -> None:
        """Set all entries that are not kept to zero, without variance."""
        raise TypeError(f"{type(self).__name__} cannot be pruned")

    def _input_gradient(self, x: Tensor, y: Tensor, **options: Any) -> Tensor:
        """Derivative in ``x`` of each row's log predictive density of ``y``."""
        raise TypeError(f"{type(self).__name__} does not give gradients in its inputs")

    def _epoch_figures(self) -> Record:
        """Called at the end of every epoch: figures for its record."""
        return {}

    def _probe(self, x: Tensor) -> torch.Size:
        """Shape of the network's output for these rows."""
        return self._outputs(x)[0].shape

    def _training_state(self) -> tuple[dict[str, Tensor], Any]:
        """What more is needed to go on training bit for bit: named tensors and JSON values."""
        return {}, None

    def _restore_training(self, tensors: dict[str, Tensor], values: Any) -> None:
        """Take over what ``_training_state`` gave."""
        if tensors or values is not None:
            raise TypeError(f"{type(self).__name__} has no training state to take over")

    def _call(self, tensors: dict[str, Tensor], x: Tensor) -> Any:
        """The network's output with these parameters and buffers."""
        if self._swap.net is not self.net:  # a twin has a network of its own
            self._swap = Swap(self.net)
        return self._swap(tensors, x)

    # --- learning ------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        epochs: int | None = None,
        batch_size: int | None = None,
        validation: tuple[Any, Any] | None = None,
        shuffle: bool = True,
        calibrate: bool = False,
        callbacks: Iterable[Callback] = (),
        progress: bool | None = None,
        resume: str | Path | None = None,
    ) -> Self:
        """Learn from data, in several passes.

        Args:
            X: inputs (array, tensor or ``Gaussian``, one row per observation), or a
                ``DataLoader`` of pairs.
            y: targets, one row per observation (a ``Gaussian`` where they have error bars of
                their own); nothing with a ``DataLoader``.
            epochs: passes over the data; by default enough for about 25,000 rows, at least 40
                and at most 100.
            batch_size: rows per update; by default about a hundred updates an epoch, at most
                32 rows each.
            validation: inputs and targets whose negative log-likelihood is recorded per epoch.
            shuffle: draw a new order of the rows for every epoch.
            calibrate: fit the scale of the noise on rows held out from copies of this learner
                (five tenths in turn below 2,000 rows, one tenth above), which costs those
                extra fits.
            callbacks: called after each epoch; see ``tractable.learners.callbacks``.
            progress: show a progress bar; by default on a terminal only.
            resume: a checkpoint to go on from, if the file exists; data and arguments must be
                those of the run that wrote it.

        Returns:
            The learner itself.
        """
        source = self._source(X, y, batch_size)
        if epochs is None:
            epochs = usual_epochs(len(source))
        if epochs < 1:
            raise ValueError(f"epochs must be at least 1, got {epochs}")
        scored = None if validation is None else self._checked(*validation)
        plan = {"epochs": epochs, "rows": len(source), "batches": source.batches}
        self._epoch, self._scale = 0, None
        first_record = len(self.history)
        if resume is not None and Path(resume).is_file():
            first_record = saving.resume(self, resume, plan)
        self._plan = {**plan, "first_record": first_record}
        if calibrate and self._scale is None:
            if isinstance(source, Loader):
                raise ValueError("calibrate needs arrays, not a DataLoader")
            self._scale = self._held_out_scale(source, epochs, shuffle, progress)
        total = (epochs - self._epoch) * source.batches
        with Progress(total, type(self).__name__, progress) as bar:
            while self._epoch < epochs:
                record = self._run_epoch(source, epochs, shuffle, bar)
                if scored is not None:
                    record |= self._score(*scored)
                bar.report(record)
                # A list, so that every callback runs even when one asks to stop.
                if any(callback(self, record) for callback in callbacks):
                    break
        if self._scale is not None:
            self.likelihood.rescale(self._scale)
        return self

    def update(self, x: Any, y: Any) -> Self:
        """Learn from one more observation, or one more batch, online.

        A single observation may come without the batch dimension: a scalar target, or an input
        vector.
        """
        rows = self.format.inputs(x if isinstance(x, Gaussian) else torch.as_tensor(x))
        seen = y if isinstance(y, Gaussian) else torch.as_tensor(y)
        if seen.ndim == 0 or rows.ndim == 1:
            rows, seen = rows.unsqueeze(0), seen.reshape(1, -1) if seen.ndim else seen.unsqueeze(0)
        inputs, targets = self._checked(rows, seen)
        self._learn(inputs, targets, None)
        self.fitted = True
        return self

    def _run_epoch(
        self, source: Rows | Loader, epochs: int, shuffle: bool, bar: Progress
    ) -> Record:
        started = time.perf_counter()
        order = None
        if shuffle and isinstance(source, Rows):
            order = torch.randperm(len(source), generator=self.generator).to(self.device)
        self._learn_epoch(source, order, self._epoch / epochs, bar)
        self._epoch += 1
        record: Record = {
            "epoch": float(self._epoch),
            "seconds": time.perf_counter() - started,
            **self._epoch_figures(),
        }
        self.history.append(record)
        return record

    def _learn_epoch(
        self, source: Rows | Loader, order: Tensor | None, progress: float, bar: Progress
    ) -> None:
        """Learn every row once; ``progress`` is epochs done over epochs to do."""
        for batch, (x, y) in enumerate(source.epoch(order)):
            if isinstance(source, Loader):
                y = self.likelihood.targets(y, self._output_shape(x))
            self._learn(x, y, Moment(x.shape[0] / len(source), progress, batch, source.batches))
            self.fitted = True
            bar.advance()

    def _score(self, x: Tensor, y: Tensor) -> Record:
        log_prob = self._predictive(self._all_outputs(x, 1024)).log_prob(y)
        return {"validation_nll": -float(log_prob.mean())}

    def _held_out_scale(
        self, source: Rows, epochs: int, shuffle: bool, progress: bool | None
    ) -> float:
        rows = len(source)
        if rows < 20:
            raise ValueError(f"calibrate needs at least 20 rows, got {rows}")
        options = {"epochs": epochs, "shuffle": shuffle, "progress": progress}
        seen = held_out(
            self, source.x, source.y, tenths(self, rows), batch_size=source.batch_size, **options
        )
        return self.likelihood.held_out_scale(seen)

    def _twin(self, seed: int) -> Self:
        """An independent learner in the same state."""
        twin = copy.copy(self)
        twin.net = copy.deepcopy(self.net)
        twin.likelihood = copy.deepcopy(self.likelihood)
        twin.generator = torch.Generator().manual_seed(self.generator.initial_seed() + 1 + seed)
        twin.history = []
        twin._restore({name: tensor.clone() for name, tensor in self._tensors().items()})
        return twin

    def prune(self, fraction: float, *, per_layer: bool = False) -> Self:
        """Set the least certain weights to exactly zero with zero variance, for good.

        Args:
            fraction: share of the weights to prune, those of lowest signal-to-noise ratio (of
                smallest size, for a point estimate).
            per_layer: prune this share of every parameter, rather than of all together.
        """
        self._prune(self.posterior.kept(fraction, per_layer=per_layer))
        return self

    # --- predicting ----------------------------------------------------------------------

    def predict(self, X: Any, *, batch_size: int = 1024) -> Predictive:
        """The distribution of the target at each row of ``X``."""
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        x = self.format.inputs(X)
        self._output_shape(x)
        predictive = self._predictive(self._all_outputs(x, batch_size))
        return predictive.flat() if self._flat_targets in (None, True) else predictive

    def _all_outputs(self, x: Tensor, batch_size: int) -> tuple[Tensor, ...]:
        parts = [self._outputs(x[i : i + batch_size]) for i in range(0, len(x), batch_size)]
        if len(parts) == 1:
            return parts[0]
        return tuple(torch.cat(tensors) for tensors in zip(*parts, strict=True))

    # --- checking ------------------------------------------------------------------------

    def _source(self, X: Any, y: Any, batch_size: int | None) -> Rows | Loader:
        if isinstance(X, DataLoader):
            if y is not None or batch_size is not None:
                raise ValueError("a DataLoader brings its own targets and batches")
            return Loader(X, self.format)
        if y is None:
            raise ValueError("fit needs targets: fit(X, y)")
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        x, targets = self._checked(X, y)
        if batch_size is None:
            batch_size = min(max(x.shape[0] // 100, 1), 32)
        return Rows(x, targets, batch_size)

    def _checked(self, X: Any, y: Any) -> tuple[Tensor, Tensor]:
        """Inputs the network takes and targets the likelihood may have produced."""
        x, targets = self.format.inputs(X), self.format.targets(y)
        if targets.shape[:1] != x.shape[:1]:
            raise InvalidInput(
                f"inputs have {x.shape[0]} rows and targets "
                f"{targets.shape[0] if targets.ndim else 'none'}"
            )
        outputs = self._output_shape(x)
        checked = self.likelihood.targets(targets, outputs)
        if self._flat_targets is None:
            self._flat_targets = targets.ndim == 1
        return x, checked

    def _output_shape(self, x: Tensor) -> torch.Size:
        """Shape of the network's output for these rows; says so if it cannot take them."""
        event = tuple(x.shape[1:])
        if event not in self._shapes:
            try:
                shape = self._probe(x[:1])
            except (RuntimeError, IndexError) as error:
                raise InvalidInput(
                    f"the network cannot take inputs of shape {tuple(x.shape)}: {error}"
                ) from error
            self._shapes[event] = shape[1:]
        return torch.Size([x.shape[0], *self._shapes[event]])

    # --- saving --------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the learner to one file, atomically; ``load`` reads it."""
        saving.save(self, path)

    @classmethod
    def load(
        cls,
        path: str | Path,
        net: nn.Module | None = None,
        likelihood: Likelihood | None = None,
        *,
        device: torch.device | str | None = None,
        **options: Any,
    ) -> Self:
        """Read a learner that ``save`` wrote.

        Args:
            path: the file.
            net: a network of the same architecture; needed unless it was built from plain
                ``torch.nn`` layers in ``nn.Sequential``.
            likelihood: needed when the likelihood is a class of the user's own.
            device: where to put it.
            options: arguments of the constructor that a file cannot hold (functions, or a prior
                of the user's own); they also replace those in the file.
        """
        learner = saving.load(cls._kinds, path, net, likelihood, device=device, **options)
        if not isinstance(learner, cls):
            raise InvalidModelFile(
                f"{path} holds a {type(learner).__name__!r} learner, not a {cls.__name__}"
            )
        return learner
