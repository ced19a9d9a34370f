r"""Bayes by Backprop: a Gaussian posterior of the weights, by the gradient of the ELBO.

Every weight is ``N(mu, sigma^2)`` with ``sigma = log(1 + exp(rho))``.  One step draws
``w = mu + sigma eps`` (eq. 8) and follows the gradient of
``f = log q(w) - log P(w) - log P(D|w)``, eqs. (10) and (11).  With
``G = -d(log P(D|w) + log P(w))/dw`` they come to

    d_mu  = G                              the two terms of log q cancel
    d_rho = (G eps - 1/sigma) sigmoid(rho)

and when the divergence is in closed form, its own gradient takes the place of the terms in
``log q`` and ``log P(w)``.  ``estimator="local"`` draws the outputs of layers instead
(``tractable.learners.local``); the gradient of the variances is then ``2 sigma sigmoid(rho)`` times
that of ``sigma^2``.

Source: Blundell, Cornebise, Kavukcuoglu & Wierstra, "Weight uncertainty in neural networks"
(2015), and its replication of the same name, sections 2.2 to 2.5; misprints corrected (eq. 9 is a
mean over draws, eqs. 12 and 13 descend).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn

from tractable.learners.base import Moment
from tractable.learners.callbacks import Record
from tractable.learners.gradient import GradientLearner, Schedule
from tractable.learners.local import Local
from tractable.learners.optimiser import Factory
from tractable.likelihoods import Likelihood
from tractable.posterior import Posterior, flat, is_scale
from tractable.priors import Normal, Prior
from tractable.priors import prior as prior_of

_softplus: Any = torch.nn.functional.softplus  # its annotation leaves out ``out``

Estimator = Literal["weights", "local"]
Divergence = Literal["auto", "closed", "sampled"]
KLWeight = Literal["uniform", "blundell"] | float
Init = Literal["published", "he"]

_PREDICTION_SEED = 7_919  # predictions draw from a stream of their own


class BayesByBackprop(GradientLearner):
    """Learn Gaussian weights by the gradient of the evidence lower bound.

    Args:
        net: any module.
        likelihood: how observations depend on the network's outputs.
        prior: one of ``tractable.priors``, or a ``torch.distributions`` object.
        samples: draws per step.
        estimator: ``"weights"`` draws weights, ``"local"`` the outputs of linear and convolutional
            layers, with noise of its own for each row, which makes the gradient less noisy.
        kl: ``"closed"`` form, ``"sampled"`` (eq. 9), or ``"auto"``: closed where the prior has it.
        kl_weight: of the divergence in each batch.  ``"uniform"``: rows of the batch over rows of
            an epoch; ``"blundell"``: ``2^(M-i) / (2^M - 1)`` in batch i of M; or a number.
        init: ``"published"``: means uniform in (-0.2, 0.2); ``"he"``: normal with variance
            2 / fan_in.  Offsets and scales of normalisation layers start at the network's own.
        rho: range that rho is drawn from at first, uniformly.
        lr: learning rate.
        optimizer: class of ``torch.optim``, its name, or a ``functools.partial`` of it.
        schedule: of the learning rate: ``"constant"``, ``"cosine"`` (to zero over a fit), or a
            class of ``torch.optim.lr_scheduler``, stepped once per epoch.
        draws: sets of weights that a prediction averages over.
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
        samples: int = 1,
        estimator: Estimator = "weights",
        kl: Divergence = "auto",
        kl_weight: KLWeight = "uniform",
        init: Init = "published",
        rho: tuple[float, float] = (-5.0, -4.0),
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
        self.prior = Normal() if prior is None else prior_of(prior)
        if samples < 1:
            raise ValueError(f"samples must be at least 1, got {samples}")
        _one_of("estimator", estimator, ("weights", "local"))
        _one_of("kl", kl, ("auto", "closed", "sampled"))
        _one_of("init", init, ("published", "he"))
        if kl == "closed" and not self.prior.closed_form:
            raise ValueError(f"{self.prior!r} has no closed-form divergence: use kl='sampled'")
        if isinstance(kl_weight, str):
            _one_of("kl_weight", kl_weight, ("uniform", "blundell"))
        elif not (math.isfinite(kl_weight) and kl_weight >= 0):
            raise ValueError(f"kl_weight must not be negative, got {kl_weight}")
        if len(rho) != 2 or not (math.isfinite(rho[0]) and rho[0] <= rho[1] < math.inf):
            raise ValueError(f"rho must be a range (low, high), got {rho}")
        self.samples, self.estimator, self.kl, self.kl_weight = samples, estimator, kl, kl_weight
        self.init, self.rho = init, (float(rho[0]), float(rho[1]))
        self._closed = self.prior.closed_form and kl != "sampled"
        self._memory: dict[str, Tensor] = {}
        self._start(self._initial())

    def _initial(self) -> list[Tensor]:
        parts = []
        for name, shape in self.shapes.items():
            if is_scale(self.net, name):
                parts.append(self.net.get_parameter(name).detach().to("cpu", self.dtype).flatten())
            elif self.init == "published":
                u = torch.rand(shape.numel(), generator=self.generator, dtype=self.dtype)
                parts.append(0.4 * u - 0.2)
            else:
                normal = torch.randn(shape.numel(), generator=self.generator, dtype=self.dtype)
                # A bias starts at zero, as usual with this scheme.
                deviation = math.sqrt(2 / shape[1:].numel()) if len(shape) > 1 else 0.0
                parts.append(deviation * normal)
        loc = torch.cat(parts)
        low, high = self.rho
        u = torch.rand(loc.numel(), generator=self.generator, dtype=self.dtype)
        return [loc, low + (high - low) * u]

    # --- the objective -------------------------------------------------------------------

    def _share(self, moment: Moment) -> float:
        if self.kl_weight == "uniform":
            return moment.share
        if self.kl_weight == "blundell":
            return 2.0 ** -(moment.batch + 1) / (1 - 2.0**-moment.batches)
        return float(self.kl_weight)

    def _gradients(
        self, x: Tensor, y: Tensor, buffers: dict[str, Tensor], weight: float
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        mu, rho = (v.detach() for v in self._vectors)
        sigma = _softplus(rho, out=self._scratch("sigma"))
        estimate = self._by_weights if self.estimator == "weights" else self._by_outputs
        log_likelihood, z, d_mu, d_sigma = estimate(mu, sigma, x, y, buffers, weight)
        if self._closed:
            self.prior.add_divergence_gradient(mu, sigma, weight, d_mu, d_sigma)
        else:
            d_sigma.addcdiv_(sigma.new_ones(()), sigma, value=-weight)
        d_rho = d_sigma.mul_(torch.sigmoid(rho, out=sigma))
        if self._kept is not None:
            d_mu, d_rho = (torch.where(self._kept, d, 0) for d in (d_mu, d_rho))
        return log_likelihood, z, [d_mu, d_rho]

    def _by_weights(
        self,
        mu: Tensor,
        sigma: Tensor,
        x: Tensor,
        y: Tensor,
        buffers: dict[str, Tensor],
        weight: float,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Mean over draws of the log-likelihood, and of ``G`` and ``G eps``."""
        total = mu.new_zeros(())
        d_mu, d_sigma = self._scratch("d_mu"), self._scratch("d_sigma")
        for i in range(self.samples):
            eps = self._fill_noise(self._scratch("eps") if i else d_sigma)
            w = torch.addcmul(mu, sigma, eps, out=self._scratch("w"))  # eq. (8)
            leaves = [part.requires_grad_() for part in self._split(w)]
            log_likelihood, z = self._log_likelihood(leaves, buffers, x, y)
            g = self._scratch("g") if i else d_mu
            self._minus_gradient(log_likelihood, leaves, g)
            if not self._closed:
                g.sub_(self.prior.score(w, out=self._scratch("score")), alpha=weight)
            total += log_likelihood.detach()
            eps.mul_(g)
            if i:
                d_mu.add_(g)
                d_sigma.add_(eps)
        if self.samples > 1:
            d_mu.div_(self.samples)
            d_sigma.div_(self.samples)
        return total / self.samples, z, d_mu, d_sigma

    def _by_outputs(
        self,
        mu: Tensor,
        sigma: Tensor,
        x: Tensor,
        y: Tensor,
        buffers: dict[str, Tensor],
        weight: float,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The same with the outputs of layers drawn; the prior, if sampled, by its own draws."""
        variance = torch.mul(sigma, sigma, out=self._scratch("w"))
        locs = [part.detach().requires_grad_() for part in self._split(mu)]
        variances = [part.requires_grad_() for part in self._split(variance)]
        n = self.samples
        if n > 1:  # every row several times: each copy gets noise of its own
            x, y = (t.repeat(n, *[1] * (t.ndim - 1)) for t in (x, y))
        weights: list[Tensor] = [
            Local.wrap(loc, variance, self._noise)
            for loc, variance in zip(locs, variances, strict=True)
        ]
        log_likelihood, z = self._log_likelihood(weights, buffers, x, y)
        log_likelihood = log_likelihood / n
        g = self._scratch("both", 2 * mu.numel())
        self._minus_gradient(log_likelihood, [*locs, *variances], g)
        d_mu, d_sigma = g.chunk(2)
        d_sigma.mul_(sigma).mul_(2)
        if not self._closed:
            for _ in range(n):
                eps = self._fill_noise(self._scratch("eps"))
                w = torch.addcmul(mu, sigma, eps, out=variance)
                score = self.prior.score(w, out=self._scratch("score"))
                d_mu.sub_(score, alpha=weight / n)
                d_sigma.addcmul_(score, eps, value=-weight / n)
        return log_likelihood.detach(), z, d_mu, d_sigma

    def _minus_gradient(self, log_likelihood: Tensor, leaves: list[Tensor], out: Tensor) -> None:
        minus = log_likelihood.new_full((), -1.0)
        gradients = torch.autograd.grad(log_likelihood, leaves, minus, allow_unused=True)
        parts = zip(gradients, leaves, strict=True)
        full = [torch.zeros_like(leaf) if g is None else g for g, leaf in parts]
        torch.cat([g.reshape(-1) for g in full], out=out)

    def _scratch(self, name: str, size: int | None = None) -> Tensor:
        """A vector to write to: new memory in every step would cost more than the sums."""
        if name not in self._memory:
            self._memory[name] = (
                self._vectors[0].detach().new_empty(size or self._vectors[0].numel())
            )
        return self._memory[name]

    def _fill_noise(self, vector: Tensor) -> Tensor:
        if vector.device.type == "cpu":
            return vector.normal_(generator=self.generator)
        return vector.copy_(self._noise(vector.shape))

    def _noise(self, shape: torch.Size) -> Tensor:
        return torch.randn(shape, generator=self.generator, dtype=self.dtype).to(self.device)

    # --- looking -------------------------------------------------------------------------

    @property
    def posterior(self) -> Posterior:
        """The Gaussian of every weight, as it is now (a copy: it does not follow training)."""
        loc, rho = (v.detach().clone() for v in self._vectors)
        variance = torch.nn.functional.softplus(rho).square_()
        return Posterior(
            self.shapes, loc, variance, dict.fromkeys(self.shapes, self.prior.variance)
        )

    def divergence(self, samples: int = 1, generator: torch.Generator | None = None) -> float:
        """``KL(q || prior)`` of all weights, in nats; by ``samples`` draws if not in closed form.

        Weights that were pruned are constants and add nothing.
        """
        mu, rho = (v.detach() for v in self._vectors)
        sigma = torch.nn.functional.softplus(rho)
        if self._kept is not None:
            mu, sigma = mu[self._kept], sigma[self._kept]
        if self._closed:
            return float(self.prior.divergence(mu, sigma).sum(dtype=torch.float64))
        total = 0.0
        for _ in range(samples):
            eps = torch.randn(mu.shape, generator=generator, dtype=self.dtype).to(self.device)
            log_q = -0.5 * eps * eps - sigma.log() - 0.5 * math.log(2 * math.pi)
            log_p = self.prior.log_prob(torch.addcmul(mu, sigma, eps))
            total += float((log_q - log_p).sum(dtype=torch.float64))
        return total / samples

    def elbo(self, X: Any, y: Any, *, samples: int = 100) -> float:
        """The evidence lower bound of these data, in nats: an estimate without bias.

        Args:
            X: inputs.
            y: targets.
            samples: draws of the weights.
        """
        if samples < 1:
            raise ValueError(f"samples must be at least 1, got {samples}")
        x, targets = self._checked(X, y)
        (z,) = self._all_outputs(x, 1024, samples)
        log_likelihood = sum(float(self.likelihood.log_prob(targets, draw).sum()) for draw in z)
        generator = torch.Generator().manual_seed(self.seed + _PREDICTION_SEED)
        return log_likelihood / samples - self.divergence(samples, generator)

    def _epoch_figures(self) -> Record:
        figures = super()._epoch_figures()
        state = self.generator.get_state()  # a look at the divergence leaves training as it was
        figures["kl"] = self.divergence(1, self.generator)
        self.generator.set_state(state)
        return {"elbo": figures["log_likelihood"] - figures["kl"], **figures}

    # --- predicting ----------------------------------------------------------------------

    def _weights(self, draws: int) -> Iterator[list[Tensor]]:
        mu, rho = (v.detach() for v in self._vectors)
        sigma = torch.nn.functional.softplus(rho)
        generator = torch.Generator().manual_seed(self.seed + _PREDICTION_SEED)
        for _ in range(draws):
            eps = torch.randn(mu.shape, generator=generator, dtype=self.dtype).to(self.device)
            yield self._split(torch.addcmul(mu, sigma, eps))

    # --- state ---------------------------------------------------------------------------

    def _prune(self, kept: Tensor) -> None:
        mu, rho = (v.detach() for v in self._vectors)
        mu.masked_fill_(~kept, 0)
        rho.masked_fill_(~kept, -math.inf)  # softplus gives exactly zero
        self._kept = torch.isfinite(rho)

    def _tensors(self) -> dict[str, Tensor]:
        loc, rho = (self._split(v.detach()) for v in self._vectors)
        return {
            **{f"loc/{name}": part for name, part in zip(self.shapes, loc, strict=True)},
            **{f"rho/{name}": part for name, part in zip(self.shapes, rho, strict=True)},
            **{f"buffer/{name}": b for name, b in self.buffers.items()},
        }

    def _restore(self, tensors: dict[str, Tensor]) -> None:
        self._memory = {}  # a twin must not share it
        self._start(
            [flat([tensors[f"{kind}/{name}"] for name in self.shapes]) for kind in ("loc", "rho")]
        )
        finite = torch.isfinite(self._vectors[1].detach())
        self._kept = None if bool(finite.all()) else finite
        self.buffers = {name: tensors[f"buffer/{name}"].clone() for name in self.buffers}

    def _options(self) -> dict[str, Any]:
        return {
            "prior": self.prior.config() or {"name": "of the user's own"},
            "samples": self.samples,
            "estimator": self.estimator,
            "kl": self.kl,
            "kl_weight": self.kl_weight,
            "init": self.init,
            "rho": self.rho,
            **super()._options(),
        }


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}; got {value!r}")
