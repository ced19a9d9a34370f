"""TAGI: closed-form Gaussian inference of the weights, without gradients.

One update: moments forward through the network, messages backward from the likelihood to every
parameter (carried by autograd, see ``tractable.rules``), and the batch rule that turns summed
messages into new means and variances.

Source: Goulet, Nguyen & Amiri, "Tractable approximate Gaussian inference for Bayesian neural
networks" (2021); Nguyen & Goulet, "Analytically tractable hidden-states inference in Bayesian
neural networks" (2022), section 2 and appendix B.1, B.2.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tractable.gaussian import Gaussian
from tractable.learners import batch_rule, native_engine
from tractable.learners.arrays import Loader, Rows
from tractable.learners.base import Learner, Moment
from tractable.learners.batch_rule import BATCH_RULES, BatchRule
from tractable.learners.compiled import CompiledStep
from tractable.learners.native_engine import Engine, Floats, Outputs
from tractable.learners.progress import Progress
from tractable.likelihoods import Likelihood
from tractable.posterior import Posterior, Scheme, flat, initial_posterior
from tractable.predictive import Predictive
from tractable.rules.activation import MODES, Mode, activation_moments

_FLAT_UPDATE_BELOW = 1 << 17  # parameters; above, updating one by one saves memory passes


class NonFiniteUpdate(ArithmeticError):
    """An update would have made a parameter infinite or NaN; nothing was changed."""


class TAGI(Learner):
    """Learn Gaussian weights in closed form.

    Args:
        net: any module whose torch functions have moment rules.
        likelihood: how observations depend on the network's outputs.
        init: scheme of the prior variances: ``"lecun"`` (1 / fan_in, as published), ``"he"`` or
            ``"xavier"``.
        gain: factor on those variances; the means are drawn from the prior.
        moments: of activations: ``"linear"`` (eq. 10) or ``"exact"`` where a closed form exists.
        batch_rule: ``"damped"`` or ``"published"``; see ``tractable.learners.batch_rule``.
        forget: share of the information of an epoch that is forgotten over the next one, falling
            to zero at the last; 0 is the textbook method, for one pass or for streams.
        device: where to compute.
        dtype: ``torch.float32`` or ``torch.float64``.
        seed: of the initial means and of the order of the rows.
        compile: compile the whole step with ``torch.compile``, once per shape of batch.
        engine: ``"native"`` computes with the compiled kernel (chains of linear layers and
            elementwise activations in float32 on the CPU), ``"torch"`` with torch, ``"auto"``
            with the kernel where it can and is faster.  The result is the same but for rounding.

    Attributes:
        engine: what computes: ``"native"`` or ``"torch"``.  Where ``"auto"`` chose the kernel,
            torch still takes inputs of other shapes and batches that are large for it.

    An epoch that is interrupted leaves the native engine as it was before that epoch.  One that
    meets a message that is not finite ends with ``NonFiniteUpdate``, and either engine is as it
    was before the batch that caused it.
    """

    def __init__(
        self,
        net: nn.Module,
        likelihood: Likelihood,
        *,
        init: Scheme = "lecun",
        gain: float = 0.25,
        moments: Mode = "linear",
        batch_rule: BatchRule = "damped",
        forget: float = 0.3,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        seed: int = 0,
        compile: bool = False,
        engine: Engine = "auto",
    ) -> None:
        super().__init__(net, likelihood, device=device, dtype=dtype, seed=seed)
        if moments not in MODES:
            raise ValueError(f"moments must be one of {', '.join(MODES)}; got {moments!r}")
        if batch_rule not in BATCH_RULES:
            raise ValueError(
                f"batch_rule must be one of {', '.join(BATCH_RULES)}; got {batch_rule!r}"
            )
        if not 0 <= forget <= 1:
            raise ValueError(f"forget must lie between 0 and 1, got {forget}")
        self.init: Scheme = init
        self.gain = gain
        self.moments: Mode = moments
        self.batch_rule: BatchRule = batch_rule
        self.forget = forget
        self.seed = seed
        self.compile = compile
        self.posterior: Posterior = initial_posterior(
            self.net,
            scheme=init,
            gain=gain,
            generator=self.generator,
            dtype=self.dtype,
            device=self.device,
        )
        self.buffers = {name: b.clone() for name, b in self.net.named_buffers()}
        self._compiled = CompiledStep(self._traceable_step) if compile else None
        self._asked_engine = engine
        self._native = native_engine.choose(self, engine)
        self.engine = "torch" if self._native is None else "native"
        self.parallel = self._native is not None

    # --- learning ------------------------------------------------------------------------

    def _learn(self, x: Tensor, y: Tensor, moment: Moment | None) -> None:
        rate = 0.0 if moment is None else self.forget * moment.share * (1 - moment.progress)
        kernel = self._native
        if kernel is not None and kernel.takes(x) and kernel.suits_updates(len(x)):
            if not kernel.learn(self.posterior, self.likelihood, x, y, forget=rate):
                raise NonFiniteUpdate(_NON_FINITE)
            return
        uncertain = isinstance(x, Gaussian) or isinstance(y, Gaussian)
        if self._compiled is not None and not uncertain:
            self._learn_compiled(x, y, rate)
            return
        buffers = {name: b.clone() for name, b in self.buffers.items()}
        posterior = self.posterior
        absorbed, shift, g_var, step = self._messages(
            *posterior.leaves, buffers, x, y, *self._pieces(posterior.scratch)
        )
        alpha, observed, finite = torch.stack([step.alpha, step.observed, step.finite]).tolist()
        if not finite:
            raise NonFiniteUpdate(_NON_FINITE)
        with torch.no_grad():
            pieces = zip(
                *self._pieces(posterior.loc, posterior.variance), shift, g_var, strict=True
            )
            for loc, variance, move, bend in pieces:
                batch_rule.apply(self.batch_rule, loc, variance, move, bend, alpha, observed)
            if rate > 0:
                self._forget(rate)
        self._commit(buffers, absorbed)

    def _learn_epoch(
        self, source: Rows | Loader, order: Tensor | None, progress: float, bar: Progress
    ) -> None:
        kernel = self._native
        if (
            kernel is None
            or isinstance(source, Loader)
            or not kernel.takes(source.x)
            or not kernel.suits_epoch(source.batch_size)
        ):
            super()._learn_epoch(source, order, progress, bar)
            return
        learnt = kernel.learn(
            self.posterior,
            self.likelihood,
            source.x,
            source.y,
            order=order,
            batch_size=source.batch_size,
            forget=self.forget * (1 - progress),
            advance=bar.advance,
        )
        self.fitted = self.fitted or learnt > 0
        if learnt < source.batches:
            raise NonFiniteUpdate(_NON_FINITE)

    def _forget(self, rate: float) -> None:
        posterior = self.posterior
        if self._updates_at_once:
            prior = posterior.flat_prior_variance
            batch_rule.forget(posterior.variance, prior, rate, posterior.scratch)
            return
        pieces = self._pieces(posterior.variance, posterior.scratch)
        for name, variance, scratch in zip(posterior, *pieces, strict=True):
            batch_rule.forget(variance, posterior.prior_variance[name], rate, scratch)

    @property
    def _updates_at_once(self) -> bool:
        """Whether an update treats all parameters as one vector, or each by itself."""
        return self.posterior.loc.numel() < _FLAT_UPDATE_BELOW

    def _pieces(self, *flat: Tensor) -> list[list[Tensor]]:
        """Flat vectors as the pieces that an update treats at once."""
        if self._updates_at_once:
            return [[vector] for vector in flat]
        return [self.posterior.split(vector) for vector in flat]

    def _messages(
        self,
        locs: list[Tensor],
        variances: list[Tensor],
        buffers: dict[str, Tensor],
        x: Tensor,
        y: Tensor,
        scratch: list[Tensor] | None = None,
    ) -> tuple[dict[str, Tensor], list[Tensor], list[Tensor], batch_rule.Step]:
        """The likelihood's new buffers; ``v g`` and the variance messages; the planned step.

        ``v g`` is written to ``scratch``, if there is one.
        """
        with torch.enable_grad():
            z = self._run(locs, variances, buffers, x, train=True)
        mean, variance = z.loc.detach(), z.variance.detach()
        with torch.no_grad():
            d_mu, d_var = self.likelihood.messages(y, mean, variance)
            absorbed = self.likelihood.update_noise(y, mean, variance)
        leaves = [*locs, *variances]
        grads = torch.autograd.grad([z.loc, z.variance], leaves, [d_mu, d_var], allow_unused=True)
        full = [
            torch.zeros_like(leaf) if d is None else d.contiguous()
            for d, leaf in zip(grads, leaves, strict=True)
        ]
        g, g_var, prior = full[: len(locs)], full[len(locs) :], variances
        if self._updates_at_once:
            g, g_var, prior = [flat(g)], [flat(g_var)], [flat(prior)]
        with torch.no_grad():
            outs: list[Any] = [None] * len(g) if scratch is None else list(scratch)
            shift = [torch.mul(v, a, out=o) for v, a, o in zip(prior, g, outs, strict=True)]
            step = batch_rule.plan(self.batch_rule, d_mu, d_var, variance, shift, g, g_var)
        return absorbed, shift, g_var, step

    def _run(
        self,
        locs: list[Tensor],
        variances: list[Tensor],
        buffers: dict[str, Tensor],
        x: Tensor,
        train: bool,
    ) -> Gaussian:
        if self.net.training is not train:
            self.net.train(train)
        parameters: dict[str, Tensor] = {
            name: Gaussian.wrap(loc, variance)
            for name, loc, variance in zip(self.posterior.shapes, locs, variances, strict=True)
        }
        with activation_moments(self.moments):
            z = torch.func.functional_call(self.net, {**parameters, **buffers}, (x,))
        if not isinstance(z, Gaussian):
            raise TypeError(
                f"the network must return one tensor that depends on its parameters, got "
                f"{type(z).__name__}"
            )
        return z

    def _commit(self, buffers: dict[str, Tensor], likelihood: dict[str, Tensor]) -> None:
        self.buffers = buffers
        for name, value in likelihood.items():
            setattr(self.likelihood, name, value)

    # --- the same step as one compiled graph ----------------------------------------------

    def _learn_compiled(self, x: Tensor, y: Tensor, rate: float) -> None:
        assert self._compiled is not None
        loc, variance, buffers, likelihood, finite = self._compiled(
            self.posterior.loc,
            self.posterior.variance,
            self.buffers,
            dict(self.likelihood.named_buffers(remove_duplicate=False)),
            x,
            y,
            self.posterior.flat_prior_variance if rate > 0 else None,
            torch.tensor(rate, dtype=self.dtype, device=self.device),
        )
        if not bool(finite):
            raise NonFiniteUpdate(_NON_FINITE)
        self.posterior.loc.copy_(loc)
        self.posterior.variance.copy_(variance)
        self._commit(buffers, likelihood)

    def _traceable_step(
        self,
        loc: Tensor,
        variance: Tensor,
        buffers: dict[str, Tensor],
        likelihood: dict[str, Tensor],
        x: Tensor,
        y: Tensor,
        prior: Tensor | None,
        rate: Tensor,
    ) -> tuple[Tensor, Tensor, dict[str, Tensor], dict[str, Tensor], Tensor]:
        """State in, state out: nothing is changed, so a trace of it can be compiled."""
        buffers = {name: b.clone() for name, b in buffers.items()}
        leaves = [
            [part.detach().requires_grad_() for part in self.posterior.split(flat)]
            for flat in (loc, variance)
        ]
        held = dict(self.likelihood.named_buffers(remove_duplicate=False))
        try:
            for name, value in likelihood.items():
                setattr(self.likelihood, name, value)
            absorbed, shift, g_var, step = self._messages(leaves[0], leaves[1], buffers, x, y)
        finally:
            for name, value in held.items():
                setattr(self.likelihood, name, value)
        with torch.no_grad():
            loc, variance = batch_rule.updated(
                self.batch_rule, loc, variance, flat(shift), flat(g_var), step
            )
            if prior is not None:
                batch_rule.forget(variance, prior, rate)
        return loc, variance, buffers, absorbed, step.finite

    # --- predicting ----------------------------------------------------------------------

    def propagate(self, x: Tensor) -> Gaussian:
        """The Gaussian of the network's output, in whose graph only ``x`` gets messages."""
        locs, variances = ([part.detach() for part in parts] for parts in self.posterior.leaves)
        return self._run(locs, variances, self.buffers, x, train=False)

    def snapshot(self) -> Outputs:
        """The network as it is now, as a function of arrays: for many small predictions.

        Returns:
            A function from float32 rows to the mean and variance of the outputs, without checks
            and without the likelihood's noise.  What is learnt later does not change it.
        """
        if self._native is not None:
            return self._native.snapshot(self.posterior)
        frozen = self._twin(0)

        def outputs(rows: Floats) -> tuple[Floats, Floats]:
            mean, variance = frozen._outputs(torch.from_numpy(rows))
            return mean.numpy(), variance.numpy()

        return outputs

    def _outputs(self, x: Tensor) -> tuple[Tensor, ...]:
        kernel = self._native
        if kernel is not None and kernel.takes(x) and kernel.suits_predictions(len(x)):
            return kernel.outputs(self.posterior, x)
        with torch.no_grad():
            z = self._run(*self.posterior.leaves, self.buffers, x, train=False)
        return z.loc, z.variance

    def _input_gradient(self, x: Tensor, y: Tensor, **options: Any) -> Tensor:
        """The evidence's message to the mean of the input."""
        leaf = x.detach().clone().requires_grad_()
        with torch.enable_grad():
            z = self._run(*self.posterior.leaves, self.buffers, leaf, train=False)
        with torch.no_grad():
            messages = self.likelihood.messages(y, z.loc.detach(), z.variance.detach())
        return torch.autograd.grad([z.loc, z.variance], leaf, list(messages))[0]

    def _moments(self, outputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        mean, variance = outputs
        return mean, variance

    def _predictive(self, outputs: tuple[Tensor, ...]) -> Predictive:
        return self.likelihood.predictive(*outputs)

    # --- state ---------------------------------------------------------------------------

    def _prune(self, kept: Tensor) -> None:
        # Without variance no message moves a weight again.
        self.posterior.loc.mul_(kept)
        self.posterior.variance.mul_(kept)

    def _tensors(self) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        for name, gaussian in self.posterior.gaussians().items():
            tensors[f"loc/{name}"] = gaussian.loc
            tensors[f"variance/{name}"] = gaussian.variance
        return tensors | {f"buffer/{name}": b for name, b in self.buffers.items()}

    def _restore(self, tensors: dict[str, Tensor]) -> None:
        shapes = self.posterior.shapes
        self.posterior = Posterior(
            shapes,
            flat([tensors[f"loc/{name}"] for name in shapes]),
            flat([tensors[f"variance/{name}"] for name in shapes]),
            self.posterior.prior_variance,
        )
        self.buffers = {name: tensors[f"buffer/{name}"].clone() for name in self.buffers}

    def _options(self) -> dict[str, Any]:
        return {
            "init": self.init,
            "gain": self.gain,
            "moments": self.moments,
            "batch_rule": self.batch_rule,
            "forget": self.forget,
            "seed": self.seed,
            "compile": self.compile,
            # A file must load on a machine without the kernel.
            "engine": "torch" if self._asked_engine == "torch" else "auto",
        }


_NON_FINITE = (
    "a message is not finite, so the update was not made: (a) inputs or targets are too large "
    "for the dtype (standardise them), (b) the noise is far too small for the residuals, or "
    "(c) a custom likelihood or rule divides by zero"
)
