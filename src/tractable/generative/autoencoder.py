"""Variational autoencoders: a latent Gaussian, a decoder from it to the data, an encoder back.

``z ~ N(0, I)``, and ``x | z`` has a likelihood with the outputs of a decoder; the approximate
posterior of ``z`` is ``N(mean, diag variance)`` with the outputs of an encoder (UDL chapter 17;
Kingma & Welling, "Auto-encoding variational Bayes", 2014). The objective is a lower bound of
``log p(x)``:

* ``"elbo"``: ``E log p(x|z) - beta KL(q || p)`` (E 17.18; for ``beta`` other than 1 E 17.30, which
  is no bound below 1), the divergence in closed form (E 17.24);
* ``"iwae"``: ``E log mean_k p(x, z_k) / q(z_k|x)`` (Burda, Grosse & Salakhutdinov, "Importance
  weighted autoencoders", 2016, eq. 8), tighter with every sample.

The output of the module for a row is the bound of its log density, so the gradient-based learners
train it with ``likelihoods.LogDensity``; ``tractable.generative.VAE`` is the model around it.

The gradient of an expectation in the distribution that it is taken over has three estimators.
``"reparameterized"`` moves the samples with the parameters (UDL E 17.25, 17.33). ``"score"`` keeps
the samples fixed and weights them by the change of their density (E 17.34); it needs no derivative
of the function, and has a larger variance. ``"doubly_reparameterized"`` is for importance weights:
for many samples the plain gradient of the proposal is dominated by its noise (Rainforth et al.,
"Tighter variational bounds are not necessarily better", 2018), unlike this one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.distributions import Normal as NormalDistribution

from tractable.errors import InvalidInput
from tractable.likelihoods import Likelihood, Normal
from tractable.predictive import Predictive

Objective = Literal["elbo", "iwae"]
Estimator = Literal["reparameterized", "score", "doubly_reparameterized"]
_EXPECTATION_ESTIMATORS = ("reparameterized", "score")
ESTIMATORS = (*_EXPECTATION_ESTIMATORS, "doubly_reparameterized")
_CHUNK_NUMBERS = 1 << 20  # decoder outputs at once without gradients: 4 MB, the size of a cache


class Autoencoder(nn.Module):
    """A density of ``x`` with a latent Gaussian, for any encoder, decoder and likelihood.

    Approximate: the output is a lower bound of the log density, estimated from latent samples; with
    ``"iwae"`` it converges to the log density as samples are added.

    Args:
        encoder: from rows of ``x`` (followed by the context) to ``2 latent_dim`` numbers: means and
            log variances of the latent variables.
        decoder: from ``latent_dim`` numbers (followed by the context) to the likelihood's outputs.
        likelihood: likelihood of ``x`` given the decoder's outputs. The noise of ``Normal()`` is
            learned together with the weights.
        latent_dim: number of latent variables.
        beta: weight of the divergence, for ``"elbo"``.
        n_latent_samples: number of latent samples per row.
        objective: ``"elbo"``, or ``"iwae"`` for the importance-weighted bound.
        estimator: ``"reparameterized"``; ``"score"``, for ``"elbo"``; or
            ``"doubly_reparameterized"``, for ``"iwae"``, a gradient of smaller variance.
        binarize: treat ``x`` as probabilities, and sample 0 or 1 in every pass (gray-scale images).

    >>> net = Autoencoder(nn.Linear(3, 4), nn.Linear(2, 3), Normal(0.5), latent_dim=2)
    >>> net(torch.zeros(5, 3)).shape
    torch.Size([5, 1])
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        likelihood: Likelihood,
        *,
        latent_dim: int,
        beta: float = 1.0,
        n_latent_samples: int = 1,
        objective: Objective = "elbo",
        estimator: Estimator = "reparameterized",
        binarize: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(likelihood, Likelihood):
            raise TypeError(
                f"likelihood must be one of tractable.likelihoods, got {type(likelihood).__name__}"
            )
        if latent_dim < 1:
            raise ValueError(f"latent_dim must be at least 1, got {latent_dim}")
        if n_latent_samples < 1:
            raise ValueError(f"n_latent_samples must be at least 1, got {n_latent_samples}")
        if not (math.isfinite(beta) and beta >= 0):
            raise ValueError(f"beta must be a finite number from 0, got {beta}")
        _check_objective(objective, estimator, beta)
        self.encoder, self.decoder, self.likelihood = encoder, decoder, likelihood
        self.latent_dim, self.beta = latent_dim, float(beta)
        self.n_latent_samples, self.objective = n_latent_samples, objective
        self.estimator, self.binarize = estimator, binarize
        self.log_noise: nn.Parameter | None = None
        if isinstance(likelihood, Normal) and likelihood.traits.learns_noise:
            self.log_noise = nn.Parameter(torch.zeros(likelihood.outputs))

    def reset_parameters(self) -> None:
        """Reset the noise; encoder and decoder reset their own parameters."""
        if self.log_noise is not None:
            nn.init.zeros_(self.log_noise)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """Return a lower bound (ELBO) of each row's log density, ``[rows, 1]``."""
        if self.binarize:
            x = sample_bernoulli(x)
        bound = self.elbo if self.objective == "elbo" else self.iwae
        return bound(x, context, n_samples=self.n_latent_samples).unsqueeze(1)

    # --- parts -----------------------------------------------------------------------------

    def encode(self, x: Tensor, context: Tensor | None = None) -> NormalDistribution:
        """Return the approximate posterior ``q(z|x)`` of each row.

        Raises:
            InvalidInput: the encoder returns another number of outputs.
        """
        found = self.encoder(_with_context(x, context))
        if found.shape != (len(x), 2 * self.latent_dim):
            raise InvalidInput(
                f"the encoder must return {2 * self.latent_dim} numbers per row, means and log "
                f"variances of {self.latent_dim} latent variables; it returned "
                f"{tuple(found.shape)} for {len(x)} rows"
            )
        mean, log_variance = found.chunk(2, -1)
        return NormalDistribution(mean, (0.5 * log_variance).exp(), validate_args=False)

    def decode(self, z: Tensor, context: Tensor | None = None) -> Predictive:
        """Return the distribution of ``x`` given latent variables, ``[rows, latent_dim]``."""
        outputs = self.decoder(_with_context(z, context))
        with self.noise():
            return self.likelihood.predictive(outputs, torch.zeros_like(outputs))

    def reconstruction_log_prob(
        self, x: Tensor, z: Tensor, context: Tensor | None = None
    ) -> Tensor:
        """Return ``log p(x|z)`` of latent samples, ``[samples, rows]``.

        Args:
            x: rows, ``[rows, ...]``.
            z: latent samples, ``[samples, rows, latent_dim]``.
            context: contexts of the rows.
        """
        samples, rows = z.shape[:2]
        if context is not None:
            context = _repeated(context, samples)
        outputs = self.decoder(_with_context(z.flatten(0, 1), context))
        targets = self.likelihood.check_targets(x, torch.Size((rows, *outputs.shape[1:])))
        with self.noise():
            found = self.likelihood.log_prob(_repeated(targets, samples), outputs)
        return found.reshape(samples, rows)

    def noise(self) -> AbstractContextManager[Any]:
        """Return a context in which the likelihood has the learned noise."""
        if self.log_noise is None:
            return nullcontext()
        return self.likelihood.holding({"noise_mean": self.log_noise.exp()})

    # --- bounds ----------------------------------------------------------------------------

    def elbo(self, x: Tensor, context: Tensor | None = None, *, n_samples: int = 1) -> Tensor:
        """Return ``E log p(x|z) - beta KL(q || p)`` of each row (E 17.18, 17.30)."""
        q, noise = self._proposal(x, context, n_samples)

        def value(z: Tensor) -> Tensor:
            return self.reconstruction_log_prob(x, z, context)

        found = expectation(value, q, noise, self.estimator).mean(0)
        return found - self.beta * kl_to_prior(q.loc, q.scale**2)

    def _proposal(
        self, x: Tensor, context: Tensor | None, n_samples: int
    ) -> tuple[NormalDistribution, Tensor]:
        """Return ``q(z|x)``, and standard normal numbers for samples of it."""
        q = self.encode(x, context)
        return q, torch.randn(n_samples, *q.loc.shape, dtype=q.loc.dtype, device=q.loc.device)

    def prior_sample(
        self, rows: int, generator: torch.Generator, context: Tensor | None = None
    ) -> Tensor:
        """Return samples of ``x`` with latent variables from the prior (one for each context).

        Args:
            rows: number of samples.
            generator: random number generator on the CPU.
            context: conditions, ``[rows, ...]``. Default: none.
        """
        like = next(self.parameters())
        z = torch.randn(rows, self.latent_dim, generator=generator, dtype=like.dtype)
        return self.decode(z.to(like.device), context).sample(1, generator)[0].to(like.dtype)

    def log_weights(
        self, x: Tensor, context: Tensor | None = None, *, n_samples: int = 1
    ) -> Tensor:
        """Return ``log p(x, z) - log q(z|x)`` of latent samples, ``[n_samples, rows]``.

        Their mean is a bound of ``log p(x)`` (E 17.16), the logarithm of the mean of their
        exponentials a tighter one; under the exact posterior all weights of a row are equal.
        """
        q, noise = self._proposal(x, context, n_samples)
        z = q.loc + q.scale * noise
        # log N(z; 0, 1) - log N(z; mean, scale), without the constants that cancel.
        ratio = (0.5 * (noise**2 - z**2) + q.scale.log()).sum(-1)
        return self.reconstruction_log_prob(x, z, context) + ratio

    def iwae(self, x: Tensor, context: Tensor | None = None, *, n_samples: int = 1) -> Tensor:
        """Return the importance-weighted bound of each row (Burda et al., eq. 8)."""
        if self.estimator == "doubly_reparameterized" and torch.is_grad_enabled():
            q, noise = self._proposal(x, context, n_samples)

            def log_joint(z: Tensor) -> Tensor:
                return self.reconstruction_log_prob(x, z, context) - 0.5 * z.square().sum(-1)

            return doubly_reparameterized(log_joint, q, noise)
        if torch.is_grad_enabled() or not len(x):
            weights = self.log_weights(x, context, n_samples=n_samples)
            return weights.logsumexp(0) - math.log(n_samples)
        # Without gradients rows and samples are processed in chunks, to bound the memory.
        with torch.no_grad():
            width = max(x[0].numel(), 1)
        rows = max(min(len(x), _CHUNK_NUMBERS // (width * min(n_samples, 100))), 1)
        found = []
        for start in range(0, len(x), rows):
            part = slice(start, start + rows)
            given = None if context is None else context[part]
            total = x.new_full((len(x[part]),), -math.inf, dtype=torch.float64)
            for count in _chunks(n_samples, max(_CHUNK_NUMBERS // (width * len(x[part])), 1)):
                weights = self.log_weights(x[part], given, n_samples=count).double()
                total = torch.logaddexp(total, weights.logsumexp(0))
            found.append((total - math.log(n_samples)).to(x.dtype))
        return torch.cat(found)


def expectation(
    function: Callable[[Tensor], Tensor],
    over: NormalDistribution,
    noise: Tensor,
    estimator: Estimator,
) -> Tensor:
    """Return values of a function at samples, whose gradient estimates that of the expectation.

    With several samples the score estimator subtracts from each value the mean of the others, which
    leaves the expected gradient unchanged and reduces its variance.

    Args:
        function: from samples ``[samples, ..., latent]`` to ``[samples, ...]``.
        over: independent normal distributions, ``[..., latent]``.
        noise: standard normal numbers, ``[samples, ..., latent]``.
        estimator: ``"reparameterized"`` or ``"score"``.

    Returns:
        The values, ``[samples, ...]``: their mean is the estimate.

    >>> import torch
    >>> mean = torch.tensor([1.5], requires_grad=True)
    >>> noise = torch.tensor([[0.5]])
    >>> over = NormalDistribution(mean, 1.0)
    >>> value = expectation(lambda z: (z**2).sum(-1), over, noise, "score")
    >>> value.backward()
    >>> value.item(), mean.grad.item()  # z^2 and z^2 (z - mean)
    (4.0, 2.0)
    """
    if estimator not in _EXPECTATION_ESTIMATORS:
        raise ValueError(f"estimator must be one of {_EXPECTATION_ESTIMATORS}, got {estimator!r}")
    samples = over.loc + over.scale * noise
    if estimator == "reparameterized":
        return function(samples)
    samples = samples.detach()
    value = function(samples)
    weight, n = value.detach(), len(value)
    if n > 1:
        weight = (weight - weight.mean(0)) * n / (n - 1)  # value minus the mean of the others
    log_density = over.log_prob(samples).sum(-1)
    return value + weight * (log_density - log_density.detach())


def doubly_reparameterized(
    log_joint: Callable[[Tensor], Tensor], over: NormalDistribution, noise: Tensor
) -> Tensor:
    """Return the IWAE bound ``log mean_k p(x, z_k) / q(z_k)``, with a low-variance gradient.

    Tucker et al., "Doubly reparameterized gradient estimators for Monte Carlo objectives" (2019),
    eq. 8: with weights ``w_k`` that sum to one, the gradient of the joint is ``sum w_k d log p``,
    that of ``q`` is ``sum w_k^2 (d log p / dz - d log q / dz) dz``, and the dependence of ``log q``
    on its own parameters, whose expected gradient is zero, is left out.

    Args:
        log_joint: from samples ``[samples, ..., latent]`` to ``[samples, ...]``, without the
            constant ``latent log(2 pi) / 2``, which cancels that of ``q``.
        over: independent normal distributions, ``[..., latent]``.
        noise: standard normal numbers, ``[samples, ..., latent]``.
    """
    z = over.loc + over.scale * noise
    mean, scale = over.loc.detach(), over.scale.detach()
    log_q = -(0.5 * ((z - mean) / scale) ** 2 + scale.log()).sum(-1)
    log_weights = log_joint(z) - log_q
    weights = log_weights.detach().softmax(0)
    if z.requires_grad:
        z.register_hook(lambda gradient: gradient * weights.unsqueeze(-1))
    value = (weights * log_weights).sum(0)
    bound = log_weights.detach().logsumexp(0) - math.log(len(noise))
    return bound + value - value.detach()


def sample_bernoulli(probability: Tensor) -> Tensor:
    """Return zeros and ones with these probabilities (three times as fast as ``bernoulli``)."""
    return (torch.rand_like(probability) < probability).to(probability.dtype)


def kl_to_prior(mean: Tensor, covariance: Tensor) -> Tensor:
    """Return ``KL(N(mean, covariance) || N(0, I))`` of each row (UDL E 17.24).

    Args:
        mean: ``[..., latent]``.
        covariance: variances ``[..., latent]``, or matrices ``[..., latent, latent]``.
    """
    if covariance.shape == mean.shape:
        trace, log_det = covariance.sum(-1), covariance.log().sum(-1)
    else:
        trace, log_det = covariance.diagonal(dim1=-2, dim2=-1).sum(-1), torch.logdet(covariance)
    return 0.5 * (trace + mean.square().sum(-1) - mean.shape[-1] - log_det)


def slerp(start: Tensor, end: Tensor, weight: float) -> Tensor:
    """Return the spherical interpolation between two latent vectors (UDL B 17.6).

    Between samples of a high-dimensional Gaussian the straight line passes where there is hardly
    any mass; the arc keeps the length.

    Args:
        start: first vector.
        end: second vector.
        weight: weight of the second vector, from 0 to 1.

    >>> slerp(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]), 0.5)
    tensor([0.7071, 0.7071])
    """
    cosine = torch.nn.functional.cosine_similarity(start, end, dim=-1).clamp(-1, 1)
    angle = torch.acos(cosine).unsqueeze(-1)
    parallel = angle.sin() < 1e-6
    sine = torch.where(parallel, torch.ones_like(angle), angle.sin())
    first = torch.where(
        parallel, torch.full_like(angle, 1 - weight), ((1 - weight) * angle).sin() / sine
    )
    second = torch.where(parallel, torch.full_like(angle, weight), (weight * angle).sin() / sine)
    return first * start + second * end


def _check_objective(objective: str, estimator: str, beta: float) -> None:
    """Raise for unknown objectives and estimators, and those that exclude each other."""
    if objective not in ("elbo", "iwae"):
        raise ValueError(f"objective must be 'elbo' or 'iwae', got {objective!r}")
    if estimator not in ESTIMATORS:
        raise ValueError(f"estimator must be one of {ESTIMATORS}, got {estimator!r}")
    if objective == "iwae" and (beta != 1 or estimator == "score"):
        raise ValueError(
            "objective='iwae' has no beta and no score estimator: use beta=1 and "
            "estimator='reparameterized' or 'doubly_reparameterized', or objective='elbo'"
        )
    if objective == "elbo" and estimator == "doubly_reparameterized":
        raise ValueError("estimator='doubly_reparameterized' needs objective='iwae'")


def _with_context(x: Tensor, context: Tensor | None) -> Tensor:
    return x if context is None else torch.cat([x.flatten(1), context.flatten(1)], 1)


def _repeated(x: Tensor, times: int) -> Tensor:
    """Return all rows ``times`` times, one block after the other."""
    return x if times == 1 else x.expand(times, *x.shape).flatten(0, 1)


def _chunks(total: int, size: int) -> list[int]:
    return [min(size, total - start) for start in range(0, total, size)]
