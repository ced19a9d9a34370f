r"""Bayes by Backprop: a Gaussian posterior of the weights, by the gradient of the ELBO.

Every weight is ``N(mu, sigma^2)`` with ``sigma = log(1 + exp(rho))``.  One step draws
``w = mu + sigma eps`` (eq. 8) and follows the gradient of
``f = log q(w) - log P(w) - log P(D|w)``, eqs. (10) and (11).  With
``G = -d(log P(D|w) + log P(w))/dw`` they come to

    d_mu  = G                              the two terms of log q cancel
    d_rho = (G eps - 1/sigma) sigmoid(rho)

and when the divergence is in closed form, its own gradient takes the place of the terms in ``log
q`` and ``log P(w)``.  ``estimator="local"`` draws the outputs of layers instead
(``tractable.learners.methods.variational.local_reparameterization``); the gradient of the variances
is then ``2 sigma sigmoid(rho)`` times that of ``sigma^2``.

Source: Blundell, Cornebise, Kavukcuoglu & Wierstra, "Weight uncertainty in neural networks"
(2015), and its replication of the same name, sections 2.2 to 2.5; misprints corrected (eq. 9 is a
mean over draws, eqs. 12 and 13 descend).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from typing_extensions import override

from tractable.learners.methods.base import BatchPosition, TensorDict
from tractable.learners.methods.gradient import (
    GradientMethod,
    GradientState,
    OptimizerOptions,
)
from tractable.learners.methods.tagi.initialization import reinit_names
from tractable.learners.methods.transfer import is_posterior, transferred_normal_prior
from tractable.learners.methods.variational.local_reparameterization import Local
from tractable.learners.network.functional import Network
from tractable.learners.network.module_copy import scripted_parameters
from tractable.likelihoods import Likelihood
from tractable.persistence.validation import Domain
from tractable.posterior import Posterior, flat, is_scale
from tractable.priors import Normal, NormalEach, Prior, as_prior
from tractable.training.callbacks import EpochRecord
from tractable.training.inputs import Inputs, map_inputs

_softplus: Any = torch.nn.functional.softplus  # its annotation leaves out ``out``

Estimator = Literal["weights", "local"]
Divergence = Literal["auto", "closed", "sampled"]
KLWeight = Literal["uniform", "blundell"] | float
Init = Literal["published", "he"]


@dataclass(frozen=True, kw_only=True)
class BBBOptions(OptimizerOptions):
    """Options of ``BayesByBackprop``; its docstring describes them."""

    prior: Any = None
    prior_scale: float = 1.0
    reinit: Sequence[str] = ()
    n_train_samples: int = 1
    estimator: Estimator = "weights"
    kl: Divergence = "auto"
    kl_weight: KLWeight = "uniform"
    init: Init = "published"
    rho: tuple[float, float] = (-5.0, -4.0)
    """As published."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_train_samples < 1:
            raise ValueError(f"n_train_samples must be at least 1, got {self.n_train_samples}")
        _one_of("estimator", self.estimator, ("weights", "local"))
        _one_of("kl", self.kl, ("auto", "closed", "sampled"))
        _one_of("init", self.init, ("published", "he"))
        kl_weight, rho = self.kl_weight, self.rho
        if isinstance(kl_weight, str):
            _one_of("kl_weight", kl_weight, ("uniform", "blundell"))
        elif not (math.isfinite(kl_weight) and kl_weight >= 0):
            raise ValueError(f"kl_weight must not be negative, got {kl_weight}")
        if len(rho) != 2 or not (math.isfinite(rho[0]) and rho[0] <= rho[1] < math.inf):
            raise ValueError(f"rho must be a range (low, high), got {rho}")


