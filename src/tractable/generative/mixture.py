"""Mixtures of normal distributions by expectation-maximisation: everything in closed form."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tractable.errors import InvalidInput, InvalidModelFile, NotFitted
from tractable.generative import em
from tractable.generative.base import Generative
from tractable.generative.em import Mixture
from tractable.generative.mixture_density import MixtureDensity
from tractable.training.progress import Progress

_TRIED = (1, 2, 3, 5, 8, 12, 18, 27)
_HELD_OUT = 0.2
_PRIOR_VARIANCE = 0.1  # of columns whose variance is one
_MOST_COMPONENTS = 10_000
_PARTS = ("weights", "means", "covariances")


class GaussianMixture(Generative):
    """A mixture of normal distributions with full covariances, by expectation-maximisation.

    Rows may have holes (NaN), which are integrated out: it learns from what is there, and
    ``predict().complete`` fills them.  With ``fit(context, X)`` the mixture is of both, and a
    prediction is its conditional distribution.

    Exact: every step of EM, the density, its conditionals.  Approximate: EM finds a maximum near
    where it starts, and takes its parameters as known.  One mixture, the best of ``starts``, is too
    sure where rows are few; ``members`` average over maxima, and what they fill holes with is
    nearer and its intervals hold what they say more often.

    Args:
        components: how many; by default chosen among 1 to 27 by a fifth of the rows, held out of
            first fits.
        prior_rows: rows of a tenth of the columns' variance that each component is taken to have
            seen as well, so that none can shrink to a point; 0 for plain maximum likelihood.
        starts: how many starts to try.
        members: size of an ensemble whose densities are averaged, which is a mixture of all their
            components.  From 2 each has one start of its own instead of the best of ``starts``;
            members of one component are all the same.
        iterations: the most steps from each.
        tolerance: a step that gains less nats per row is the last.
        common: arguments of ``Generative``.

    Attributes:
        mixture_: the components, in standardised columns; member after member.
        history_: log-likelihood per row (and the prior's share) before every step of the best
            start (of an ensemble the first member); never falls.
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
        members: int = 1,
        iterations: int = 200,
        tolerance: float = 1e-4,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        if components is not None and components < 1:
            raise ValueError(f"components must be at least 1, got {components}")
        if not (math.isfinite(prior_rows) and prior_rows >= 0):
            raise ValueError(f"prior_rows must be a number from 0, got {prior_rows}")
        for name, value in (("starts", starts), ("members", members), ("iterations", iterations)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.components, self.prior_rows = components, float(prior_rows)
        self.starts, self.members = starts, members
        self.iterations, self.tolerance = iterations, float(tolerance)
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
        climbs = self.starts if self.members == 1 else self.members
        with Progress(tries - 1 + climbs, type(self).__name__, progress) as bar:
            if self.components is None:
                tried = self._tried(rows, bar)
            number = self.components or max(tried, key=lambda number: tried[number])
            learnt = self._best if self.members == 1 else self._ensemble
            self.mixture_, self.history_ = learnt(rows, number, bar)
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

    def _ensemble(self, rows: Tensor, number: int, bar: Progress) -> tuple[Mixture, list[float]]:
        """A mixture of mixtures, each from a start of its own."""
        generator = torch.Generator().manual_seed(self.seed)
        climbs = 1 if number == 1 else self.members
        found = [self._climb(rows, number, generator, bar) for _ in range(climbs)]
        parts = [mixture for mixture, _ in found] * (self.members // climbs)
        weights, means, covariances = (
            torch.cat([getattr(part, name) for part in parts]) for name in _PARTS
        )
        return Mixture(weights / self.members, means, covariances), found[0][1]

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
        if self.mixture_ is None:
            raise NotFitted("this GaussianMixture has seen no rows: fit it first")
        return MixtureDensity(self.mixture_, context, self.dtype, self.members)

    # --- files -----------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        """See ``Generative``."""
        return {
            "components": self.components, "prior_rows": self.prior_rows, "starts": self.starts,
            "members": self.members, "iterations": self.iterations, "tolerance": self.tolerance,
        }  # fmt: skip

    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """See ``Generative``."""
        if self.mixture_ is None:
            raise NotFitted("this GaussianMixture has seen no rows: fit it first")
        tensors = {name: getattr(self.mixture_, name) for name in _PARTS}
        tried = [[number, score] for number, score in self.tried_.items()]
        return tensors, {"history": self.history_, "tried": tried}

    def unpack(
        self, path: Path, tensors: dict[str, Tensor], header: dict[str, Any], net: nn.Module | None
    ) -> None:
        """See ``Generative``."""
        mixture = Mixture(*(tensors[name] for name in _PARTS))
        self.mixture_ = _checked(mixture, self._columns(), self.members)
        self.history_ = [float(value) for value in header["history"]]
        self.tried_ = {int(number): float(score) for number, score in header["tried"]}

    def _columns(self) -> int:
        about = 0 if self.context_columns_ is None else self.context_columns_.modelled
        return self.fitted_columns().modelled + about


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


def _checked(mixture: Mixture, columns: int, members: int) -> Mixture:
    weights, means, covariances = mixture.weights, mixture.means, mixture.covariances
    number = len(weights)
    shapes = (weights.shape, means.shape, covariances.shape)
    if shapes != ((number,), (number, columns), (number, columns, columns)):
        raise InvalidModelFile(f"a mixture cannot have tensors of shapes {shapes}")
    if not 1 <= number <= _MOST_COMPONENTS or any(
        t.dtype != torch.float64 or not bool(t.isfinite().all()) for t in (weights, means)
    ):
        raise InvalidModelFile("the weights and means of a mixture must be finite")
    if number % members:
        raise InvalidModelFile(f"{number} components cannot be those of {members} members")
    sums = weights.reshape(members, -1).sum(1) * members
    if bool((weights < 0).any()) or float((sums - 1).abs().max()) > 1e-6:
        raise InvalidModelFile("the weights of a mixture must be probabilities")
    if covariances.dtype != torch.float64 or bool(torch.linalg.cholesky_ex(covariances)[1].any()):
        raise InvalidModelFile("the covariances of a mixture must be positive definite")
    return mixture
