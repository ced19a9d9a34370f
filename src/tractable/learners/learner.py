"""The learner: one object that fits, updates, predicts, saves and loads, whatever the method.

How to learn is the business of a ``Method`` (``tractable.learners.methods.base``), what was learnt
is in its state; everything around them is here, once.
"""

from __future__ import annotations

import copy
import inspect
import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from tractable.learners import serialization
from tractable.learners.fit_loop import FitRun
from tractable.learners.input_checks import Checking
from tractable.learners.methods.base import BatchPosition, Method, NoOptions, OnBatch, State
from tractable.learners.methods.options import make_options, signature_with_options
from tractable.learners.network.functional import Network
from tractable.learners.off_data.reservoir import kept_rows
from tractable.learners.off_data.support import MAX_LABEL_COLUMNS, TrainingSupport
from tractable.learners.outputs import Outputs
from tractable.likelihoods import Likelihood
from tractable.predictive import Predictive
from tractable.training import holdout
from tractable.training.callbacks import Callback, EpochRecord, run_callbacks, stops_on_history
from tractable.training.data import ArrayData, LoaderData, TensorFormat, as_inputs, as_tensor
from tractable.training.inputs import Inputs, distance_input, map_inputs, single_input
from tractable.training.progress import Progress


class Learner(Checking):
    """A network and a likelihood, and a way to learn the first under the second.

    A learner is used through a class that names its method, such as ``TAGI``.  It may be used by
    several threads: what changes or reads its state is done by one at a time.

    Args:
        net: any module that the method takes; the learner works on a copy.
        likelihood: how observations depend on the network's outputs; copied as well.
        device: device to compute on; by default the CPU.
        dtype: ``torch.float32`` or ``torch.float64``; by default torch's default.
        seed: seed of the random number generator for first weights, order of rows and draws.
        options: options of the method.

    Attributes:
        method: the method and its options; does not change.
        state: everything that learning changes.
        history: one record per epoch of every ``fit``.
        fitted: whether any data were seen.
        run: how far the last ``fit`` got.
    """

    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Make the learner known to ``load``."""
        super().__init_subclass__(**arguments)
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
        place = torch.device("cpu" if device is None else device)
        network = Network(net, dtype, place)
        self.format = TensorFormat.of(network.module, dtype, place)
        chosen = make_options(type(self), self.method_class.options_class, options)
        self.method: Any = self.method_class(network, copy.deepcopy(likelihood), chosen)
        self.state: Any = self.method.init(copy.deepcopy(likelihood).to(place), seed)
        self.begin()

    # --- learning --------------------------------------------------------------------------

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
        """Learn from data, in several epochs.

        Args:
            X: inputs (array, tensor or ``Gaussian``, one row per observation); for a network of
                several inputs a tuple of them, or a mapping by the names of ``forward``; or a
                ``DataLoader`` of pairs.
            y: targets, one row per observation (a ``Gaussian`` where they have error bars of
                their own); nothing with a ``DataLoader``.
            epochs: how often to learn every row; by default enough for about 25,000 rows, at
                least 40 and at most 100.
            batch_size: rows per update; by default about a hundred updates an epoch, at most
                32 rows each.
            validation: inputs and targets whose negative log-likelihood is recorded per epoch.
            shuffle: draw a new order of the rows for every epoch; not for a network that needs
                all rows of a batch together, whose places may mean something.
            calibrate: fit the scale of the noise on rows held out from copies of this learner
                (five folds of ten below 2,000 rows, one above), which costs those extra fits.
            callbacks: called after each epoch; one that returns True ends the training.
            progress: show a progress bar; by default on a terminal only.
            resume: a checkpoint to go on from, if the file exists; data and arguments must be
                those of the run that wrote it.
            distance_aware: keep a random subset of the training rows (at most 1,000, which a saved
                file then contains), so that predictions have a ``novelty`` and error bars grow
                with the distance to the training data; see ``tractable.learners.off_data.support``.
                Without effect for integer inputs, several inputs, and networks that need all rows
                of a batch together.

        Returns:
            The learner itself.
        """
        source = self.source(X, y, batch_size, watch=distance_aware)
        if epochs is None:
            epochs = holdout.default_epochs(len(source))
        if epochs < 1:
            raise ValueError(f"epochs must be at least 1, got {epochs}")
        scored = None if validation is None else self.checked(*validation)
        if calibrate:
            self.check_hold_out(source)
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
        if run.epoch:
            run.stopped = run.stopped or stops_on_history(hooks, self.history)
        total = (epochs - run.epoch) * source.batches
        with Progress(total, type(self).__name__, progress) as bar:
            while run.epoch < epochs and not run.stopped:
                record = self._run_epoch(source, shuffle, bar)
                if scored is not None:
                    record |= self._score(*scored)
                bar.report(record)
                run.stopped = run_callbacks(hooks, self, record)
        with self.lock:
            self.history[-1] |= self.method.end_fit(self.state, source)
        if run.scale is not None:
            self.rescale_noise(run.scale)
        self.support = self._support_of(source) if distance_aware else None
        run.finished = True
        return self

    def update(self, x: Any, y: Any, *, memory_rows: float | None = None) -> Self:
        """Learn from one more observation, or one more batch, online.

        A single observation may come without the batch dimension: a scalar target, or an input
        vector (of several inputs, only with a scalar target).

        Args:
            x: inputs.
            y: targets.
            memory_rows: for data that change: about how many of the last rows to remember, for the
                weights and for a noise that is inferred.  By default nothing is forgotten.  Only
                ``TAGI`` and ensembles of it have a memory to state.
        """
        if memory_rows is not None and not (math.isfinite(memory_rows) and memory_rows > 1):
            raise ValueError(
                f"memory_rows must be a number of rows above 1, or None; got {memory_rows!r}"
            )
        rows, seen = as_inputs(x), as_tensor(y, "targets")
        if seen.ndim == 0 or (isinstance(rows, Tensor) and rows.ndim == 1):
            rows = map_inputs(lambda part: part.unsqueeze(0), rows)
            seen = seen.reshape(1, -1) if seen.ndim else seen.unsqueeze(0)
        rows, seen = self.checked(rows, seen)
        self.learn_batch(rows, seen, memory_rows=memory_rows)
        self.remember(rows)
        return self

    def learn_batch(
        self,
        x: Inputs,
        y: Tensor,
        position: BatchPosition | None = None,
        *,
        memory_rows: float | None = None,
    ) -> None:
        """``update`` without its checks, for loops over rows that ``checked`` has seen."""
        with self.lock:
            if memory_rows is None:
                self.method.update(self.state, x, y, position)
            else:
                self.method.update_within(self.state, x, y, memory_rows)
            self.fitted = True

    def rescale_noise(self, scale: float) -> None:
        """Multiply the noise variance by a factor."""
        with self.lock:
            self.method.rescale_noise(self.state, scale)

    def prune(self, fraction: float, *, per_layer: bool = False) -> Self:
        """Set the least certain weights to exactly zero with zero variance, for good.

        Args:
            fraction: share of the weights to prune, those of lowest signal-to-noise ratio (of
                smallest size, for a point estimate).
            per_layer: prune this share of every parameter, rather than of all together.
        """
        with self.lock:
            self.method.prune(self.state, fraction, per_layer)
        return self

    def _run_epoch(
        self, source: ArrayData | LoaderData, shuffle: bool, bar: Progress
    ) -> EpochRecord:
        started, run, learnt = time.perf_counter(), self.run, 0

        def tell(batches: int) -> None:
            nonlocal learnt
            learnt += batches
            bar.advance(batches)

        with self.lock:
            before, order = self.generator.get_state(), None
            if shuffle and self.rows_apart and isinstance(source, ArrayData):
                order = torch.randperm(len(source), generator=self.generator).to(self.device)
            try:
                run_epoch(self.method, self.state, source, order, run.epoch / run.epochs, tell)
            except BaseException:
                if not learnt:  # an epoch that learnt nothing changes nothing
                    self.generator.set_state(before)
                raise
            finally:
                self.fitted = self.fitted or learnt > 0
            run.epoch += 1
            record: EpochRecord = {
                "epoch": float(run.epoch),
                "seconds": time.perf_counter() - started,
                **self.method.end_epoch(self.state),
            }
            self.history.append(record)
        return record

    def _score(self, x: Inputs, y: Tensor) -> EpochRecord:
        log_prob = self.outputs(x, **self.method.scoring_options()).predictive().log_prob(y)
        return {"validation_nll": -float(log_prob.mean())}

    def _support_of(self, source: ArrayData | LoaderData) -> TrainingSupport | None:
        """Where the rows of a fit were, and how steep the mean is there."""
        kept = kept_rows(source, self.seed) if self.rows_apart else None
        found = None if kept is None else TrainingSupport.from_rows(kept)
        labels = self.likelihood.traits.has_labels
        if found is None or not (self.likelihood.traits.supports_extra_variance or labels):
            return found
        if labels and found.rows.shape[1] > MAX_LABEL_COLUMNS:
            return found
        return found.with_slope(self.off_data_function, self.seed)

    def off_data_function(self, x: Tensor) -> Tensor:
        """What widens away from the data: the mean of numbers, of the outputs for labels."""
        outputs = self.outputs(x)
        return (
            outputs.predictive().mean
            if self.likelihood.traits.supports_extra_variance
            else outputs.moments()[0]
        )

    # --- predicting ------------------------------------------------------------------------

    def predict(self, X: Any, *, batch_size: int = 1024, **options: Any) -> Predictive:
        """The distribution of the target at each row of ``X``.

        Its ``novelty`` says how unlike the rows of the last ``fit`` each row is, and has widened
        the error bars of numbers, and evened out the probabilities of labels where inputs have
        few columns.

        Args:
            X: inputs.
            batch_size: number of rows to compute at once.
            options: options of the method: ``n_weight_samples=`` for those that sample weights.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        x = self.inputs(X)
        outputs = self.outputs(x, batch_size=batch_size, **options)
        predictive = self._away_from_data(outputs, distance_input(x))
        return predictive.squeezed() if self.flat_targets in (None, True) else predictive

    def _away_from_data(self, outputs: Outputs, at: Tensor | None) -> Predictive:
        """The distribution of the target, less sure where inputs are unlike the training rows."""
        known = self.support
        if known is None or at is None or not known.takes(at):
            return outputs.predictive()
        novelty, extra = known.distance(at)
        if extra is None:
            return outputs.predictive().with_novelty(novelty)
        if self.likelihood.traits.supports_extra_variance:
            return outputs.predictive().with_extra_variance(extra).with_novelty(novelty)
        return outputs.with_extra_variance(extra).predictive().with_novelty(novelty)

    def outputs(self, x: Inputs, *, batch_size: int | None = 1024, **options: Any) -> Outputs:
        """What is known of the network's outputs at checked rows, without the noise.

        Args:
            x: rows as ``checked`` gives them.
            batch_size: rows at once; None for all.
            options: options of the method, such as ``n_weight_samples=``.
        """
        with self.lock:
            found: Outputs = self.method.outputs(self.state, x, batch_size=batch_size, **options)
            return found

    def sample(self, x: Inputs, n: int, generator: torch.Generator) -> Tensor:
        """Outputs of ``n`` functions drawn from what is known at checked rows, ``[n, rows, ...]``.

        Within a draw all rows see the same weights.
        """
        with self.lock:
            drawn: Tensor = self.method.sample(self.state, x, n, generator)
            return drawn

    def input_gradient(self, x: Inputs, y: Tensor, **options: Any) -> Tensor:
        """Return the derivative in ``x`` of each checked row's log predictive density of ``y``.

        Exact: the gradient learners and ``Laplace``.  Approximate: ``TAGI``, which returns the
        message of the likelihood's evidence to the mean of the input.  That is the derivative
        through the means of all units with their variances held fixed: what a change of the
        input does to the variances, and so to the width of the prediction, is left out.  Its
        likelihood is the one that is learnt with, without a factor from calibration.
        """
        at = single_input(x, "a derivative in the input")
        with self.lock:
            gradient: Tensor = self.method.input_gradient(self.state, at, y, **options)
            return gradient


# --- one epoch -------------------------------------------------------------------------------


def run_epoch(
    method: Method[Any],
    state: State,
    source: ArrayData | LoaderData,
    order: Tensor | None,
    progress: float,
    tell: OnBatch,
) -> None:
    """Learn every row once: by the method in one go where it can, else batch by batch."""
    if method.learn_epoch(state, source, order, progress, tell):
        return
    for batch, (x, y) in enumerate(method.batches_of(state, source, order)):
        position = BatchPosition(len(x) / len(source), progress, batch, source.batches)
        method.update(state, x, y, position)
        tell(1)
