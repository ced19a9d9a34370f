"""Variational autoencoders: a latent Gaussian, a network from it to the data, and one back.

``z ~ N(0, I)`` and ``x | z`` as a likelihood says, with a decoder's outputs; the posterior of
``z`` is ``N(mean, diag variance)`` with an encoder's outputs (UDL chapter 17; Kingma & Welling,
"Auto-encoding variational Bayes", 2014).  What is learnt is a lower bound of ``log p(x)``:

* ``"elbo"``: ``E log p(x|z) - beta KL(q || p)`` (E 17.18; with ``beta`` other than 1 E 17.30, which
  bounds nothing below 1), the divergence in closed form (E 17.24);
* ``"importance"``: ``E log mean_k p(x, z_k) / q(z_k|x)`` (Burda, Grosse & Salakhutdinov,
  "Importance weighted autoencoders", 2016, eq. 8), tighter with every sample.

The module's output for a row is the bound of its log density, so the gradient learners take it
with ``likelihoods.LogDensity``; ``tractable.generative.VAE`` is the model around it.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.distributions import Normal as NormalDistribution

from tractable.errors import InvalidInput
from tractable.generative.estimators import (
    ESTIMATORS,
    Estimator,
    doubly_reparameterised,
    expectation,
)
from tractable.likelihoods import Likelihood, Normal
from tractable.predictive import Predictive

Bound = Literal["elbo", "importance"]
_AT_ONCE = 1 << 20  # numbers of decoder outputs at once when nothing is learnt: what a cache holds


class Autoencoder(nn.Module):
    """A density of ``x`` by a latent Gaussian: any encoder, any decoder, any likelihood.

    Approximate: the output is a lower bound of the log density, estimated by draws of the latent;
    with ``"importance"`` it rises to the density as samples are added.

    Args:
        encoder: from rows of ``x`` (and the context, behind it) to ``2 latent`` numbers: the means
            and the log variances of the latent.
        decoder: from ``latent`` numbers (and the context) to what the likelihood takes.
        likelihood: how ``x`` depends on the decoder's outputs.  The noise of ``Normal()`` is learnt
            along with the weights.
        latent: number of latent coordinates.
        beta: weight of the divergence in what is learnt, for ``"elbo"``.
        samples: draws of the latent per row.
        bound: ``"elbo"``, their average, or ``"importance"``, the logarithm of the average weight.
        estimator: ``"reparameterised"``; or ``"score"``, for ``"elbo"``; or ``"doubly"``, for
            ``"importance"``: a gradient of less variance (``tractable.generative.estimators``).
        binarize: take ``x`` as probabilities and draw 0 or 1 anew at every pass (grey images).

    >>> net = Autoencoder(nn.Linear(3, 4), nn.Linear(2, 3), Normal(0.5), latent=2)
    >>> net(torch.zeros(5, 3)).shape
    torch.Size([5, 1])
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        likelihood: Likelihood,
        *,
        latent: int,
        beta: float = 1.0,
        samples: int = 1,
        bound: Bound = "elbo",
        estimator: Estimator = "reparameterised",
        binarize: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(likelihood, Likelihood):
            raise TypeError(
                f"likelihood must be one of tractable.likelihoods, got {type(likelihood).__name__}"
            )
        if latent < 1:
            raise ValueError(
                f"latent must be at least 1, got {latent}: with none, all rows are one"
            )
        if samples < 1:
            raise ValueError(f"samples must be at least 1, got {samples}")
        if not (math.isfinite(beta) and beta >= 0):
            raise ValueError(f"beta must be a number from 0, got {beta}")
        if bound not in ("elbo", "importance"):
            raise ValueError(f"bound must be 'elbo' or 'importance', got {bound!r}")
        if estimator not in ESTIMATORS:
            raise ValueError(f"estimator must be one of {ESTIMATORS}, got {estimator!r}")
        if bound == "importance" and (beta != 1 or estimator == "score"):
            raise ValueError(
                "the importance-weighted bound has no beta and is reparameterised: leave beta=1 "
                "and estimator='reparameterised' or 'doubly', or take bound='elbo'"
            )
        if bound == "elbo" and estimator == "doubly":
            raise ValueError("estimator='doubly' is for importance weights: bound='importance'")
        self.encoder, self.decoder, self.likelihood = encoder, decoder, likelihood
        self.latent, self.beta, self.samples = latent, float(beta), samples
        self.bound, self.estimator, self.binarize = bound, estimator, binarize
        self.log_noise: nn.Parameter | None = None
        if isinstance(likelihood, Normal) and likelihood.traits.learns_noise:
            self.log_noise = nn.Parameter(torch.zeros(likelihood.outputs))

    def reset_parameters(self) -> None:
        """The noise as it begins; encoder and decoder have their own first weights."""
        if self.log_noise is not None:
            nn.init.zeros_(self.log_noise)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """The bound of each row's log density, ``[rows, 1]``."""
        if self.binarize:
            x = drawn(x)
        bound = self.elbo if self.bound == "elbo" else self.evidence
        return bound(x, context, samples=self.samples).unsqueeze(1)

    # --- its parts -------------------------------------------------------------------------

    def encode(self, x: Tensor, context: Tensor | None = None) -> NormalDistribution:
        """What is known of the latent of each row, ``q(z|x)``."""
        found = self.encoder(_beside(x, context))
        if found.shape != (len(x), 2 * self.latent):
            raise InvalidInput(
                f"the encoder must give {2 * self.latent} numbers a row, means and log variances "
                f"of {self.latent} latent coordinates; it gave {tuple(found.shape)} for "
                f"{len(x)} rows"
            )
        mean, log_variance = found.chunk(2, -1)
        return NormalDistribution(mean, (0.5 * log_variance).exp(), validate_args=False)

    def decode(self, z: Tensor, context: Tensor | None = None) -> Predictive:
        """The distribution of ``x`` at rows of the latent."""
        outputs = self.decoder(_beside(z, context))
        with self.noise():
            return self.likelihood.predictive(outputs, torch.zeros_like(outputs))

    def reconstruction(self, x: Tensor, z: Tensor, context: Tensor | None = None) -> Tensor:
        """``log p(x|z)`` of draws of the latent: ``z [draws, rows, latent]``, ``x [rows, ...]``."""
        draws, rows = z.shape[:2]
        if context is not None:
            context = _repeated(context, draws)
        outputs = self.decoder(_beside(z.flatten(0, 1), context))
        seen = self.likelihood.targets(x, torch.Size((rows, *outputs.shape[1:])))
        with self.noise():
            return self.likelihood.log_prob(_repeated(seen, draws), outputs).reshape(draws, rows)

    def noise(self) -> AbstractContextManager[Any]:
        """The likelihood with the noise that was learnt."""
        if self.log_noise is None:
            return nullcontext()
        return self.likelihood.holding({"noise_mean": self.log_noise.exp()})

    # --- bounds ----------------------------------------------------------------------------

    def elbo(self, x: Tensor, context: Tensor | None = None, *, samples: int = 1) -> Tensor:
        """``E log p(x|z) - beta KL(q || p)`` of each row (E 17.18, 17.30)."""
        q, noise = self._proposed(x, context, samples)

        def value(z: Tensor) -> Tensor:
            return self.reconstruction(x, z, context)

        found = expectation(value, q, noise, self.estimator).mean(0)
        return found - self.beta * kl_to_prior(q.loc, q.scale**2)

    def _proposed(
        self, x: Tensor, context: Tensor | None, samples: int
    ) -> tuple[NormalDistribution, Tensor]:
        """``q(z|x)``, and standard normal numbers for draws of it."""
        q = self.encode(x, context)
        return q, torch.randn(samples, *q.loc.shape, dtype=q.loc.dtype, device=q.loc.device)

    def prior_sample(
        self, rows: int, generator: torch.Generator, context: Tensor | None = None
    ) -> Tensor:
        """Draws of the latent from its prior, and of ``x`` given them (one for each context)."""
        like = next(self.parameters())
        z = torch.randn(rows, self.latent, generator=generator, dtype=like.dtype).to(like.device)
        return self.decode(z, context).sample(1, generator)[0].to(like.dtype)

    def log_weights(self, x: Tensor, context: Tensor | None = None, *, samples: int = 1) -> Tensor:
        """``log p(x, z) - log q(z|x)`` of draws of the latent, ``[samples, rows]``.

        Their mean is a bound of ``log p(x)`` (E 17.16), the logarithm of the mean of their
        exponentials a tighter one; at the exact posterior all of a row are equal.
        """
        q, noise = self._proposed(x, context, samples)
        z = q.loc + q.scale * noise
        # log N(z; 0, 1) - log N(z; mean, scale), without the constants that both have.
        ratio = (0.5 * (noise**2 - z**2) + q.scale.log()).sum(-1)
        return self.reconstruction(x, z, context) + ratio

    def evidence(self, x: Tensor, context: Tensor | None = None, *, samples: int = 1) -> Tensor:
        """The importance-weighted bound of each row (Burda et al., eq. 8)."""
        if self.estimator == "doubly" and torch.is_grad_enabled():
            q, noise = self._proposed(x, context, samples)

            def log_joint(z: Tensor) -> Tensor:
                return self.reconstruction(x, z, context) - 0.5 * z.square().sum(-1)

            return doubly_reparameterised(log_joint, q, noise)
        if torch.is_grad_enabled() or not len(x):
            weights = self.log_weights(x, context, samples=samples)
            return weights.logsumexp(0) - math.log(samples)
        # Without gradients, rows and samples in parts: 5,000 samples need no memory for all.
        with torch.no_grad():
            width = max(x[0].numel(), 1)
        rows = max(min(len(x), _AT_ONCE // (width * min(samples, 100))), 1)
        found = []
        for start in range(0, len(x), rows):
            part = slice(start, start + rows)
            given = None if context is None else context[part]
            total = x.new_full((len(x[part]),), -math.inf, dtype=torch.float64)
            for some in _parts(samples, max(_AT_ONCE // (width * len(x[part])), 1)):
                weights = self.log_weights(x[part], given, samples=some).double()
                total = torch.logaddexp(total, weights.logsumexp(0))
            found.append((total - math.log(samples)).to(x.dtype))
        return torch.cat(found)


def drawn(probability: Tensor) -> Tensor:
    """Zeros and ones with these probabilities (three times as fast as ``torch.bernoulli``)."""
    return (torch.rand_like(probability) < probability).to(probability.dtype)


def kl_to_prior(mean: Tensor, covariance: Tensor) -> Tensor:
    """``KL(N(mean, covariance) || N(0, I))`` of each row (UDL E 17.24).

    Args:
        mean: ``[..., latent]``.
        covariance: variances ``[..., latent]``, or matrices ``[..., latent, latent]``.
    """
    if covariance.shape == mean.shape:
        trace, log_det = covariance.sum(-1), covariance.log().sum(-1)
    else:
        trace, log_det = covariance.diagonal(dim1=-2, dim2=-1).sum(-1), torch.logdet(covariance)
    return 0.5 * (trace + mean.square().sum(-1) - mean.shape[-1] - log_det)


def slerp(start: Tensor, end: Tensor, share: float) -> Tensor:
    """Spherical interpolation between two latent vectors (UDL B 17.6).

    Between draws of a wide Gaussian the straight line passes where there is hardly any mass; the
    arc keeps the length.

    >>> slerp(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]), 0.5)
    tensor([0.7071, 0.7071])
    """
    cosine = torch.nn.functional.cosine_similarity(start, end, dim=-1).clamp(-1, 1)
    angle = torch.acos(cosine).unsqueeze(-1)
    parallel = angle.sin() < 1e-6
    sine = torch.where(parallel, torch.ones_like(angle), angle.sin())
    first = torch.where(
        parallel, torch.full_like(angle, 1 - share), ((1 - share) * angle).sin() / sine
    )
    second = torch.where(parallel, torch.full_like(angle, share), (share * angle).sin() / sine)
    return first * start + second * end


def _beside(x: Tensor, context: Tensor | None) -> Tensor:
    return x if context is None else torch.cat([x.flatten(1), context.flatten(1)], 1)


def _repeated(x: Tensor, times: int) -> Tensor:
    """All rows ``times`` times over."""
    return x if times == 1 else x.expand(times, *x.shape).flatten(0, 1)


def _parts(total: int, most: int) -> list[int]:
    return [min(most, total - start) for start in range(0, total, most)]
