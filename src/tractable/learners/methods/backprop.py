"""Backprop: a point estimate of the weights, by maximum likelihood (eq. 1) or MAP (eq. 2).

With ``prior=Normal`` the log prior is an L2 penalty, with ``Laplace`` an L1 penalty.  With
``mc_dropout`` the network's dropout layers stay active when predicting, and a prediction averages
over their masks (Gal & Ghahramani, "Dropout as a Bayesian approximation", 2016).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from typing_extensions import override

from tractable.learners.learner import Learner
from tractable.learners.methods.base import BatchPosition, TensorDict
from tractable.learners.methods.gradient import (
    DROPOUT,
    GradientMethod,
    GradientState,
    OptimizerOptions,
)
from tractable.learners.network.functional import Network
from tractable.learners.network.reset import reset_parameters
from tractable.likelihoods import Likelihood
from tractable.posterior import Posterior, flat
from tractable.priors import Prior, as_prior
from tractable.training.callbacks import EpochRecord
from tractable.training.inputs import Inputs

Init = Literal["fresh", "net"]


@dataclass(frozen=True, kw_only=True)
class BackpropOptions(OptimizerOptions):
    """Options of ``Backprop``; its docstring describes them."""

    prior: Prior | torch.distributions.Distribution | dict[str, Any] | None = None
    mc_dropout: bool = False
    init: Init = "fresh"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.init not in ("fresh", "net"):
            raise ValueError(f"init must be 'fresh' or 'net', got {self.init!r}")


class BackpropMethod(GradientMethod):
    """The method of ``Backprop``; a state has one vector, which contains the weights."""

    options_class = BackpropOptions
    options: BackpropOptions

    def __init__(self, network: Network, likelihood: Likelihood, options: Any = None) -> None:
        super().__init__(network, likelihood, options)
        if self.options.mc_dropout and not self.drops:
            raise ValueError(
                "mc_dropout=True needs dropout layers, and the network has none: add nn.Dropout, "
                "or use mc_dropout=False"
            )
        prior = self.options.prior
        self.prior = None if prior is None else as_prior(prior)
        self.keeps_dropout = self.options.mc_dropout

    def config(self) -> dict[str, Any]:
        """Return the options as JSON values."""
        prior = None
        if self.prior is not None:
            prior = self.prior.config() or {"name": "of the user's own"}
        return {
            "prior": prior,
            "mc_dropout": self.options.mc_dropout,
            "init": self.options.init,
            **self.options.config(),
        }

    @override
    def init(self, likelihood: Likelihood, seed: int) -> GradientState:
        state = GradientState(likelihood, self.network.initial_buffers(), seed)
        module = self.network.module
        if self.options.init == "fresh":
            with self.forward_rng.seeded(state.generator):
                reset_parameters(module)
        named = dict(module.named_parameters())
        first = flat([named[name].detach() for name in self.network.shapes])
        self.options.start(state, [first], self.network)
        return state

    # --- the objective -----------------------------------------------------------------------

    @override
    def divergence_share(self, position: BatchPosition) -> float:
        return position.share

    @override
    def gradients(
        self, state: GradientState, x: Inputs, y: Tensor, buffers: TensorDict, weight: float
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        w = state.vectors[0].detach()
        leaves = [part.requires_grad_() for part in self.network.split(w)]
        with self.holding(leaves, buffers):
            log_likelihood, z = self.log_likelihood(state, leaves, buffers, x, y)
            minus = log_likelihood.new_full((), -1.0)
            gradients = torch.autograd.grad(log_likelihood, leaves, minus, allow_unused=True)
        parts = zip(gradients, leaves, strict=True)
        d_w = flat([torch.zeros_like(leaf) if g is None else g for g, leaf in parts])
        return log_likelihood.detach(), z, [self.with_prior(state, d_w, weight)]

    def with_prior(self, state: GradientState, d_w: Tensor, weight: float) -> Tensor:
        """Return the sum of the gradients of batch and prior; 0 for pruned weights."""
        if self.prior is not None:
            d_w.sub_(self.prior.score(state.vectors[0].detach()), alpha=weight)
        if state.kept is not None:
            d_w.mul_(state.kept)
        return d_w

    @override
    def end_epoch(self, state: GradientState) -> EpochRecord:
        record = super().end_epoch(state)
        if self.prior is not None:
            log_prior = self.prior.log_prob(state.vectors[0].detach())
            record["log_prior"] = float(log_prior.sum(dtype=torch.float64))
        return record

    # --- predicting --------------------------------------------------------------------------

    def weights(
        self, state: GradientState, n_weight_samples: int, generator: torch.Generator
    ) -> Iterator[list[Tensor]]:
        """Yield the weights once, or once per dropout mask."""
        weights = self.network.split(state.vectors[0].detach())
        for _ in range(n_weight_samples if self.options.mc_dropout else 1):
            yield weights

    def evaluate(self, state: GradientState, weights: list[Tensor], x: Inputs) -> Tensor:
        """Return outputs; dropout stays active with ``mc_dropout``."""
        if not self.options.mc_dropout:
            return super().evaluate(state, weights, x)
        module = self.network.module.eval()
        layers = [layer for layer in module.modules() if isinstance(layer, DROPOUT)]
        for layer in layers:
            layer.train()
        try:
            return self.run(weights, state.buffers, x, train=False)
        finally:
            for layer in layers:
                layer.eval()

    def sample(self, state: GradientState, x: Inputs, n: int, generator: torch.Generator) -> Tensor:
        """Return the same outputs ``n`` times, or the outputs of ``n`` dropout masks."""
        drawn = super().sample(state, x, n, generator)
        return drawn if self.options.mc_dropout else drawn.expand(n, *drawn.shape[1:])

    def posterior(self, state: GradientState) -> Posterior:
        """Return the weights as Gaussians with variance 0."""
        loc = state.vectors[0].detach().clone()
        variance = float("inf") if self.prior is None else self.prior.variance
        shapes = self.network.shapes
        return Posterior(shapes, loc, torch.zeros_like(loc), dict.fromkeys(shapes, variance))

    # --- state -------------------------------------------------------------------------------

    @override
    def keep(self, state: GradientState, kept: Tensor) -> None:
        state.kept = kept if state.kept is None else kept & state.kept
        state.vectors[0].detach().mul_(state.kept)

    @override
    def learnt(self, state: GradientState) -> TensorDict:
        (w,) = state.vectors
        kept = torch.ones_like(w, dtype=torch.bool) if state.kept is None else state.kept
        buffers = {f"buffer/{name}": b for name, b in state.buffers.items()}
        return {**self.named(w, "loc"), **buffers, "kept": kept}

    @override
    def restore(self, state: GradientState, learnt: TensorDict) -> None:
        vector = flat([learnt[f"loc/{name}"] for name in self.network.shapes])
        self.options.start(state, [vector], self.network)
        kept = learnt["kept"].bool()
        state.kept = None if bool(kept.all()) else kept
        state.buffers = {name: learnt[f"buffer/{name}"].clone() for name in state.buffers}


class Backprop(Learner):
    """A learner of a point estimate of the weights, by gradients (maximum likelihood or MAP).

    Args:
        net: any module.
        likelihood: observation model.
        prior: ``None`` for the maximum-likelihood estimate, or a prior for the MAP estimate.
        mc_dropout: keep dropout active when predicting.
        init: ``"fresh"``: initialize every layer by its ``reset_parameters``, with this learner's
            seed; ``"net"``: start from the weights of ``net``, for example pretrained ones.
        lr: learning rate.
        optimizer: class of ``torch.optim``, its name, or a ``functools.partial`` of it.
        schedule: schedule of the learning rate: ``"constant"``, ``"cosine"``, or a class of
            ``torch.optim.lr_scheduler``.  The rate changes once per epoch: with ``"cosine"`` epoch
            k of n, counted from 0, has the rate ``lr (1 + cos(pi k / n)) / 2``.  A fit of one
            epoch and online updates therefore have the constant rate ``lr``.
        n_weight_samples: number of dropout masks that a prediction averages over, with
            ``mc_dropout``.
        device: device of the computation. Default: CPU.
        dtype: ``torch.float32`` or ``torch.float64``. Default: torch's default dtype.
        seed: seed of the random generator for initial weights, the order of rows and samples.

    Exact: the gradient of the log-likelihood of a batch.  Approximate: the weights have no
    variance (with ``mc_dropout``, only that of the dropout masks).
    """

    method_class = BackpropMethod
    method: BackpropMethod
    state: GradientState
