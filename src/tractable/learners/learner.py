"""``Learner``: fits, updates, predicts, saves and loads, for every method.

The learning algorithm is a ``Method`` (``tractable.learners.methods.base``), and the learned
quantities are its ``State``.  This class contains the rest: the training loop, callbacks, locking
and copies.  Inputs are checked by ``learner.checks``, files are in
``tractable.learners.serialization``, and ``learner.off_data`` widens predictions away from the
training rows.
"""

from __future__ import annotations

import copy
import inspect
import json
import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import torch
from torch import Tensor, nn

from tractable.errors import InvalidModelFile
from tractable.keywords import explain_keywords
from tractable.learners import serialization
from tractable.learners.fit_loop import FitRun
from tractable.learners.input_checks import InputChecks
from tractable.learners.methods.base import BatchPosition, Method, NoOptions, OnBatch, State
from tractable.learners.methods.options import make_options, signature_with_options
from tractable.learners.network.functional import Network
from tractable.learners.network.locks import new_lock
from tractable.learners.network.module_copy import detached_copy
from tractable.learners.off_data.widening import OffData
from tractable.learners.outputs import Outputs
from tractable.likelihoods import Likelihood
from tractable.posterior import Posterior
from tractable.predictive import Predictive
from tractable.training import holdout
from tractable.training.callbacks import Callback, EpochRecord, run_callbacks, stops_on_history
from tractable.training.data import ArrayData, LoaderData, TensorFormat, as_inputs, as_tensor
from tractable.training.inputs import Inputs, map_inputs, single_input
from tractable.training.progress import Progress

T = TypeVar("T")


