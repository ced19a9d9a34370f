"""What a learner holds, and how it is copied, saved and loaded."""

from __future__ import annotations

import copy
import threading
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from tractable.errors import InvalidModelFile
from tractable.learners import serialization
from tractable.learners.fit_loop import FitRun
from tractable.learners.methods.base import Method, State
from tractable.learners.network.locks import new_lock
from tractable.learners.network.module_copy import detached_copy
from tractable.learners.off_data.support import TrainingSupport, max_kept_rows
from tractable.likelihoods import Likelihood
from tractable.posterior import Posterior
from tractable.training.callbacks import EpochRecord
from tractable.training.data import TensorFormat
from tractable.training.inputs import Inputs, distance_input


class Holder:
    """A method, its state, and what was noted along the way; ``Learner`` adds how they are used.

    Attributes:
        method: the method and its options; does not change.
        state: everything that learning changes.
        format: how inputs and targets are brought to tensors.
        history: one record per epoch of every ``fit``.
        fitted: whether any data were seen.
        run: how far the last ``fit`` got.
        flat_targets: whether targets came as a vector; None before any came.
        shapes_known: shape of the output for forms of inputs met so far.
        rows_apart: whether the network takes rows one by one, as far as is known.
        lock: held by whoever changes or reads the state.
    """

    method: Any
    state: Any
    format: TensorFormat
    lock: threading.RLock

    method_class: ClassVar[type[Method[Any]]]
    """The class of the method, which a subclass names."""

    def begin(self) -> None:
        """Start with an empty history, and a lock of its own."""
        self.history: list[EpochRecord] = []
        self.fitted = False
        self.run = FitRun()
        self.flat_targets: bool | None = None
        self._support: TrainingSupport | None = None
        self._later: list[Tensor] = []  # batches that were learnt since the support was asked for
        self._waiting = 0  # rows in them
        self.shapes_known: dict[tuple[Any, ...], torch.Size] = {}
        self.rows_apart = True
        self.lock = new_lock(self)

    @classmethod
    def view(cls, method: Method[Any], state: State, of: Holder) -> Self:
        """A learner on a state that is a part of another's, such as a member of an ensemble."""
        self = cls.__new__(cls)
        self.method, self.state, self.format = method, state, of.format
        self.begin()
        self.fitted, self.flat_targets, self.lock = of.fitted, of.flat_targets, of.lock
        return self

    def reinitialized(self, seed: int) -> Self:
        """A learner of the same kind that has seen nothing, with first weights of another seed.

        It shares the network and the options, which do not change, and is made much sooner.
        """
        likelihood = copy.deepcopy(self.method.likelihood).to(self.device)
        twin = self.view(self.method, self.method.init(likelihood, seed), self)
        twin.fitted, twin.flat_targets, twin.lock = False, None, new_lock(twin)
        return twin

    # --- what it is made of ----------------------------------------------------------------

    @property
    def net(self) -> nn.Module:
        """The private copy of the network; its own parameters are not used."""
        return self.method.network.module

    @property
    def dtype(self) -> torch.dtype:
        """Precision of parameters and outputs."""
        return self.method.network.dtype

    @property
    def device(self) -> torch.device:
        """The device it computes on."""
        return self.method.network.device

    @property
    def seed(self) -> int:
        """Seed of the random number generator for first weights, order of rows and draws."""
        return int(self.state.seed)

    @property
    def likelihood(self) -> Likelihood:
        """The private copy of the likelihood, with what was learnt about the noise."""
        return self.method.predictive_likelihood(self.state)

    @property
    def buffers(self) -> dict[str, Tensor]:
        """Running statistics of the network."""
        return self.state.buffers

    @property
    def generator(self) -> torch.Generator:
        """The random number generator for orders of rows and draws."""
        return self.state.generator

    @property
    def parallel(self) -> bool:
        """Whether learning runs beside other threads (see ``fit_many``)."""
        return self.method.parallel

    @property
    def posterior(self) -> Posterior:
        """What is known about the parameters."""
        return self.method.posterior(self.state)

    def mean_module(self) -> nn.Module:
        """Return the network at the means of its weights as an ordinary module, in eval mode.

        It is an independent copy of ``net`` with the posterior means as parameters and the
        learner's buffers, such as the running statistics of batch normalization.
        """
        network = self.method.network
        with self.lock, network.lock:  # another thread may have put Gaussians into its places
            module = detached_copy(network.module)
            named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
            with torch.no_grad():
                for name, tensor in {**self.posterior.means(), **self.buffers}.items():
                    named[name].copy_(tensor)
        return module.eval()

    @property
    def support(self) -> TrainingSupport | None:
        """Where the rows of the last ``fit`` were, and of updates after it; None before one."""
        with self.lock:
            if self._support is not None and self._later:
                self._support = self._support.joined(torch.cat(self._later))
            self._forget_later()
            return self._support

    @support.setter
    def support(self, found: TrainingSupport | None) -> None:
        with self.lock:
            self._forget_later()
            self._support = found

    def _forget_later(self) -> None:
        self._later.clear()
        self._waiting = 0

    def remember(self, x: Inputs) -> None:
        """Note rows that were learnt after a fit, to be looked at when somebody asks.

        No more rows wait than a support keeps: then they are looked at.
        """
        with self.lock:
            at = None if self._support is None else distance_input(x)
            if self._support is None or at is None or not self._support.takes(at):
                return
            self._later.append(at.clone())
            self._waiting += len(at)
            if self._waiting >= max_kept_rows(self._support.event):
                self.support = self.support

    # --- copying and saving ----------------------------------------------------------------

    def clone(self, seed_offset: int = 0) -> Self:
        """An independent learner in the same state, with an empty history.

        Args:
            seed_offset: 0 for the same draws and orders of rows from here on; else they come
                from a new generator, seeded with this learner's seed plus the offset.
        """
        twin = copy.deepcopy(self)
        twin.history, twin.run = [], FitRun()
        if seed_offset:
            seed = self.generator.initial_seed() + seed_offset
            twin.state.generator = torch.Generator().manual_seed(seed)
        return twin

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that training changes, by name, as ``save`` writes it."""
        with self.lock:
            return serialization.parts(self)[0]

    def save(self, path: str | Path) -> None:
        """Write the learner to one file, atomically; ``load`` reads it."""
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
        """Read a learner that ``save`` wrote; nothing that the file names is imported or run.

        Args:
            path: the file.
            net: a network of the same architecture; needed unless it was built from plain
                ``torch.nn`` layers in ``nn.Sequential``.
            likelihood: needed when the likelihood is a class of the user's own.
            device: where to put it.
            options: arguments of the constructor that a file cannot hold (functions, or a prior
                of the user's own); they also replace those in the file.

        Raises:
            InvalidModelFile: the file is damaged, foreign, or of another kind of learner.
        """
        learner = serialization.load(path, net, likelihood, device=device, **options)
        if not isinstance(learner, cls):
            raise InvalidModelFile(
                f"{path} holds a {type(learner).__name__!r} learner, not a {cls.__name__}"
            )
        return learner

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: the state as an independent one, and no lock."""
        with self.lock:
            held = {name: value for name, value in vars(self).items() if name != "lock"}
            likelihood = copy.deepcopy(self.state.likelihood)
            return {**held, "state": (likelihood, self.seed, *serialization.packed_state(self))}

    def __setstate__(self, held: dict[str, Any]) -> None:
        """Take over what ``__getstate__`` gave."""
        likelihood, seed, *packed = held.pop("state")
        vars(self).update(held)
        self.lock = new_lock(self)
        self.state = self.method.init(likelihood, seed)
        serialization.restore_state(self, *packed)
