"""Backprop: one set of weights, of greatest likelihood (eq. 1) or posterior density (eq. 2).

With ``prior=Normal`` the log prior is an L2 penalty, with ``Laplace`` an L1 penalty.  With
``mc_dropout`` the network's dropout layers stay active when predicting, and a prediction averages
over their masks (Gal & Ghahramani, "Dropout as a Bayesian approximation", 2016).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn

from tractable.learners.base import Moment
from tractable.learners.callbacks import Record
from tractable.learners.gradient import _DROPOUT, GradientLearner, Schedule
from tractable.learners.optimiser import Factory
from tractable.likelihoods import Likelihood
from tractable.posterior import Posterior, flat
from tractable.priors import Prior
from tractable.priors import prior as prior_of

Init = Literal["fresh", "net"]

_PREDICTION_SEED = 7_919


class Backprop(GradientLearner):
    """Learn one set of weights.

    Args:
        net: any module.
        likelihood: how observations depend on the network's outputs.
        prior: ``None`` for the maximum-likelihood estimate, or a prior for the MAP estimate.
        mc_dropout: keep dropout active when predicting.
        init: ``"fresh"``: every layer's own ``reset_parameters``, with this learner's seed;
            ``"net"``: the network's weights as they are, for example trained ones.
        lr: learning rate.
        optimizer: class of ``torch.optim``, its name, or a ``functools.partial`` of it.
        schedule: of the learning rate: ``"constant"``, ``"cosine"`` (to zero over a fit), or a
            class of ``torch.optim.lr_scheduler``, stepped once per epoch.
        draws: dropout masks that a prediction averages over, with ``mc_dropout``.
        device: where to compute.
        dtype: ``torch.float32`` or ``torch.float64``.
        seed: of everything that is drawn.
    """

    def __init__(
        self,
        net: nn.Module,
        likelihood: Likelihood,
        *,
        prior: Prior | torch.distributions.Distribution | dict[str, Any] | None = None,
        mc_dropout: bool = False,
        init: Init = "fresh",
        lr: float = 1e-3,
        optimizer: Factory = "Adam",
        schedule: Schedule = "cosine",
        draws: int = 50,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(
            net, likelihood, lr=lr, optimizer=optimizer, schedule=schedule, draws=draws,
            device=device, dtype=dtype, seed=seed,
        )  # fmt: skip
        if init not in ("fresh", "net"):
            raise ValueError(f"init must be 'fresh' or 'net', got {init!r}")
        if mc_dropout and not self._drops:
            raise ValueError("mc_dropout needs a network with dropout layers")
        self.prior = None if prior is None else prior_of(prior)
        self.mc_dropout, self.init = mc_dropout, init
        if init == "fresh":
            with self._seeded_dropout(True):
                for module in self.net.modules():
                    reset: Any = getattr(module, "reset_parameters", None)
                    if reset is not None:
                        reset()
        self._start([flat([self.net.get_parameter(name).detach() for name in self.shapes])])

    # --- the objective -------------------------------------------------------------------

    def _share(self, moment: Moment) -> float:
        return moment.share

    def _gradients(
        self, x: Tensor, y: Tensor, buffers: dict[str, Tensor], weight: float
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        w = self._vectors[0].detach()
        leaves = [part.requires_grad_() for part in self._split(w)]
        log_likelihood, z = self._log_likelihood(leaves, buffers, x, y)
        minus = log_likelihood.new_full((), -1.0)
        gradients = torch.autograd.grad(log_likelihood, leaves, minus, allow_unused=True)
        parts = zip(gradients, leaves, strict=True)
        d_w = flat([torch.zeros_like(leaf) if g is None else g for g, leaf in parts])
        return log_likelihood.detach(), z, [self._with_prior(d_w, weight)]

    def _with_prior(self, d_w: Tensor, weight: float) -> Tensor:
        """The gradient of the batch, with the prior's share in it and zero where pruned."""
        if self.prior is not None:
            d_w.sub_(self.prior.score(self._vectors[0].detach()), alpha=weight)
        if self._kept is not None:
            d_w.mul_(self._kept)
        return d_w

    def _epoch_figures(self) -> Record:
        figures = super()._epoch_figures()
        if self.prior is not None:
            log_prior = self.prior.log_prob(self._vectors[0].detach())
            figures["log_prior"] = float(log_prior.sum(dtype=torch.float64))
        return figures

    # --- looking and predicting ------------------------------------------------------------

    @property
    def posterior(self) -> Posterior:
        """The weights, as Gaussians without variance."""
        loc = self._vectors[0].detach().clone()
        variance = float("inf") if self.prior is None else self.prior.variance
        prior_variance = dict.fromkeys(self.shapes, variance)
        return Posterior(self.shapes, loc, torch.zeros_like(loc), prior_variance)

    def _weights(self, draws: int) -> Iterator[list[Tensor]]:
        weights = self._split(self._vectors[0].detach())
        for _ in range(draws if self.mc_dropout else 1):
            yield weights

    def _all_outputs(
        self, x: Tensor, batch_size: int, draws: int | None = None
    ) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(self.seed + _PREDICTION_SEED)
        with self._seeded_dropout(self.mc_dropout, generator):
            return super()._all_outputs(x, batch_size, draws)

    def _evaluate(self, weights: list[Tensor], x: Tensor) -> Tensor:
        if not self.mc_dropout:
            return super()._evaluate(weights, x)
        self.net.eval()
        layers = [m for m in self.net.modules() if isinstance(m, _DROPOUT)]
        for layer in layers:
            layer.train()
        try:
            return self._run(weights, self.buffers, x, train=False)
        finally:
            for layer in layers:
                layer.eval()

    # --- state ---------------------------------------------------------------------------

    def _prune(self, kept: Tensor) -> None:
        self._kept = kept if self._kept is None else kept & self._kept
        self._vectors[0].detach().mul_(self._kept)

    def _tensors(self) -> dict[str, Tensor]:
        kept = torch.ones_like(self._vectors[0], dtype=torch.bool)
        kept = kept if self._kept is None else self._kept
        named = zip(self.shapes, self._split(self._vectors[0].detach()), strict=True)
        return {
            **{f"loc/{name}": part for name, part in named},
            **{f"buffer/{name}": b for name, b in self.buffers.items()},
            "kept": kept,
        }

    def _restore(self, tensors: dict[str, Tensor]) -> None:
        self._start([flat([tensors[f"loc/{name}"] for name in self.shapes])])
        kept = tensors["kept"].bool()
        self._kept = None if bool(kept.all()) else kept
        self.buffers = {name: tensors[f"buffer/{name}"].clone() for name in self.buffers}

    def _options(self) -> dict[str, Any]:
        return {
            "prior": None
            if self.prior is None
            else self.prior.config() or {"name": "of the user's own"},
            "mc_dropout": self.mc_dropout,
            "init": self.init,
            **super()._options(),
        }