class Learner:
    """A network and a likelihood, with a method to train the network.

    Use a subclass that names its method, such as ``TAGI``.  A learner may be used by several
    threads: a lock lets one thread at a time read or change its state.

    Args:
        net: a module that the method supports. The learner works on a copy.
        likelihood: observation model. The learner works on a copy.
        device: device of the computation. Default: CPU.
        dtype: ``torch.float32`` or ``torch.float64``. Default: torch's default dtype.
        seed: seed of the random generator for initial weights, the order of rows and samples.
        options: options of the method.

    Attributes:
        method: the method with its options; immutable.
        state: everything that training changes.
        history: one record per epoch of every ``fit``, with training metrics.
        fitted: whether the learner was trained on any data.
        run: progress of the last ``fit``, from which it can be resumed.
        checks: checks of inputs and targets.
        off_data: training rows that are kept, to widen predictions away from them.
        lock: held while the state is read or changed.
    """

    method: Any
    state: Any
    history: list[EpochRecord]
    fitted: bool
    run: FitRun
    checks: InputChecks
    off_data: OffData
    lock: threading.RLock

    method_class: ClassVar[type[Method[Any]]]
    """The class of the method, set by a subclass."""

    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Register the class for ``load``, and show the options of its method in its signature."""
        super().__init_subclass__(**arguments)
        if "__init__" in vars(cls):
            cls.__init__ = explain_keywords(cls.__init__)  # type: ignore[method-assign]
        serialization.register(cls)
        own = "__init__" in vars(cls) or not hasattr(cls, "method_class")
        options = NoOptions if own else cls.method_class.options_class
        cls.__signature__ = signature_with_options(cls.__init__, options)

    def __init__(
        self,
        net: nn.Module,
        likelihood: Likelihood,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        if not isinstance(net, nn.Module):
            raise TypeError(f"net must be a torch.nn.Module, got {type(net).__name__}")
        if not isinstance(likelihood, Likelihood):
            raise TypeError(
                f"likelihood must be one of tractable.likelihoods, got {type(likelihood).__name__}"
            )
        dtype = torch.get_default_dtype() if dtype is None else dtype
        if dtype not in (torch.float32, torch.float64):
            raise TypeError(f"dtype must be torch.float32 or torch.float64, got {dtype}")
        target = torch.device("cpu" if device is None else device)
        network = Network(net, dtype, target)
        chosen = make_options(type(self), self.method_class.options_class, options)
        method = self.method_class(network, copy.deepcopy(likelihood), chosen)
        state = method.init(copy.deepcopy(likelihood).to(target), seed)
        _set_up(self, method, state, TensorFormat.of(network.module, dtype, target))

    def __repr__(self) -> str:
        """Return the class, the network, the likelihood, and what it was trained on."""
        network, run = self.method.network, self.run
        if run.epoch:
            status = f"fitted to {run.rows} rows, {run.epoch} epochs"
        else:
            status = "updated online" if self.fitted else "not fitted"
        net = f"{type(self.net).__name__} with {network.size} parameters"
        return f"{type(self).__name__}({net}, {self.likelihood!r}, {status})"

    # --- properties ------------------------------------------------------------------------

    @property
    def net(self) -> nn.Module:
        """The learner's copy of the network; its own parameters are not trained."""
        return self.method.network.module

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of parameters and outputs."""
        return self.method.network.dtype

    @property
    def device(self) -> torch.device:
        """Device of parameters and computations."""
        return self.method.network.device

    @property
    def seed(self) -> int:
        """Seed of the random generator."""
        return int(self.state.seed)

    @property
    def likelihood(self) -> Likelihood:
        """The learner's copy of the likelihood, with the inferred noise."""
        return self.method.predictive_likelihood(self.state)

    @property
    def posterior(self) -> Posterior:
        """Independent Gaussian distributions over the parameters."""
        return self.method.posterior(self.state)

    def mean_module(self) -> nn.Module:
        """Return the network at the means of its weights as an ordinary module, in eval mode.

        It is an independent copy of ``net`` with the posterior means as parameters and the
        learner's buffers, such as the running statistics of batch normalization.
        """
        network = self.method.network
        with (
            self.lock,
            network.lock,
        ):  # another thread may have replaced its parameters by Gaussians
            module = detached_copy(network.module)
            named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
            with torch.no_grad():
                for name, tensor in {**self.posterior.means(), **self.state.buffers}.items():
                    named[name].copy_(tensor)
        return module.eval()

    # --- learning --------------------------------------------------------------------------

    @explain_keywords
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
        distance_aware: bool = True,
    ) -> Self:
        """Train on data in several epochs and return the learner.

        Args:
            X: inputs, one row per observation: an array, a tensor, a data frame of numbers or a
                ``Gaussian``; for a network of several inputs a tuple of them, or a mapping by the
                argument names of ``forward``; or a ``DataLoader`` of pairs.
            y: targets, one row per observation; a ``Gaussian`` for targets with known error
                bars. None with a ``DataLoader``.
            epochs: number of passes over the data. Default: chosen so that about 25,000 rows are
                processed, between 40 and 100.
            batch_size: rows per update. Default: about a hundred updates per epoch, at most 32
                rows.
            validation: pair ``(X, y)``. Its negative log-likelihood is recorded in every epoch.
            shuffle: draw a new order of the rows for every epoch. Without effect for a network
                that needs all rows of a batch together, where the order may have a meaning.
            calibrate: scale the noise variance to held-out rows, by fits of copies of this
                learner (five folds of ten below 2,000 rows, else one).
            callbacks: called as ``callback(learner, record)`` after each epoch; one that returns
                True stops the training.
            progress: show a progress bar. Default: on a terminal only.
            resume: checkpoint to resume from, if the file exists. Data and arguments must be those
                of the run that wrote it.
            distance_aware: keep a random subset of the training rows (at most 1,000, which a saved
                file then contains), so that predictions have a ``novelty`` and error bars grow
                with the distance to the training data; see ``tractable.learners.off_data.support``.
                Without effect for integer inputs, several inputs, and networks that need all rows
                of a batch together.
        """
        source = self.checks.batches(X, y, batch_size, watch=distance_aware)
        if epochs is None:
            epochs = holdout.default_epochs(len(source))
        if epochs < 1:
            raise ValueError(f"epochs must be at least 1, got {epochs}")
        scored = None if validation is None else self.checks.data(*validation)
        if calibrate:
            self.checks.calibration(source)
        self.method.warn_about_scale(source)
        run = FitRun.planned(epochs, source, len(self.history), fingerprint=resume is not None)
        if resume is not None and Path(resume).is_file():
            run = serialization.resume(self, resume, run)
        self.run, hooks = run, list(callbacks)
        if run.finished:
            return self
        if calibrate and run.scale is None:
            assert isinstance(source, ArrayData)
            run.scale = holdout.cross_validated_noise_scale(
                self, source, epochs=epochs, shuffle=shuffle, progress=progress
            )
        self._run_epochs(source, shuffle, scored, hooks, progress)
        with self.lock:
            self.history[-1] |= self.method.end_fit(self.state, source)
        if run.scale is not None:
            self.rescale_noise(run.scale)
        if distance_aware:
            self.off_data.fit(source)
        else:
            self.off_data.support = None
        run.finished = True
        return self

    def _run_epochs(
        self,
        source: ArrayData | LoaderData,
        shuffle: bool,
        scored: tuple[Inputs, Tensor] | None,
        hooks: list[Callback],
        progress: bool | None,
    ) -> None:
        """Run the remaining epochs, or until a callback stops the training."""
        run = self.run
        if run.epoch:
            run.stopped = run.stopped or stops_on_history(hooks, self.history)
        total = (run.epochs - run.epoch) * source.batches
        with Progress(total, type(self).__name__, progress) as bar:
            while run.epoch < run.epochs and not run.stopped:
                record = self._run_epoch(source, shuffle, bar)
                if scored is not None:
                    record |= self._score(*scored)
                bar.report(record)
                run.stopped = run_callbacks(hooks, self, record)

    @explain_keywords
    def update(self, x: Any, y: Any, *, memory_rows: float | None = None) -> Self:
        """Learn online from one more observation or batch and return the learner.

        A single observation may be passed without the batch dimension: a scalar target, or an
        input vector (with several inputs only with a scalar target).

        Args:
            x: inputs.
            y: targets.
            memory_rows: effective number of most recent rows to remember, for data that change;
                it applies to the weights and to an inferred noise. Default: all. Only ``TAGI`` and
                ensembles of it support it.
        """
        if memory_rows is not None and not (math.isfinite(memory_rows) and memory_rows > 1):
            raise ValueError(
                f"memory_rows must be a number of rows above 1, or None; got {memory_rows!r}"
            )
        rows, targets = as_inputs(x), as_tensor(y, "targets")
        if targets.ndim == 0 or (isinstance(rows, Tensor) and rows.ndim == 1):
            rows = map_inputs(lambda part: part.unsqueeze(0), rows)
            targets = targets.reshape(1, -1) if targets.ndim else targets.unsqueeze(0)
        rows, targets = self.checks.data(rows, targets)
        self.learn_batch(rows, targets, memory_rows=memory_rows)
        self.off_data.remember(rows)
        return self

    def learn_batch(
        self,
        x: Inputs,
        y: Tensor,
        position: BatchPosition | None = None,
        *,
        memory_rows: float | None = None,
    ) -> None:
        """Learn from a batch without checking it, for loops over rows from ``checks.data``.

        Args:
            x: checked inputs.
            y: checked targets.
            position: position of the batch within a fit. Default: None, an online update.
            memory_rows: see ``update``.
        """
        with self.lock:
            if memory_rows is None:
                self.method.update(self.state, x, y, position)
            else:
                self.method.update_within(self.state, x, y, memory_rows)
            self.fitted = True

    def rescale_noise(self, scale: float) -> None:
        """Multiply the noise variance by ``scale``."""
        with self.lock:
            self.method.rescale_noise(self.state, scale)

    def prune(self, fraction: float, *, per_layer: bool = False) -> Self:
        """Set the least certain weights permanently to zero, with zero variance.

        Args:
            fraction: share of the weights to prune, from 0 to 1: those with the lowest
                signal-to-noise ratio, or the smallest ones of a point estimate.
            per_layer: prune this share of every parameter tensor instead of all weights together.
        """
        with self.lock:
            self.method.prune(self.state, fraction, per_layer)
        return self

    def _run_epoch(
        self, source: ArrayData | LoaderData, shuffle: bool, bar: Progress
    ) -> EpochRecord:
        started, run, n_done = time.perf_counter(), self.run, 0

        def on_batch(batches: int) -> None:
            nonlocal n_done
            n_done += batches
            bar.advance(batches)

        with self.lock:
            generator = self.state.generator
            before, order = generator.get_state(), None
            if shuffle and self.checks.rows_apart and isinstance(source, ArrayData):
                order = torch.randperm(len(source), generator=generator).to(self.device)
            try:
                run_epoch(self.method, self.state, source, order, run.epoch / run.epochs, on_batch)
            except BaseException:
                if not n_done:  # an epoch without a finished batch leaves the learner unchanged
                    generator.set_state(before)
                raise
            finally:
                self.fitted = self.fitted or n_done > 0
            run.epoch += 1
            record: EpochRecord = {
                "epoch": float(run.epoch),
                "seconds": time.perf_counter() - started,
                **self.method.end_epoch(self.state),
            }
            self.history.append(record)
        return record

    def _score(self, x: Inputs, y: Tensor) -> EpochRecord:
        log_prob = self._outputs(x, **self.method.scoring_options()).predictive().log_prob(y)
        return {"validation_nll": -float(log_prob.mean())}

    # --- predicting ------------------------------------------------------------------------

    @explain_keywords
    def predict(self, X: Any, *, batch_size: int = 1024, **options: Any) -> Predictive:
        """Return the predictive distribution of the target at each row of ``X``.

        After ``fit(distance_aware=True)`` it has a ``novelty``, the distance of each row to the
        training rows.  Where it is positive, intervals are wider, and class probabilities are
        closer to uniform if the inputs have few columns.

        Args:
            X: inputs.
            batch_size: number of rows that are computed at once.
            options: options of the method, such as ``n_weight_samples=`` for methods that sample
                weights.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        x = self.checks.inputs(X)
        outputs = self._outputs(x, batch_size=batch_size, **options)
        predictive = self.off_data.predictive(outputs, x)
        flat = self.checks.flat_targets in (None, True)
        return predictive.squeezed() if flat else predictive

    def outputs(self, X: Any, *, batch_size: int | None = 1024, **options: Any) -> Outputs:
        """Return the distribution of the network's outputs at each row, without noise.

        Args:
            X: inputs.
            batch_size: number of rows that are computed at once; None for all.
            options: options of the method, such as ``n_weight_samples=``.
        """
        return self._for_inputs(X, lambda x: self._outputs(x, batch_size=batch_size, **options))

    def _for_inputs(self, X: Any, function: Callable[[Inputs], T]) -> T:
        """Call a function with inputs, without an additional forward pass to check them.

        A forward pass may have effects, such as filling a cache of keys and values.  Only if the
        function fails are the inputs checked by one, to explain the error.
        """
        try:
            return function(self.checks.tensors(X))
        except (RuntimeError, IndexError):
            return function(self.checks.inputs(X))

    def _outputs(self, x: Inputs, *, batch_size: int | None = 1024, **options: Any) -> Outputs:
        with self.lock:
            outputs: Outputs = self.method.outputs(self.state, x, batch_size=batch_size, **options)
            return outputs

    def sample(
        self, X: Any, n_samples: int = 1, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return outputs of functions sampled from the posterior, without noise.

        All rows of a sample share the same weights.

        Args:
            X: inputs.
            n_samples: number of functions.
            generator: random generator. Default: torch's global generator.

        Returns:
            ``[n_samples, rows, outputs]``.
        """
        source = torch.default_generator if generator is None else generator

        def sample(x: Inputs) -> Tensor:
            with self.lock:
                samples: Tensor = self.method.sample(self.state, x, n_samples, source)
                return samples

        return self._for_inputs(X, sample)

    def log_prob_gradient(self, X: Any, y: Any, **options: Any) -> Tensor:
        """Return the derivative of each row's log predictive density with respect to its inputs.

        Exact: the gradient learners and ``Laplace``.  Approximate: ``TAGI``, which returns the
        message of the likelihood's evidence to the mean of the input.  That is the derivative
        through the means of all units with their variances held fixed: it omits the effect of the
        input on the variances, and so on the width of the prediction.  It uses the likelihood of
        training, without a factor from calibration.

        Args:
            X: inputs.
            y: targets.
            options: options of the method.
        """
        x, targets = self.checks.data(X, y)
        at = single_input(x, "a derivative with respect to the input")
        with self.lock:
            gradient: Tensor = self.method.log_prob_gradient(self.state, at, targets, **options)
            return gradient

    # --- copies and files ------------------------------------------------------------------

    def clone(self, seed_offset: int = 0) -> Self:
        """Return an independent learner in the same state, with an empty history.

        Args:
            seed_offset: 0 to continue with the same random numbers; otherwise they come from a
                new generator, seeded with this learner's seed plus the offset.
        """
        clone = copy.deepcopy(self)
        clone.history, clone.run = [], FitRun()
        if seed_offset:
            seed = self.state.generator.initial_seed() + seed_offset
            clone.state.generator = torch.Generator().manual_seed(seed)
        return clone

    def to(self, device: torch.device | str) -> Self:
        """Move network and state to a device and return the learner."""
        with self.lock:
            tensors, values = serialization.packed_state(self)
            tensors = {name: tensor.clone() for name, tensor in tensors.items()}
            old, target, support = self.state, torch.device(device), self.off_data.support
            network = Network(self.net, self.dtype, target)
            self.method = self.method.on_network(network)
            self.state = self.method.init(copy.deepcopy(old.likelihood).to(target), old.seed)
            serialization.restore_state(self, tensors, values)
            self.checks.format = replace(self.checks.format, device=target)
            self.off_data.support = None if support is None else support.to(target)
        return self

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that training changes as named tensors, not copied.

        ``"_extra_state"`` holds numbers that are not tensors, as bytes of a JSON text.
        """
        with self.lock:
            tensors, header = serialization.parts(self)
            extra = json.dumps(header["training"]).encode()
            return {
                **tensors,
                "_extra_state": torch.frombuffer(bytearray(extra), dtype=torch.uint8),
            }

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """Load a state that ``state_dict`` of a learner with the same options returned.

        Raises:
            InvalidModelFile: names, shapes or values are not those of such a learner. The learner
                is unchanged.
        """
        serialization.load_state_dict(self, state_dict)

    def save(self, path: str | Path) -> None:
        """Write the learner to a file, atomically; ``load`` reads it."""
        serialization.write(path, serialization.pack(self))

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
        """Return the learner that ``save`` wrote to a file; no code from the file is executed.

        Args:
            path: the file.
            net: a network of the same architecture. Not needed if the network consists of plain
                ``torch.nn`` layers in ``nn.Sequential``.
            likelihood: needed if the likelihood is a class of the user.
            device: device of the computation. Default: CPU.
            options: arguments of the constructor that a file cannot contain (functions, or a prior
                of the user). They replace those in the file.

        Raises:
            InvalidModelFile: the file is damaged, of another format, or contains another class of
                learner.
        """
        learner = serialization.load(path, net, likelihood, device=device, **options)
        if not isinstance(learner, cls):
            raise InvalidModelFile(
                f"{path} holds a {type(learner).__name__!r} learner, not a {cls.__name__}"
            )
        return learner

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for copies and pickles: packed state, no lock."""
        with self.lock:
            attributes = {name: value for name, value in vars(self).items() if name != "lock"}
            likelihood = copy.deepcopy(self.state.likelihood)
            packed = (likelihood, self.seed, *serialization.packed_state(self))
            return {**attributes, "state": packed}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        """Restore the result of ``__getstate__``."""
        likelihood, seed, *packed = attributes.pop("state")
        vars(self).update(attributes)
        self.lock = new_lock(self)
        self.state = self.method.init(likelihood, seed)
        serialization.restore_state(self, *packed)


