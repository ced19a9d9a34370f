"""Ensembles: several independently trained states of one method, with mixed predictions.

Lakshminarayanan, Pritzel & Blundell, "Simple and scalable predictive uncertainty estimation using
deep ensembles" (2017).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from typing_extensions import override

from tractable.learners import serialization
from tractable.learners.learner import Learner, learner_of_state, run_epoch
from tractable.learners.methods.backprop import Backprop, BackpropMethod
from tractable.learners.methods.base import BatchPosition, Method, OnBatch, State, TensorDict
from tractable.learners.methods.tagi.outlier_gate import OutlierReport
from tractable.learners.methods.tagi.tagi import TAGI
from tractable.learners.methods.vectorized import run_epoch_vectorized, supports_vmap
from tractable.learners.network.functional import Network
from tractable.learners.outputs import EnsembleOutputs
from tractable.likelihoods import Likelihood
from tractable.likelihoods.base import HeldOut
from tractable.persistence import validation
from tractable.persistence.model_file import under_prefix, with_prefix
from tractable.posterior import Posterior
from tractable.training.callbacks import EpochRecord
from tractable.training.data import ArrayData, LoaderData
from tractable.training.inputs import Inputs
from tractable.training.parallel import run_each

_MAX_VECTORIZED_PARAMETERS = 1 << 14  # above it, matrix products cost more than calls of torch


@dataclass
class EnsembleState(State):
    """The states of the members."""

    members: list[Any] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class EnsembleOptions:
    """Options of ``EnsembleMethod``.

    Attributes:
        n_estimators: number of members.
        member: the method of each member.
        kind: the learner class of each member.
    """

    n_estimators: int
    member: Method[Any]
    kind: type[Learner]


class EnsembleMethod(Method[EnsembleState]):
    """The method of ``Ensemble``: the method of the members, applied to each state."""

    options_class = EnsembleOptions
    options: EnsembleOptions

    def __init__(self, network: Network, likelihood: Likelihood, options: Any) -> None:
        super().__init__(network, likelihood, options)
        self.n_estimators, self.kind = self.options.n_estimators, self.options.kind
        self.member = member = self.options.member
        self.online, self.parallel = member.online, member.parallel
        self.by_rows = member.by_rows

    def config(self) -> dict[str, Any]:
        """Return the options as JSON values."""
        name = serialization.learner_name(self.kind)
        return {"n_estimators": self.n_estimators, "learner": name, **self.member.config()}

    def init(self, likelihood: Likelihood, seed: int) -> EnsembleState:
        """Return the states of the members; member i has the seed ``seed + i``."""
        state = EnsembleState(likelihood, {}, seed)
        state.members = [
            self.member.init(copy.deepcopy(likelihood), seed + i) for i in range(self.n_estimators)
        ]
        return state

    @override
    def on_network(self, network: Network) -> Self:
        options = replace(self.options, member=self.member.on_network(network))
        return type(self)(network, self.likelihood, options)

    # --- learning --------------------------------------------------------------------------

    def update(
        self, state: EnsembleState, x: Inputs, y: Tensor, position: BatchPosition | None
    ) -> None:
        """Update every member, or none if one fails."""
        self._all_or_none(state, lambda member: self.member.update(member, x, y, position))

    def update_within(self, state: EnsembleState, x: Inputs, y: Tensor, memory_rows: float) -> None:
        """Update every member with limited memory, or none if one fails."""
        self._all_or_none(
            state, lambda member: self.member.update_within(member, x, y, memory_rows)
        )

    def _all_or_none(self, state: EnsembleState, learn: Callable[[Any], None]) -> None:
        backups = [self.member.backup(member) for member in state.members[:-1]]
        n_done = 0
        try:
            for member in state.members:
                learn(member)
                n_done += 1
        except BaseException:
            for member, backup in zip(state.members[:n_done], backups, strict=False):
                self.member.undo(member, backup)
            raise

    def learn_epoch(
        self,
        state: EnsembleState,
        source: ArrayData | LoaderData,
        order: Tensor | None,
        progress: float,
        on_batch: OnBatch,
    ) -> bool:
        """Train each member on the rows in its own order; for a loader, only return False."""
        if isinstance(source, LoaderData):
            return False
        orders: list[Tensor | None] = [None] * self.n_estimators
        if order is not None:
            orders = [
                torch.randperm(len(source), generator=member.generator).to(order.device)
                for member in state.members
            ]
        if self.vectorized and self._together(state, source):
            assert isinstance(self.member, BackpropMethod)
            run_epoch_vectorized(self.member, state.members, source, orders, progress, on_batch)
            return True
        run_each(
            [
                partial(run_epoch, self.member, member, source, own, progress, _quiet)
                for member, own in zip(state.members, orders, strict=True)
            ],
            threads=self.parallel,
        )
        on_batch(source.batches)
        return True

    def _together(self, state: EnsembleState, source: ArrayData) -> bool:
        assert isinstance(self.member, BackpropMethod)
        return supports_vmap(self.member, state.members[0], source)

    @property
    def vectorized(self) -> bool:
        """Whether all members are trained in one pass: small networks without dropout or buffers.

        One pass saves calls of torch, which take most of the time of a small step.  It was measured
        to be four times faster for 25 networks of two layers of 50 units, and no faster for 400
        units.
        """
        size = sum(shape.numel() for shape in self.network.shapes.values())
        return (
            type(self.member) is BackpropMethod
            and not self.member.drops
            and not self.network.initial_buffers()
            and size < _MAX_VECTORIZED_PARAMETERS
            and not self.likelihood.traits.learns_noise
            and self.likelihood.traits.supports_vmap
        )

    def end_epoch(self, state: EnsembleState) -> EpochRecord:
        """Return the mean metrics of the members."""
        return self.means([self.member.end_epoch(member) for member in state.members])

    def end_fit(self, state: EnsembleState, source: ArrayData | LoaderData) -> EpochRecord:
        """Return the mean metrics of the members."""
        return self.means([self.member.end_fit(member, source) for member in state.members])

    def means(self, records: list[EpochRecord]) -> EpochRecord:
        """Return the mean of several records."""
        return {key: sum(r[key] for r in records) / self.n_estimators for key in records[0]}

    @override
    def update_noise_from_statistics(self, state: EnsembleState) -> None:
        for member in state.members:
            self.member.update_noise_from_statistics(member)

    @override
    def step_schedule(self, state: EnsembleState) -> None:
        for member in state.members:
            self.member.step_schedule(member)

    @override
    def rescale_noise(self, state: EnsembleState, scale: float) -> None:
        for member in state.members:
            self.member.rescale_noise(member, scale)

    @override
    def held_out_scale(self, state: EnsembleState, held_out: list[HeldOut]) -> float:
        return self.member.held_out_scale(state.members[0], held_out)

    @override
    def held_out_log_prob(
        self, likelihood: Likelihood, y: Tensor, mean: Tensor, variance: Tensor
    ) -> Tensor:
        return self.member.held_out_log_prob(likelihood, y, mean, variance)

    @override
    def warn_about_scale(self, source: ArrayData | LoaderData) -> None:
        self.member.warn_about_scale(source)

    def predictive_likelihood(self, state: EnsembleState) -> Likelihood:
        """Return a likelihood with the mean of the members' noise."""
        noises = [self.member.predictive_likelihood(member) for member in state.members]
        pooled = copy.deepcopy(noises[0])
        stacked = {
            name: torch.stack([dict(noise.named_buffers())[name] for noise in noises])
            for name, buffer in noises[0].named_buffers()
            if buffer.is_floating_point()
        }
        pooled.set_buffers({name: values.mean(0) for name, values in stacked.items()})
        return pooled

    # --- predicting ------------------------------------------------------------------------

    def outputs(
        self, state: EnsembleState, x: Inputs, *, batch_size: int | None = None, **options: Any
    ) -> EnsembleOutputs:
        """Return the outputs of every member."""
        return EnsembleOutputs([
            self.member.outputs(member, x, batch_size=batch_size, **options)
            for member in state.members
        ])  # fmt: skip

    def sample(self, state: EnsembleState, x: Inputs, n: int, generator: torch.Generator) -> Tensor:
        """Return outputs of randomly chosen members, with sampled weights."""
        chosen = torch.randint(self.n_estimators, (n,), generator=generator).tolist()
        drawn = [self.member.sample(state.members[i], x, 1, generator) for i in chosen]
        return torch.cat(drawn)

    def log_prob_gradient(
        self, state: EnsembleState, x: Tensor, y: Tensor, **options: Any
    ) -> Tensor:
        """Return the gradient of the log mean density: the members' gradients, weighted by
        density.
        """
        gradients = [self.member.log_prob_gradient(m, x, y, **options) for m in state.members]
        log_probs = [self.member.outputs(m, x).predictive().log_prob(y) for m in state.members]
        share = torch.stack(log_probs).softmax(0)
        weights = share.reshape(*share.shape, *[1] * (x.ndim - 1))
        return (weights * torch.stack(gradients)).sum(0)

    def posterior(self, state: EnsembleState) -> Posterior:
        """Return one Gaussian for all members, by the law of total variance."""
        parts = self.posteriors(state)
        locs = torch.stack([part.loc for part in parts])
        variance = torch.stack([part.variance for part in parts]).mean(0)
        variance = variance + locs.var(0, correction=0)
        return Posterior(parts[0].shapes, locs.mean(0), variance, parts[0].prior_variance)

    def posteriors(self, state: EnsembleState) -> list[Posterior]:
        """Return one posterior per member."""
        return [self.member.posterior(member) for member in state.members]

    @override
    def output_shape(self, state: EnsembleState, x: Inputs) -> torch.Size:
        return self.member.output_shape(state.members[0], x)

    @override
    def scoring_options(self) -> dict[str, Any]:
        return self.member.scoring_options()

    # --- state -----------------------------------------------------------------------------

    def prune(self, state: EnsembleState, fraction: float, per_layer: bool) -> None:
        """Prune every member."""
        for member in state.members:
            self.member.prune(member, fraction, per_layer)

    @override
    def learnt(self, state: EnsembleState) -> TensorDict:
        tensors: TensorDict = {}
        for i, member in enumerate(state.members):
            tensors |= with_prefix(self.member.learnt(member), f"{i}/state/")
            tensors |= with_prefix(member.likelihood.state_dict(), f"{i}/likelihood/")
        return tensors

    @override
    def restore(self, state: EnsembleState, learnt: TensorDict) -> None:
        for i, member in enumerate(state.members):
            own, noise = (
                under_prefix(learnt, f"{i}/state/"),
                under_prefix(learnt, f"{i}/likelihood/"),
            )
            validation.check_numbers(own, self.member.domains)
            member.likelihood.check_buffers(noise)
            self.member.restore(member, own)
            member.likelihood.load_state_dict(noise)

    @override
    def training(self, state: EnsembleState) -> tuple[TensorDict, Any]:
        tensors: TensorDict = {}
        values: list[Any] = []
        for i, member in enumerate(state.members):
            more, value = self.member.training(member)
            tensors |= with_prefix(more, f"{i}/")
            tensors[f"{i}/generator"] = member.generator.get_state()
            values.append(value)
        return tensors, values

    @override
    def restore_training(self, state: EnsembleState, tensors: TensorDict, values: Any) -> None:
        for i, member in enumerate(state.members):
            own = under_prefix(tensors, f"{i}/")
            member.generator.set_state(own.pop("generator"))
            self.member.restore_training(member, own, values[i])

    @classmethod
    def check_file(cls, options: dict[str, Any], net: nn.Module, tensors: TensorDict) -> None:
        """Check the number of members against the states in the file, and the members' options."""
        found = {name.split("/")[1] for name in tensors if name.startswith("state/")}
        validation.require_at_most(options["n_estimators"], len(found), "the number of members")
        kind = serialization.learner_class(options["learner"])
        if kind is Ensemble:
            raise ValueError("the members of an ensemble cannot be ensembles")
        kind.method_class.check_file(options, net, tensors)


