"""TAGI: closed-form Gaussian inference of the weights, without gradients.

One update: moments forward through the network, messages backward from the likelihood to every
parameter (carried by autograd, see ``tractable.rules``), and the batch rule that turns summed
messages into new means and variances.  An engine carries it out
(``tractable.learners.methods.tagi.engines``).

Source: Goulet, Nguyen & Amiri, "Tractable approximate Gaussian inference for Bayesian neural
networks" (2021); Nguyen & Goulet, "Analytically tractable hidden-states inference in Bayesian
neural networks" (2022), section 2 and appendix B.1, B.2.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from tractable.gaussian import Gaussian
from tractable.learners.methods.base import BatchPosition, Method, OnBatch, TensorDict
from tractable.learners.methods.tagi import engines
from tractable.learners.methods.tagi.batch_norm import (
    RecentBatches,
    batch_norm_layers,
    refreshed_batch_norm,
)
from tractable.learners.methods.tagi.engines import TAGIState, TorchEngine
from tractable.learners.methods.tagi.initialization import (
    PriorScale,
    make_prior,
    reinit_names,
)
from tractable.learners.methods.tagi.options import TAGIOptions
from tractable.learners.methods.tagi.outlier_gate import OutlierGate
from tractable.learners.methods.tagi.robustness import Robustness
from tractable.learners.methods.transfer import TransferredPrior
from tractable.learners.network.functional import Network
from tractable.learners.network.module_copy import refuse_scripted
from tractable.learners.outputs import GaussianOutputs, chunks, joined
from tractable.likelihoods import HeteroscedasticNormal, Likelihood, Normal
from tractable.likelihoods.base import HeldOut
from tractable.persistence import validation
from tractable.persistence.validation import Domain
from tractable.posterior import Posterior, flat
from tractable.training.callbacks import EpochRecord
from tractable.training.data import ArrayData, LoaderData
from tractable.training.inputs import Inputs, tensors_of


class TAGIMethod(Method[TAGIState]):
    """The method of ``TAGI``."""

    online = True

    domains: ClassVar[dict[str, Domain]] = {"variance": "non-negative"}

    options_class = TAGIOptions
    options: TAGIOptions

    def __init__(self, network: Network, likelihood: Likelihood, options: Any = None) -> None:
        super().__init__(network, likelihood, options)
        refuse_scripted(network.module)
        given = self.options
        self.reinit = list(given.reinit)
        self.scale = PriorScale.of(
            network, likelihood, given.init, given.gain, given.prior_variance_ratio,
            given.scale_by_layer_size, given.residual_gain,
        )  # fmt: skip
        self.transferred = None
        if given.prior is not None:
            new = reinit_names(network, self.reinit)
            self.transferred = TransferredPrior.of(
                given.prior, network.shapes, new, float(given.prior_scale)
            )
        rule, robust = given.batch_rule, bool(given.robust)
        self.robustness = Robustness.of(network, likelihood, rule, robust)
        self.eager = TorchEngine(network, given.moments, rule, self.robustness)
        self.engine = engines.choose_engine(
            self.eager, likelihood, engine=given.engine, compile=given.compile
        )
        self.parallel = self.engine.parallel
        self.has_batch_norm = bool(batch_norm_layers(network))

    def config(self) -> dict[str, Any]:
        """Return the options as JSON values, with the values that were chosen for defaults."""
        given = self.options
        return {
            "init": given.init,
            **asdict(self.scale),
            "reinit": self.reinit,
            "prior": None if self.transferred is None else self.transferred.config(),
            "prior_scale": float(given.prior_scale),
            "moments": given.moments,
            "batch_rule": given.batch_rule,
            "epoch_forgetting": given.epoch_forgetting,
            "compile": given.compile,
            # A file must load on a machine without the kernel.
            "engine": "torch" if given.engine == "torch" else "auto",
            "robust": bool(given.robust),
        }

    def init(self, likelihood: Likelihood, seed: int) -> TAGIState:
        """Return the prior, with means drawn at random or taken from the network."""
        state = TAGIState(likelihood, self.network.initial_buffers(), seed)
        if self.robustness.gate:
            state.gate = OutlierGate(
                len(likelihood.noise_mean) if isinstance(likelihood, Normal) else 1
            )
        state.posterior = self._prior(state.generator)
        return state

    def _prior(self, generator: torch.Generator) -> Posterior:
        reinit = self.reinit if self.options.init == "net" else ()
        with self.network.lock:  # another thread may have put Gaussians into its places
            found = make_prior(self.network, self.options.init, self.scale, reinit, generator)
        if self.transferred is not None:
            self.transferred.put_into(found)
        return found

    def _first_means(self, state: TAGIState) -> Tensor:
        """Return the initial means; of a transferred prior from a file, the current ones."""
        if self.transferred is not None and self.transferred.gaussians is None:
            return state.posterior.loc.clone()
        return self._prior(torch.Generator().manual_seed(state.seed)).loc

    @override
    def update(
        self, state: TAGIState, x: Inputs, y: Tensor, position: BatchPosition | None
    ) -> None:
        rate = 0.0
        if position is not None:
            rate = self.options.epoch_forgetting * position.share * (1 - position.progress)
        self.engine.update(state, x, y, rate)
        if position is not None and self.has_batch_norm:
            state.recent = state.recent or RecentBatches()
            state.recent.add(x)

    def update_within(self, state: TAGIState, x: Inputs, y: Tensor, memory_rows: float) -> None:
        """Update, and move the precision by ``r = 1 - (1 - 1/N)^B`` back to that of the prior.

        Tempering a posterior by its prior, ``p^(1 - r) p0^r``, would also move the means by the
        share ``r v/v0`` of the distance to their initial values.  They move a tenth of that, which
        costs no accuracy.  Without it, inactive units (a ReLU of a negative mean passes no message)
        stay inactive, and in a stream that keeps changing all of them become inactive.
        """
        rate = -math.expm1(len(x) * math.log1p(-1 / memory_rows))
        self.engine.update(state, x, y, rate, memory_rows)
        if state.start is None:
            state.start = self._first_means(state)
        posterior = state.posterior
        share = torch.div(posterior.variance, posterior.flat_prior_variance, out=posterior.scratch)
        posterior.loc.lerp_(state.start, share.mul_(_RETURN * rate))

    def learn_epoch(
        self,
        state: TAGIState,
        source: ArrayData | LoaderData,
        order: Tensor | None,
        progress: float,
        on_batch: OnBatch,
    ) -> bool:
        """Learn an epoch in one call of the engine, if it supports that."""
        return self.engine.learn_epoch(
            state, source, order, self.options.epoch_forgetting * (1 - progress), on_batch
        )

    def end_epoch(self, state: TAGIState) -> EpochRecord:
        """Refresh the running statistics for the current weights."""
        if state.recent is not None:
            leaves = state.posterior.leaves

            def run(buffers: TensorDict, x: Inputs) -> None:
                with (
                    torch.no_grad(),
                    self.eager.forward_rng.drawing_from(state.generator, train=True),
                ):
                    self.eager.run(*leaves, buffers, x, train=True)

            state.buffers = refreshed_batch_norm(self.network, state.buffers, state.recent, run)
            state.recent = None
        return super().end_epoch(state)

    def outputs(
        self,
        state: TAGIState,
        x: Inputs,
        *,
        batch_size: int | None = None,
        variance_scale: float = 1.0,
    ) -> GaussianOutputs:
        """Return Gaussian outputs in closed form."""
        parts = [self.engine.outputs(state, rows) for rows in chunks(x, batch_size)]
        mean, variance = joined(parts)
        return GaussianOutputs(
            mean, variance if variance_scale == 1 else variance_scale * variance, state.likelihood
        )

    def sample(self, state: TAGIState, x: Inputs, n: int, generator: torch.Generator) -> Tensor:
        """Return outputs for sampled weights; exact, as the posterior is a product of Gaussians."""
        return self.engine.sample(state, x, n, generator)

    def log_prob_gradient(self, state: TAGIState, x: Tensor, y: Tensor) -> Tensor:
        """Return the evidence's message to the mean of the input.

        Exact: the derivative of the log evidence through the means.  Approximate: the variances of
        all units are held fixed, as a change of the mean of the input leaves them in the equations
        of the messages.
        """
        leaf = x.detach().clone().requires_grad_()
        with torch.enable_grad():
            z = self.propagate(state, leaf)
        with torch.no_grad():
            messages = state.likelihood.messages(y, z.loc.detach(), z.variance.detach())
        return torch.autograd.grad([z.loc, z.variance], leaf, list(messages))[0]

    def posterior(self, state: TAGIState) -> Posterior:
        """Return the posterior of all parameters, which follows later updates."""
        return state.posterior

    @override
    def learnt(self, state: TAGIState) -> TensorDict:
        tensors: TensorDict = {}
        for name, gaussian in state.posterior.gaussians().items():
            tensors[f"loc/{name}"] = gaussian.loc
            tensors[f"variance/{name}"] = gaussian.variance
        return tensors | {f"buffer/{name}": b for name, b in state.buffers.items()}

    @override
    def restore(self, state: TAGIState, learnt: TensorDict) -> None:
        shapes = self.network.shapes
        state.posterior = Posterior(
            shapes,
            flat([learnt[f"loc/{name}"] for name in shapes]),
            flat([learnt[f"variance/{name}"] for name in shapes]),
            state.posterior.prior_variance,
        )
        state.buffers = {name: learnt[f"buffer/{name}"].clone() for name in state.buffers}

    def training(self, state: TAGIState) -> tuple[TensorDict, Any]:
        """Return the state of the outlier gate."""
        if state.gate is None:
            return {}, None
        return {"surprise": state.gate.level, "surprises": state.gate.log}, None

    def restore_training(self, state: TAGIState, tensors: TensorDict, values: Any) -> None:
        """Restore the outlier gate; without one in the file, it keeps its initial state."""
        gate = state.gate
        if gate is None or not tensors:
            return
        own = {"surprise": gate.level, "surprises": gate.log}
        validation.check_same_tensors(own, tensors, "gate")
        validation.check_numbers(tensors, {})
        if bool((tensors["surprise"] < 1).any()) or not 0 <= float(tensors["surprises"][0]) < 2**53:
            raise ValueError("the state of the outlier gate in the file has invalid values")
        for name, tensor in own.items():
            tensor.copy_(tensors[name])

    def held_out_scale(self, state: TAGIState, held_out: list[HeldOut]) -> float:
        """Return the noise scale of held-out rows, robust to outliers if there is a gate."""
        if self.robustness.gate:
            return state.likelihood.held_out_scale(held_out, outliers=True)
        return super().held_out_scale(state, held_out)

    def held_out_log_prob(
        self, likelihood: Likelihood, y: Tensor, mean: Tensor, variance: Tensor
    ) -> Tensor:
        """Return the log density of held-out rows, robust to outliers if there is a gate."""
        return likelihood.held_out_log_prob(y, mean, variance, outliers=self.robustness.gate)

    def warn_about_scale(self, source: ArrayData | LoaderData) -> None:
        """Warn about data in raw units; a data loader is not read for this."""
        numbers = isinstance(self.likelihood, Normal | HeteroscedasticNormal)
        if not numbers or isinstance(source, LoaderData):
            return
        inputs = [("inputs", part) for part in tensors_of(source.x)]
        for what, values in (*inputs, ("targets", source.y)):
            size = _usual_size(values)
            if size > _RAW:
                warnings.warn(
                    f"the {what} have values of about {size:.3g}, and TAGI's priors have the "
                    f"scale of 1: standardize them (tractable.data.Standardizer), or use "
                    f"tractable.sklearn.TAGIRegressor, which does",
                    UserWarning,
                    stacklevel=3,
                )

    def prune(self, state: TAGIState, fraction: float, per_layer: bool) -> None:
        """Prune weights; without variance no message changes them again."""
        kept = state.posterior.pruning_mask(fraction, per_layer=per_layer)
        state.posterior.loc.mul_(kept)
        state.posterior.variance.mul_(kept)

    def backup(self, state: TAGIState) -> tuple[Any, ...]:
        """Return what ``undo`` needs; an update draws no random numbers."""
        noise = state.likelihood.named_buffers()
        return (
            state.posterior.loc.clone(),
            state.posterior.variance.clone(),
            dict(state.buffers),  # an update puts new tensors in their place
            {name: tensor.clone() for name, tensor in noise},
            {name: tensor.clone() for name, tensor in self.training(state)[0].items()},
        )

    @override
    def undo(self, state: TAGIState, backup: tuple[Any, ...]) -> None:
        loc, variance, state.buffers, noise, gate = backup
        state.posterior.loc.copy_(loc)
        state.posterior.variance.copy_(variance)
        state.likelihood.set_buffers(noise)
        self.restore_training(state, gate, None)

    def propagate(self, state: TAGIState, x: Tensor) -> Gaussian:
        """Return the Gaussian output of the network, in whose graph only ``x`` receives
        messages.
        """
        locs, variances = ([part.detach() for part in parts] for parts in state.posterior.leaves)
        return self.eager.run(locs, variances, state.buffers, x, train=False)


_RETURN = 0.1
"""Share of the change of the means towards their initial values that tempering would make."""


_RAW = 50.0
"""Median size of a column's values above which a warning recommends standardization."""
_FEW_ROWS, _ENOUGH_ROWS = 10, 1000


def _usual_size(values: Tensor) -> float:
    """Return the largest median size of a column; 0 if it is small or there are few rows.

    The median, unlike the mean, does not depend on a single extreme value.
    """
    loc = values.loc if isinstance(values, Gaussian) else values
    if not loc.is_floating_point() or loc.numel() == 0 or len(loc) < _FEW_ROWS:
        return 0.0
    rows = loc.detach()[:_ENOUGH_ROWS]
    if float(rows.abs().amax()) <= _RAW:
        return 0.0  # the most frequent case, without sorting
    return float(rows.reshape(len(rows), -1).abs().median(0).values.max())