L = TypeVar("L", bound=Learner)


def _set_up(learner: Learner, method: Method[Any], state: State, format: TensorFormat) -> None:
    learner.method, learner.state = method, state
    learner.history, learner.fitted, learner.run = [], False, FitRun()
    learner.checks, learner.off_data = InputChecks(learner, format), OffData(learner)
    learner.lock = new_lock(learner)


def learner_of_state(kind: type[L], method: Method[Any], state: State, of: Learner) -> L:
    """Return a learner whose state is part of another learner's, such as a member of an ensemble.

    Args:
        kind: class of the learner.
        method: its method.
        state: its state, not copied.
        of: the other learner; both share its lock.
    """
    learner = kind.__new__(kind)
    _set_up(learner, method, state, of.checks.format)
    learner.fitted, learner.lock = of.fitted, of.lock
    learner.checks.flat_targets = of.checks.flat_targets
    return learner


def reinitialized(learner: L, seed: int) -> L:
    """Return an untrained copy with weights initialized from ``seed``.

    It shares the network and the options, which is faster than to construct a learner.
    """
    likelihood = copy.deepcopy(learner.method.likelihood).to(learner.device)
    untrained = type(learner).__new__(type(learner))
    state = learner.method.init(likelihood, seed)
    _set_up(untrained, learner.method, state, learner.checks.format)
    return untrained


# --- one epoch -------------------------------------------------------------------------------


def run_epoch(
    method: Method[Any],
    state: State,
    source: ArrayData | LoaderData,
    order: Tensor | None,
    progress: float,
    on_batch: OnBatch,
) -> None:
    """Learn from every row once: in one call of the method if supported, otherwise in batches."""
    if method.learn_epoch(state, source, order, progress, on_batch):
        return
    for batch, (x, y) in enumerate(method.batches_of(state, source, order)):
        position = BatchPosition(len(x) / len(source), progress, batch, source.batches)
        method.update(state, x, y, position)
        on_batch(1)