class Ensemble(Learner):
    """An ensemble of learners that differ in their seed: initial weights, order of rows, samples.

    Args:
        net: any module that the members' learner supports.
        likelihood: observation model; each member has a copy.
        n_estimators: number of members.
        learner: the class of the members, or its name.
        device: device of the computation. Default: CPU.
        dtype: ``torch.float32`` or ``torch.float64``. Default: torch's default dtype.
        seed: seed of the first member; member i has the seed ``seed + i``.
        options: further arguments of the members' class.

    Exact: the mixture of the members' predictions.  Approximate: a few members, trained from
    different initial weights, replace samples from the posterior.
    """

    method_class = EnsembleMethod
    method: EnsembleMethod
    state: EnsembleState

    def __init__(
        self,
        net: nn.Module,
        likelihood: Likelihood,
        *,
        n_estimators: int = 5,
        learner: type[Learner] | str = Backprop,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        if n_estimators < 1:
            raise ValueError(f"n_estimators must be at least 1, got {n_estimators}")
        kind = serialization.learner_class(learner) if isinstance(learner, str) else learner
        if not (isinstance(kind, type) and issubclass(kind, Learner)) or kind is Ensemble:
            raise ValueError(
                f"learner must be a class of learners other than Ensemble, or its name, got "
                f"{learner!r}"
            )
        first = kind(net, likelihood, device=device, dtype=dtype, seed=seed, **options)
        super().__init__(
            net, likelihood, device=device, dtype=dtype, seed=seed, n_estimators=n_estimators,
            member=first.method, kind=kind,
        )  # fmt: skip

    @property
    def n_estimators(self) -> int:
        """Number of members."""
        return self.method.n_estimators

    @property
    def members(self) -> list[Learner]:
        """The members as learners; they share their states with the ensemble."""
        method = self.method
        return [
            learner_of_state(method.kind, method.member, state, self)
            for state in self.state.members
        ]

    def mean_module(self) -> nn.Module:
        """Return the mean network of the only member.

        Raises:
            TypeError: there are several members; their networks differ, and the mean of their
                weights is not a trained network.
        """
        if self.n_estimators > 1:
            raise TypeError(
                f"an ensemble of {self.n_estimators} members has no mean network: use "
                f"members[i].mean_module()"
            )
        return self.members[0].mean_module()

    @property
    def posteriors(self) -> list[Posterior]:
        """One posterior per member."""
        return self.method.posteriors(self.state)

    @property
    def outliers(self) -> OutlierReport:
        """Outliers that the first member down-weighted, if it is a ``TAGI`` learner."""
        first = self.members[0]
        if not isinstance(first, TAGI):
            raise AttributeError(f"a {type(first).__name__} does not detect outliers")
        return first.outliers


def _quiet(batches: int) -> None:
    """Ignore the number of finished batches."""