class BBBMethod(GradientMethod):
    """The method of ``BayesByBackprop``; the vectors of a state are ``mu`` and ``rho``."""

    domains: ClassVar[dict[str, Domain]] = {"rho": "below infinity"}

    options_class = BBBOptions
    options: BBBOptions

    def __init__(self, network: Network, likelihood: Likelihood, options: Any = None) -> None:
        super().__init__(network, likelihood, options)
        self.prior = self._prior(self.options.prior)
        if self.options.kl == "closed" and not self.prior.closed_form:
            raise ValueError(f"{self.prior!r} has no closed-form divergence: use kl='sampled'")
        self.closed = self.prior.closed_form and self.options.kl != "sampled"
        local = self.options.estimator == "local"
        self.drawn_at_once = scripted_parameters(network.module) if local else set[str]()

    def _prior(self, prior: Any) -> Prior:
        if is_posterior(prior):
            new = reinit_names(self.network, list(self.options.reinit))
            return transferred_normal_prior(
                prior, self.network.shapes, new, float(self.options.prior_scale)
            )
        if list(self.options.reinit) and not isinstance(prior, dict):
            raise ValueError(
                f"reinit={list(self.options.reinit)} goes with prior= another fit's posterior"
            )
        return Normal() if prior is None else as_prior(prior)

    def config(self) -> dict[str, Any]:
        """Return the options as JSON values."""
        own = ("n_train_samples", "estimator", "kl", "kl_weight", "init")
        return {
            "prior": self.prior.config() or {"name": "of the user's own"},
            "prior_scale": float(self.options.prior_scale),
            "reinit": list(self.options.reinit),
            **{name: getattr(self.options, name) for name in own},
            "rho": tuple(map(float, self.options.rho)),
            **self.options.config(),
        }

    @override
    def init(self, likelihood: Likelihood, seed: int) -> GradientState:
        state = GradientState(likelihood, self.network.initial_buffers(), seed)
        self.options.start(state, self._initial(state.generator), self.network)
        return state

    def _initial(self, generator: torch.Generator) -> list[Tensor]:
        module, dtype = self.network.module, self.network.dtype
        named, parts = dict(module.named_parameters()), []
        for name, shape in self.network.shapes.items():
            if is_scale(module, name):
                parts.append(named[name].detach().to("cpu", dtype).flatten())
            elif self.options.init == "published":
                u = torch.rand(shape.numel(), generator=generator, dtype=dtype)
                parts.append(0.4 * u - 0.2)
            else:
                normal = torch.randn(shape.numel(), generator=generator, dtype=dtype)
                # A bias starts at zero, as usual with this scheme.
                deviation = math.sqrt(2 / shape[1:].numel()) if len(shape) > 1 else 0.0
                parts.append(deviation * normal)
        loc = torch.cat(parts)
        low, high = map(float, self.options.rho)
        u = torch.rand(loc.numel(), generator=generator, dtype=dtype)
        rho = low + (high - low) * u
        if isinstance(self.prior, NormalEach):
            old = [
                name not in reinit_names(self.network, list(self.options.reinit))
                for name in self.network.shapes
            ]
            sizes = [shape.numel() for shape in self.network.shapes.values()]
            known = torch.tensor(old).repeat_interleave(torch.tensor(sizes))
            mean, sigma = self.prior.mean.cpu().to(dtype), self.prior.sigma.cpu().to(dtype)
            loc = torch.where(known, mean, loc)
            # Begun as wide as the prior, few rows would be learnt from under all its noise.
            rho = torch.where(known, torch.minimum(sigma.expm1().log(), rho), rho)
        return [loc, rho]

    # --- the objective -----------------------------------------------------------------------

    @override
    def divergence_share(self, position: BatchPosition) -> float:
        if self.options.kl_weight == "uniform":
            return position.share
        if self.options.kl_weight == "blundell":
            return 2.0 ** -(position.batch + 1) / (1 - 2.0**-position.batches)
        return float(self.options.kl_weight)

    @override
    def gradients(
        self, state: GradientState, x: Inputs, y: Tensor, buffers: TensorDict, weight: float
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        mu, rho = (v.detach() for v in state.vectors)
        sigma = _softplus(rho, out=state.scratch("sigma"))
        estimate = self._by_weights if self.options.estimator == "weights" else self._by_outputs
        log_likelihood, z, d_mu, d_sigma = estimate(state, mu, sigma, x, y, buffers, weight)
        if self.closed:
            self.prior.add_divergence_gradient(mu, sigma, weight, d_mu, d_sigma)
        else:
            d_sigma.addcdiv_(sigma.new_ones(()), sigma, value=-weight)
        d_rho = d_sigma.mul_(torch.sigmoid(rho, out=sigma))
        if state.kept is not None:
            d_mu, d_rho = (torch.where(state.kept, d, 0) for d in (d_mu, d_rho))
        return log_likelihood, z, [d_mu, d_rho]

    def _by_weights(
        self,
        state: GradientState,
        mu: Tensor,
        sigma: Tensor,
        x: Inputs,
        y: Tensor,
        buffers: TensorDict,
        weight: float,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return log-likelihood, outputs, and the means of ``G`` and ``G eps`` over weight
        samples.
        """
        total = mu.new_zeros(())
        d_mu, d_sigma = state.scratch("d_mu"), state.scratch("d_sigma")
        for i in range(self.options.n_train_samples):
            eps = _fill_noise(state.scratch("eps") if i else d_sigma, state.generator)
            w = torch.addcmul(mu, sigma, eps, out=state.scratch("w"))  # eq. (8)
            leaves = [part.requires_grad_() for part in self.network.split(w)]
            g = state.scratch("g") if i else d_mu
            with self.holding(leaves, buffers):
                log_likelihood, z = self.log_likelihood(state, leaves, buffers, x, y)
                _minus_gradient(log_likelihood, leaves, g)
            if not self.closed:
                g.sub_(self.prior.score(w, out=state.scratch("score")), alpha=weight)
            total += log_likelihood.detach()
            eps.mul_(g)
            if i:
                d_mu.add_(g)
                d_sigma.add_(eps)
        if self.options.n_train_samples > 1:
            d_mu.div_(self.options.n_train_samples)
            d_sigma.div_(self.options.n_train_samples)
        return total / self.options.n_train_samples, z, d_mu, d_sigma

    def _by_outputs(
        self,
        state: GradientState,
        mu: Tensor,
        sigma: Tensor,
        x: Inputs,
        y: Tensor,
        buffers: TensorDict,
        weight: float,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the same with sampled layer outputs; the prior, if sampled, has its own
        samples.
        """
        variance = torch.mul(sigma, sigma, out=state.scratch("w"))
        locs = [part.detach().requires_grad_() for part in self.network.split(mu)]
        variances = [part.requires_grad_() for part in self.network.split(variance)]
        n = self.options.n_train_samples
        if n > 1:  # every row several times: each copy gets noise of its own
            x, y = map_inputs(lambda part: _repeated(part, n), x), _repeated(y, n)

        def noise(shape: torch.Size) -> Tensor:
            return _noise(shape, mu, state.generator)

        weights: list[Tensor] = []
        for name, loc, spread in zip(self.network.shapes, locs, variances, strict=True):
            local = Local.wrap(loc, spread, noise)
            weights.append(local.draw() if name in self.drawn_at_once else local)
        g = state.scratch("both", 2 * mu.numel())
        with self.holding(weights, buffers):
            log_likelihood, z = self.log_likelihood(state, weights, buffers, x, y)
            log_likelihood = log_likelihood / n
            _minus_gradient(log_likelihood, [*locs, *variances], g)
        d_mu, d_sigma = g.chunk(2)
        d_sigma.mul_(sigma).mul_(2)
        if not self.closed:
            for _ in range(n):
                eps = _fill_noise(state.scratch("eps"), state.generator)
                w = torch.addcmul(mu, sigma, eps, out=variance)
                score = self.prior.score(w, out=state.scratch("score"))
                d_mu.sub_(score, alpha=weight / n)
                d_sigma.addcmul_(score, eps, value=-weight / n)
        return log_likelihood.detach(), z, d_mu, d_sigma

    @override
    def end_epoch(self, state: GradientState) -> EpochRecord:
        record = super().end_epoch(state)
        before = state.generator.get_state()  # a look at the divergence leaves training as it was
        record["kl"] = self.divergence(state, 1, state.generator)
        state.generator.set_state(before)
        return {"elbo": record["log_likelihood"] - record["kl"], **record}

    def divergence(
        self, state: GradientState, n_samples: int, generator: torch.Generator | None
    ) -> float:
        """Return ``KL(q || prior)`` of all weights in nats, by sampling if not in closed form."""
        mu, rho = (v.detach() for v in state.vectors)
        sigma = torch.nn.functional.softplus(rho)
        kept = torch.ones_like(mu, dtype=torch.bool) if state.kept is None else state.kept
        if self.closed:
            return float(self.prior.divergence(mu, sigma)[kept].sum(dtype=torch.float64))
        total = 0.0
        for _ in range(n_samples):
            eps = _noise(mu.shape, mu, generator)
            log_q = -0.5 * eps * eps - sigma.log() - 0.5 * math.log(2 * math.pi)
            log_p = self.prior.log_prob(torch.addcmul(mu, sigma, eps))
            total += float((log_q - log_p)[kept].sum(dtype=torch.float64))
        return total / n_samples

    # --- predicting --------------------------------------------------------------------------

    @override
    def weights(
        self, state: GradientState, n_weight_samples: int, generator: torch.Generator
    ) -> Iterator[list[Tensor]]:
        mu, rho = (v.detach() for v in state.vectors)
        sigma = torch.nn.functional.softplus(rho)
        for _ in range(n_weight_samples):
            eps = _noise(mu.shape, mu, generator)
            yield self.network.split(torch.addcmul(mu, sigma, eps))

    def sample(self, state: GradientState, x: Inputs, n: int, generator: torch.Generator) -> Tensor:
        """Return outputs for sampled weights; exact, as the posterior is a product of Gaussians."""
        with torch.no_grad():
            drawn = self.posterior(state).iter_samples(n, generator)
            return torch.stack([self.network({**w, **state.buffers}, x) for w in drawn])

    def posterior(self, state: GradientState) -> Posterior:
        """Return the current Gaussians of all weights, as a copy."""
        loc, rho = (v.detach().clone() for v in state.vectors)
        variance = torch.nn.functional.softplus(rho).square_()
        shapes = self.network.shapes
        return Posterior(shapes, loc, variance, dict.fromkeys(shapes, self.prior.variance))

    # --- state -------------------------------------------------------------------------------

    @override
    def keep(self, state: GradientState, kept: Tensor) -> None:
        mu, rho = (v.detach() for v in state.vectors)
        mu.masked_fill_(~kept, 0)
        rho.masked_fill_(~kept, -math.inf)  # softplus gives exactly zero
        state.kept = torch.isfinite(rho)

    @override
    def learnt(self, state: GradientState) -> TensorDict:
        mu, rho = state.vectors
        buffers = {f"buffer/{name}": b for name, b in state.buffers.items()}
        return {**self.named(mu, "loc"), **self.named(rho, "rho"), **buffers}

    @override
    def restore(self, state: GradientState, learnt: TensorDict) -> None:
        vectors = [
            flat([learnt[f"{kind}/{name}"] for name in self.network.shapes])
            for kind in ("loc", "rho")
        ]
        self.options.start(state, vectors, self.network)
        finite = torch.isfinite(state.vectors[1].detach())
        state.kept = None if bool(finite.all()) else finite
        state.buffers = {name: learnt[f"buffer/{name}"].clone() for name in state.buffers}


def _minus_gradient(log_likelihood: Tensor, leaves: list[Tensor], out: Tensor) -> None:
    minus = log_likelihood.new_full((), -1.0)
    gradients = torch.autograd.grad(log_likelihood, leaves, minus, allow_unused=True)
    parts = zip(gradients, leaves, strict=True)
    full = [torch.zeros_like(leaf) if g is None else g for g, leaf in parts]
    torch.cat([g.reshape(-1) for g in full], out=out)


def _fill_noise(vector: Tensor, generator: torch.Generator) -> Tensor:
    if vector.device.type == "cpu":
        return vector.normal_(generator=generator)
    return vector.copy_(_noise(vector.shape, vector, generator))


def _repeated(rows: Tensor, n: int) -> Tensor:
    return rows.repeat(n, *[1] * (rows.ndim - 1))


def _noise(shape: torch.Size, like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=like.dtype).to(like.device)


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}; got {value!r}")
