"""Gaussian mixture models by expectation-maximization: everything in closed form."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from tractable.errors import InvalidInput, InvalidModelFile
from tractable.generative import em
from tractable.generative.base import GenerativeModel
from tractable.generative.em import MixtureParams, missing_patterns
from tractable.generative.predictive import Density
from tractable.training.progress import Progress

_CANDIDATES = (1, 2, 3, 5, 8, 12, 18, 27)  # numbers of components, each about 1.5 times the last
_VALIDATION_FRACTION = 0.2  # of the rows, for the selection of the number of components
_MAX_WORSE = 2  # candidates in a row without improvement, after which the selection stops
_PRIOR_VARIANCE = 0.1  # of standardized columns, whose variance is 1
_MAX_COMPONENTS = 10_000  # in a file
_PARTS = ("weights", "means", "covariances")


class GaussianMixture(GenerativeModel):
    """A mixture of normal distributions with full covariances.

    Rows may have missing values (NaN), which are integrated out in training and filled in by
    ``predict().impute``. With ``fit(X, context)`` the mixture is of both, and a prediction is its
    conditional distribution.

    Exact: every step of EM, the density, its conditionals. Approximate: EM finds a local maximum,
    and treats its parameters as known. A single mixture, the best of ``n_init`` starts, is
    overconfident for few rows; an ensemble averages over maxima, which improves imputed values and
    the coverage of their intervals.

    Args:
        n_components: number of components. Default: selected from 1 to 27 on a fifth of the rows.
        prior_count: weight of a prior on each covariance, in rows: each component is treated as if
            it had seen so many rows with a tenth of the columns' variance, so that none shrinks to
            a point; 0 for maximum likelihood.
        n_init: number of random starts, of which the best is kept.
        n_estimators: number of mixtures in an ensemble whose densities are averaged. Above 1 each
            has a single start of its own; with one component all are equal.
        max_iter: maximum number of EM steps of a start.
        tol: minimum gain of the log-likelihood per row, in nats, for another EM step.
        common: arguments of ``GenerativeModel``.

    Attributes:
        mixture_: the components in standardized columns, one mixture of the ensemble after the
            other.
        history_: log-likelihood per row, with the prior's share, before every step of the best
            start (of an ensemble the first mixture); never decreasing.
        validation_scores_: validation log-likelihood per row by number of components, if selected.

    >>> x = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    >>> model = GaussianMixture(1, prior_count=0.0, validation_fraction=0.0).fit(x)
    >>> rows = model.predict().impute(torch.tensor([[0.5, float("nan")]]), n_samples=3)
    >>> rows.shape
    torch.Size([3, 1, 2])
    """

    supports_nan: ClassVar[bool] = True

    def __init__(
        self,
        n_components: int | None = None,
        *,
        prior_count: float = 1.0,
        n_init: int = 3,
        n_estimators: int = 1,
        max_iter: int = 200,
        tol: float = 1e-4,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        if n_components is not None and n_components < 1:
            raise ValueError(f"n_components must be at least 1, got {n_components}")
        if not (math.isfinite(prior_count) and prior_count >= 0):
            raise ValueError(f"prior_count must be a finite number from 0, got {prior_count}")
        counts = {"n_init": n_init, "n_estimators": n_estimators, "max_iter": max_iter}
        for name, value in counts.items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.n_components, self.prior_count = n_components, float(prior_count)
        self.n_init, self.n_estimators = n_init, n_estimators
        self.max_iter, self.tol = max_iter, float(tol)
        self.mixture_: MixtureParams | None = None
        self.history_: list[float] = []
        self.validation_scores_: dict[int, float] = {}

    # --- fitting ---------------------------------------------------------------------------

    @override
    def _fit(
        self, x: Tensor, context: Tensor | None, *, progress: bool | None, **options: Any
    ) -> None:
        if options:
            raise TypeError(f"GaussianMixture.fit has no arguments {', '.join(options)}")
        rows = x if context is None else torch.cat([context, x], 1)
        rows = rows.double()
        scores: dict[int, float] = {}
        if self.n_components is not None and self.n_components > len(rows):
            raise InvalidInput(f"{self.n_components} components need as many rows, got {len(rows)}")
        n_candidates = len(_CANDIDATES) if self.n_components is None else 1
        n_starts = self.n_init if self.n_estimators == 1 else self.n_estimators
        with Progress(n_candidates - 1 + n_starts, type(self).__name__, progress) as bar:
            if self.n_components is None:
                scores = self._select(rows, bar)
            number = self.n_components or max(scores, key=lambda number: scores[number])
            fit = self._fit_best if self.n_estimators == 1 else self._fit_ensemble
            self.mixture_, self.history_ = fit(rows, number, bar)
        self.validation_scores_ = scores

    def _select(self, rows: Tensor, bar: Progress) -> dict[int, float]:
        """Return the validation score by number of components, until two in a row are worse."""
        generator = torch.Generator().manual_seed(self.seed)
        order = torch.randperm(len(rows), generator=generator)
        n_validation = max(int(_VALIDATION_FRACTION * len(rows)), 1)
        validation, train = rows[order[:n_validation]], rows[order[n_validation:]]
        n_worse, scores = 0, dict[int, float]()
        for number in _CANDIDATES:
            # At least two rows for each parameter of a mean, and two more.
            if number > max(len(train) // (2 * rows.shape[1] + 2), 1) or n_worse == _MAX_WORSE:
                break
            mixture, _ = self._run_em(train, number, generator, bar)  # one start is enough here
            score = float(mixture.log_joint(validation).logsumexp(1).mean())
            n_worse = 0 if not scores or score > max(scores.values()) else n_worse + 1
            scores[number] = score
        return scores

    def _fit_best(
        self, rows: Tensor, number: int, bar: Progress
    ) -> tuple[MixtureParams, list[float]]:
        generator = torch.Generator().manual_seed(self.seed)
        n_starts = 1 if number == 1 else self.n_init
        found = [self._run_em(rows, number, generator, bar) for _ in range(n_starts)]
        return max(found, key=lambda pair: pair[1][-1])

    def _fit_ensemble(
        self, rows: Tensor, number: int, bar: Progress
    ) -> tuple[MixtureParams, list[float]]:
        """Return the average of mixtures, each from its own start, as one mixture."""
        generator = torch.Generator().manual_seed(self.seed)
        n_starts = 1 if number == 1 else self.n_estimators
        found = [self._run_em(rows, number, generator, bar) for _ in range(n_starts)]
        members = [mixture for mixture, _ in found] * (self.n_estimators // n_starts)
        weights, means, covariances = (
            torch.cat([getattr(member, name) for member in members]) for name in _PARTS
        )
        return MixtureParams(weights / self.n_estimators, means, covariances), found[0][1]

    def _run_em(
        self, rows: Tensor, number: int, generator: torch.Generator, bar: Progress
    ) -> tuple[MixtureParams, list[float]]:
        """Run EM from one start until convergence; return the mixture and its history."""
        prior = {"prior_count": self.prior_count, "prior_variance": _PRIOR_VARIANCE}
        mixture = kmeans_pp_init(rows, number, generator)
        history: list[float] = []
        for _ in range(self.max_iter):
            found = em.e_step(mixture, rows)
            value = (found.log_likelihood + em.log_prior(mixture, **prior)) / len(rows)
            if not math.isfinite(value):
                raise ArithmeticError("the likelihood is not finite: use prior_count above 0")
            converged = bool(history) and value - history[-1] < self.tol
            history.append(value)
            if converged:
                break
            new = em.m_step(mixture, found, **prior)
            if bool(torch.linalg.cholesky_ex(new.covariances)[1].any()):
                raise ArithmeticError(
                    f"a component has shrunk to a point or a plane. Use (a) fewer components than "
                    f"{number}, (b) prior_count above {self.prior_count}, (c) fewer columns"
                )
            mixture = new
        bar.advance(1)
        return mixture, history

    # --- predicting ------------------------------------------------------------------------

    @override
    def _density(self, context: Tensor | None, **options: Any) -> MixtureDensity:
        if options:
            raise TypeError(f"GaussianMixture.predict has no arguments {', '.join(options)}")
        if self.mixture_ is None:
            raise self._not_fitted()
        return MixtureDensity(self.mixture_, context, self.dtype, self.n_estimators)

    # --- files -----------------------------------------------------------------------------

    @override
    def config(self) -> dict[str, Any]:
        return {
            "n_components": self.n_components, "prior_count": self.prior_count,
            "n_init": self.n_init, "n_estimators": self.n_estimators, "max_iter": self.max_iter,
            "tol": self.tol,
        }  # fmt: skip

    @override
    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        if self.mixture_ is None:
            raise self._not_fitted()
        tensors = {name: getattr(self.mixture_, name) for name in _PARTS}
        scores = [[number, score] for number, score in self.validation_scores_.items()]
        return tensors, {"history": self.history_, "validation_scores": scores}

    @override
    def unpack(
        self, path: Path, tensors: dict[str, Tensor], header: dict[str, Any], net: nn.Module | None
    ) -> None:
        mixture = MixtureParams(*(tensors[name] for name in _PARTS))
        self.mixture_ = _checked(mixture, self._n_columns(), self.n_estimators)
        self.history_ = [float(value) for value in header["history"]]
        self.validation_scores_ = {
            int(number): float(score) for number, score in header["validation_scores"]
        }

    def _n_columns(self) -> int:
        n_context = 0 if self.context_scaler_ is None else self.context_scaler_.n_varying
        return self.fitted_scaler().n_varying + n_context


class MixtureDensity(Density):
    """A mixture as a distribution of rows; with a context, its conditional distribution.

    Args:
        mixture: mixture of contexts (if there are any) and rows beside them.
        context: rows of the context, or None.
        dtype: type of samples.
        n_estimators: number of equal parts of the components that are the mixtures of an ensemble.
    """

    def __init__(
        self,
        mixture: MixtureParams,
        context: Tensor | None,
        dtype: torch.dtype,
        n_estimators: int = 1,
    ) -> None:
        self.mixture, self.dtype, self.n_estimators = mixture, dtype, n_estimators
        self.context = None if context is None else context.double()
        self.n_context = 0 if context is None else context.shape[1]

    @override
    def log_prob(self, z: Tensor) -> Tensor:
        return self._log_prob(z, 1)[0]

    @override
    def log_prob_by_weights(self, z: Tensor) -> Tensor:
        return self._log_prob(z, self.n_estimators)

    def _log_prob(self, z: Tensor, n_parts: int) -> Tensor:
        """Return log densities under each of ``n_parts`` equal parts, ``[n_parts, rows]``."""

        def total(joint: Tensor) -> Tensor:
            found = joint.unflatten(1, (n_parts, -1)).logsumexp(2).T
            return found + math.log(n_parts)

        found = total(self.mixture.log_joint(self._with_context(z.double())))
        if self.context is not None:
            columns = torch.arange(self.n_context)
            found = found - total(self.mixture.log_marginal(self.context, columns))
        return found.to(z.dtype)

    @override
    def sample(self, n_samples: int, generator: torch.Generator) -> Tensor:
        rows = 1 if self.context is None else len(self.context)
        unknown = torch.full((rows, self.mixture.means.shape[1] - self.n_context), math.nan)
        samples = self._filled(unknown.double(), n_samples, generator).to(self.dtype)
        return samples[:, 0] if self.context is None else samples

    @override
    def impute(
        self, z: Tensor, known: Tensor, n_samples: int, generator: torch.Generator
    ) -> Tensor:
        given = torch.where(known, z.double(), math.nan)
        return self._filled(given, n_samples, generator).to(z.dtype)

    def _filled(self, rows: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
        """Return rows with missing values sampled, ``[n_samples, rows, columns]``."""
        given = self._with_context(rows)
        filled = given.expand(n_samples, -1, -1).clone()
        for at, known, missing in missing_patterns(given):
            if not len(missing):
                continue
            log_weights, means, covariances = self.mixture.conditional(
                given[at][:, known], known, missing
            )
            chosen = torch.multinomial(
                log_weights.exp(), n_samples, replacement=True, generator=generator
            )
            root = torch.linalg.cholesky(_with_jitter(covariances))
            shape = (n_samples, len(at), len(missing))
            noise = torch.randn(shape, generator=generator, dtype=torch.float64)
            component = chosen.T  # [n_samples, rows]
            mean = means[torch.arange(len(at)), component]
            samples = mean + (root[component] @ noise.unsqueeze(-1)).squeeze(-1)
            filled[:, at[:, None], missing] = samples
        return filled[..., self.n_context :]

    def _with_context(self, z: Tensor) -> Tensor:
        """Return rows with their contexts in front."""
        if self.context is None:
            return z
        return torch.cat([self.context.expand(len(z), -1), z], 1)


def kmeans_pp_init(rows: Tensor, number: int, generator: torch.Generator) -> MixtureParams:
    """Return a mixture with means at distant rows, and the covariance of all rows, shrunk.

    The means are drawn as in Arthur & Vassilvitskii, "k-means++" (2007): each with a probability
    proportional to its squared distance from the nearest of those before it.
    """
    filled = torch.where(rows.isnan(), rows.nanmean(0), rows)
    centered = filled - filled.mean(0)
    covariance = centered.T @ centered / len(rows)
    if number == 1:
        return MixtureParams(rows.new_ones(1), filled.mean(0)[None], _regularized(covariance)[None])
    at = [int(torch.randint(len(rows), (), generator=generator))]
    distance = (filled - filled[at[0]]).square().sum(1)
    for _ in range(number - 1):
        weights = distance if float(distance.sum()) > 0 else torch.ones_like(distance)
        at.append(int(torch.multinomial(weights, 1, generator=generator)))
        distance = torch.minimum(distance, (filled - filled[at[-1]]).square().sum(1))
    weights = rows.new_full((number,), 1 / number)
    shrinkage = number ** (-2 / rows.shape[1])
    covariances = _regularized(covariance * shrinkage).expand(number, -1, -1)
    return MixtureParams(weights, filled[at], covariances)


def _regularized(covariance: Tensor) -> Tensor:
    """Return a covariance with some variance in every direction."""
    eye = torch.eye(len(covariance), dtype=covariance.dtype)
    return covariance + (1e-6 + 0.01 * covariance.diagonal().mean()) * eye


def _with_jitter(covariances: Tensor) -> Tensor:
    """Return covariances with rounding errors on their diagonal compensated."""
    size = covariances.diagonal(dim1=1, dim2=2).amax(1)[:, None, None].clamp_min(1e-300)
    return covariances + 1e-12 * size * torch.eye(covariances.shape[-1], dtype=torch.float64)


def _checked(mixture: MixtureParams, columns: int, n_estimators: int) -> MixtureParams:
    """Return the mixture of a file, if it is a valid one of so many columns."""
    weights, means, covariances = mixture.weights, mixture.means, mixture.covariances
    number = len(weights)
    shapes = (weights.shape, means.shape, covariances.shape)
    if shapes != ((number,), (number, columns), (number, columns, columns)):
        raise InvalidModelFile(f"a mixture cannot have tensors of shapes {shapes}")
    if not 1 <= number <= _MAX_COMPONENTS or any(
        t.dtype != torch.float64 or not bool(t.isfinite().all()) for t in (weights, means)
    ):
        raise InvalidModelFile("the weights and means of a mixture must be finite")
    if number % n_estimators:
        raise InvalidModelFile(f"{number} components are not divisible among {n_estimators}")
    sums = weights.reshape(n_estimators, -1).sum(1) * n_estimators
    if bool((weights < 0).any()) or float((sums - 1).abs().max()) > 1e-6:
        raise InvalidModelFile(
            "the weights of a mixture must be probabilities: not negative, with sum 1"
        )
    if covariances.dtype != torch.float64 or bool(torch.linalg.cholesky_ex(covariances)[1].any()):
        raise InvalidModelFile("the covariances of a mixture must be positive definite")
    return mixture
