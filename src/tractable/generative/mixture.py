"""Mixtures of normal distributions by expectation-maximisation: everything in closed form."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tractable.errors import InvalidInput, InvalidModelFile
from tractable.generative import em
from tractable.generative.base import Generative
from tractable.generative.em import Mixture, patterns
from tractable.generative.predictive import Density
from tractable.training.progress import Progress

_TRIED = (1, 2, 3, 5, 8, 12, 18, 27)
_HELD_OUT = 0.2
_PRIOR_VARIANCE = 0.1  # of columns whose variance is one
_MOST_COMPONENTS = 10_000


class GaussianMixture(Generative):
    """A mixture of normal distributions with full covariances, by expectation-maximisation.

    Rows may have holes (NaN), which are integrated out: it learns from what is there, and
    ``predict().complete`` fills them.  With ``fit(context, X)`` the mixture is of both, and a
    prediction is its conditional distribution.

    Exact: every step of EM, the density, its conditionals.  Approximate: EM finds a maximum near
    where it starts; the best of ``starts`` is kept.

    Args:
        components: how many; by default chosen among 1 to 27 by a fifth of the rows, held out of
            first fits.
        prior_rows: rows of a tenth of the columns' variance that each component is taken to have
            seen as well, so that none can shrink to a point; 0 for plain maximum likelihood.
        starts: how many starts to try.
        iterations: the most steps from each.
        tolerance: a step that gains less nats per row is the last.
        common: arguments of ``Generative``.

    Attributes:
        mixture_: the components, in standardised columns.
        history_: log-likelihood per row (and the prior's share) before every step of the best
            start; never falls.
        tried_: held-out log-likelihood per row by number of components, if it was chosen.

    >>> x = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    >>> model = GaussianMixture(1, prior_rows=0.0, held_out=0.0).fit(x)
    >>> rows = model.predict().complete(torch.tensor([[0.5, float("nan")]]), draws=3)
    >>> rows.shape
    torch.Size([3, 1, 2])
    """

    takes_holes: ClassVar[bool] = True

    def __init__(
        self,
        components: int | None = None,
        *,
        prior_rows: float = 1.0,
        starts: int = 3,
        iterations: int = 200,
        tolerance: float = 1e-4,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        if components is not None and components < 1:
            raise ValueError(f"components must be at least 1, got {components}")
        if not (math.isfinite(prior_rows) and prior_rows >= 0):
            raise ValueError(f"prior_rows must be a number from 0, got {prior_rows}")
        for name, value in (("starts", starts), ("iterations", iterations)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.components, self.prior_rows = components, float(prior_rows)
        self.starts, self.iterations, self.tolerance = starts, iterations, float(tolerance)
        self.mixture_: Mixture | None = None
        self.history_: list[float] = []
        self.tried_: dict[int, float] = {}

    # --- learning --------------------------------------------------------------------------

    def learn(
        self, x: Tensor, context: Tensor | None, *, progress: bool | None, **options: Any
    ) -> None:
        """See ``Generative``."""
        if options:
            raise TypeError(f"a mixture has no such options of fit: {', '.join(options)}")
        rows = x if context is None else torch.cat([context, x], 1)
        rows = rows.double()
        tried: dict[int, float] = {}
        if self.components is not None and self.components > len(rows):
            raise InvalidInput(f"{self.components} components need as many rows, got {len(rows)}")
        tries = len(_TRIED) if self.components is None else 1
        with Progress(tries - 1 + self.starts, type(self).__name__, progress) as bar:
            if self.components is None:
                tried = self._tried(rows, bar)
            number = self.components or max(tried, key=lambda number: tried[number])
            self.mixture_, self.history_ = self._best(rows, number, bar)
        self.tried_ = tried

    def _tried(self, rows: Tensor, bar: Progress) -> dict[int, float]:
        """What held-out rows say of numbers of components; looks until two are worse."""
        generator = torch.Generator().manual_seed(self.seed)
        order = torch.randperm(len(rows), generator=generator)
        apart = max(int(_HELD_OUT * len(rows)), 1)
        test, train = rows[order[:apart]], rows[order[apart:]]
        worse, tried = 0, dict[int, float]()
        for number in _TRIED:
            if number > max(len(train) // (2 * rows.shape[1] + 2), 1) or worse == 2:
                break
            mixture, _ = self._climb(train, number, generator, bar)  # one start will do to choose
            score = float(mixture.log_joint(test).logsumexp(1).mean())
            worse = 0 if not tried or score > max(tried.values()) else worse + 1
            tried[number] = score
        return tried

    def _best(self, rows: Tensor, number: int, bar: Progress) -> tuple[Mixture, list[float]]:
        generator = torch.Generator().manual_seed(self.seed)
        tries = 1 if number == 1 else self.starts
        found = [self._climb(rows, number, generator, bar) for _ in range(tries)]
        return max(found, key=lambda pair: pair[1][-1])

    def _climb(
        self, rows: Tensor, number: int, generator: torch.Generator, bar: Progress
    ) -> tuple[Mixture, list[float]]:
        """Steps of EM from one start, until they gain nothing."""
        prior = {"prior_rows": self.prior_rows, "prior_variance": _PRIOR_VARIANCE}
        mixture = start(rows, number, generator)
        history: list[float] = []
        for _ in range(self.iterations):
            found = em.e_step(mixture, rows)
            value = (found.log_likelihood + em.log_prior(mixture, **prior)) / len(rows)
            if not math.isfinite(value):
                raise ArithmeticError("the likelihood is not finite: give prior_rows above 0")
            done = bool(history) and value - history[-1] < self.tolerance
            history.append(value)
            if done:
                break
            new = em.m_step(mixture, found, **prior)
            if bool(torch.linalg.cholesky_ex(new.covariances)[1].any()):
                raise ArithmeticError(
                    f"a component has shrunk to a point or a plane: (a) fewer components than "
                    f"{number}, (b) prior_rows above {self.prior_rows}, (c) fewer columns"
                )
            mixture = new
        bar.advance(1)
        return mixture, history

    # --- predicting ------------------------------------------------------------------------

    def density(self, context: Tensor | None, **options: Any) -> MixtureDensity:
        """See ``Generative``; there are no options."""
        if options:
            raise TypeError(f"a mixture has no such options of predict: {', '.join(options)}")
        assert self.mixture_ is not None
        return MixtureDensity(self.mixture_, context, self.dtype)

    # --- files -----------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        """See ``Generative``."""
        return {
            "components": self.components, "prior_rows": self.prior_rows, "starts": self.starts,
            "iterations": self.iterations, "tolerance": self.tolerance,
        }  # fmt: skip

    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """See ``Generative``."""
        assert self.mixture_ is not None
        found = self.mixture_
        tensors = {
            "weights": found.weights, "means": found.means, "covariances": found.covariances,
        }  # fmt: skip
        tried = [[number, score] for number, score in self.tried_.items()]
        return tensors, {"history": self.history_, "tried": tried}

    def unpack(
        self, path: Path, tensors: dict[str, Tensor], header: dict[str, Any], net: nn.Module | None
    ) -> None:
        """See ``Generative``."""
        mixture = Mixture(*(tensors[name] for name in ("weights", "means", "covariances")))
        self.mixture_ = _checked(mixture, self._columns())
        self.history_ = [float(value) for value in header["history"]]
        self.tried_ = {int(number): float(score) for number, score in header["tried"]}

    def _columns(self) -> int:
        assert self.columns_ is not None
        about = 0 if self.context_columns_ is None else self.context_columns_.modelled
        return self.columns_.modelled + about


def start(rows: Tensor, number: int, generator: torch.Generator) -> Mixture:
    """Centres at rows far from each other, all with the covariance of the whole, shrunk.

    The centres are drawn as by Arthur & Vassilvitskii, "k-means++" (2007): each with a probability
    in proportion to its squared distance from those before it.
    """
    filled = torch.where(rows.isnan(), rows.nanmean(0), rows)
    centred = filled - filled.mean(0)
    whole = centred.T @ centred / len(rows)
    if number == 1:
        return Mixture(rows.new_ones(1), filled.mean(0)[None], _round(whole)[None])
    at = [int(torch.randint(len(rows), (), generator=generator))]
    far = (filled - filled[at[0]]).square().sum(1)
    for _ in range(number - 1):
        chances = far if float(far.sum()) > 0 else torch.ones_like(far)
        at.append(int(torch.multinomial(chances, 1, generator=generator)))
        far = torch.minimum(far, (filled - filled[at[-1]]).square().sum(1))
    weights = rows.new_full((number,), 1 / number)
    share = number ** (-2 / rows.shape[1])
    return Mixture(weights, filled[at], _round(whole * share).expand(number, -1, -1))


def _round(covariance: Tensor) -> Tensor:
    """With some variance in every direction."""
    eye = torch.eye(len(covariance), dtype=covariance.dtype)
    return covariance + (1e-6 + 0.01 * covariance.diagonal().mean()) * eye


class MixtureDensity(Density):
    """A mixture as a distribution over rows; with a context, its conditional one.

    Args:
        mixture: the mixture, of contexts (if there are any) and rows beside them.
        context: rows of context, or None.
        dtype: precision of samples.
    """

    def __init__(self, mixture: Mixture, context: Tensor | None, dtype: torch.dtype) -> None:
        self.mixture, self.dtype = mixture, dtype
        self.context = None if context is None else context.double()
        self.known = 0 if context is None else context.shape[1]

    def log_prob(self, z: Tensor) -> Tensor:
        """See ``Density``; of rows with holes the density of what is there."""
        joint = self.mixture.log_joint(self._whole(z.double())).logsumexp(1)
        if self.context is None:
            return joint.to(z.dtype)
        about = self.mixture.log_marginal(self.context, torch.arange(self.known)).logsumexp(1)
        return (joint - about).to(z.dtype)

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """See ``Density``."""
        rows = 1 if self.context is None else len(self.context)
        nothing = torch.full((rows, self.mixture.means.shape[1] - self.known), math.nan)
        drawn = self._drawn(nothing.double(), n, generator).to(self.dtype)
        return drawn[:, 0] if self.context is None else drawn

    def complete(self, z: Tensor, known: Tensor, draws: int, generator: torch.Generator) -> Tensor:
        """See ``Density``; exact."""
        seen = torch.where(known, z.double(), math.nan)
        return self._drawn(seen, draws, generator).to(z.dtype)

    def _drawn(self, rows_with_holes: Tensor, draws: int, generator: torch.Generator) -> Tensor:
        whole = self._whole(rows_with_holes)
        filled = whole.expand(draws, -1, -1).clone()
        for rows, seen, hidden in patterns(whole):
            if not len(hidden):
                continue
            log_weights, means, covariances = self.mixture.given(whole[rows][:, seen], seen, hidden)
            of = torch.multinomial(log_weights.exp(), draws, replacement=True, generator=generator)
            root = torch.linalg.cholesky(_positive(covariances))
            noise = torch.randn(
                draws, len(rows), len(hidden), generator=generator, dtype=torch.float64
            )
            component = of.T  # [draws, rows]
            mean = means[torch.arange(len(rows)), component]
            drawn = mean + (root[component] @ noise.unsqueeze(-1)).squeeze(-1)
            filled[:, rows[:, None], hidden] = drawn
        return filled[..., self.known :]

    def _whole(self, z: Tensor) -> Tensor:
        """Rows with their contexts in front."""
        if self.context is None:
            return z
        return torch.cat([self.context.expand(len(z), -1), z], 1)


def _positive(covariances: Tensor) -> Tensor:
    """Covariances with what rounding took from their diagonal given back."""
    size = covariances.diagonal(dim1=1, dim2=2).amax(1)[:, None, None].clamp_min(1e-300)
    return covariances + 1e-12 * size * torch.eye(covariances.shape[-1], dtype=torch.float64)


def _checked(mixture: Mixture, columns: int) -> Mixture:
    weights, means, covariances = mixture.weights, mixture.means, mixture.covariances
    number = len(weights)
    shapes = (weights.shape, means.shape, covariances.shape)
    if shapes != ((number,), (number, columns), (number, columns, columns)):
        raise InvalidModelFile(f"a mixture cannot have tensors of shapes {shapes}")
    if not 1 <= number <= _MOST_COMPONENTS or any(
        t.dtype != torch.float64 or not bool(t.isfinite().all()) for t in (weights, means)
    ):
        raise InvalidModelFile("the weights and means of a mixture must be finite")
    if bool((weights < 0).any()) or abs(float(weights.sum()) - 1) > 1e-6:
        raise InvalidModelFile("the weights of a mixture must be probabilities")
    if covariances.dtype != torch.float64 or bool(torch.linalg.cholesky_ex(covariances)[1].any()):
        raise InvalidModelFile("the covariances of a mixture must be positive definite")
    return mixture
