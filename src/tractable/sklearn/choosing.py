"""Settings of an estimator, chosen on rows that are held out of the fits.

What suits data depends on how much noise they have, how many columns say nothing, and whether
anything bends.  Held-out rows tell: every setting is fitted without them, and what counts is their
log-likelihood, once the noise is scaled to suit them.  Differences are taken row by row, and one
counts if it is larger than its standard error; near ties keep the simpler setting.

In turn are chosen

1. the number of epochs: every epoch takes the same rows for new evidence, so many serve data that
   are nearly exact, and few those that are mostly noise;
2. weights of the columns (``tractable.sklearn.relevance``);
3. a linear model in place of the network, unless the network is better, as an ensemble: several
   networks are better than one, and several linear models are all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor

from tractable.learners import Learner
from tractable.likelihoods.base import HeldOut
from tractable.sklearn import relevance
from tractable.sklearn.noise import NoiseModel
from tractable.sklearn.rows import Rows
from tractable.sklearn.seen import Seen
from tractable.training import holdout
from tractable.training.parallel import run_each

ROUNDS = 3
"""Of weighing columns, where that is chosen."""
FEW_EPOCHS = (5, 2)
LINEAR_EPOCHS = (20, 5)
_FEW_ROWS = 500  # below, five tenths are held out in turn, else three
_SEEDS_APART = 1_000  # between the fits to different rows; members of an ensemble lie between

Make = Callable[[tuple[int, ...], int, int], Learner]
"""From hidden widths, a number of members and a seed to a learner that has seen nothing."""


@dataclass(frozen=True)
class Setting:
    """How the network of an estimator is made and taught.

    Attributes:
        hidden_layer_sizes: widths of the hidden layers.
        epochs: how often every row is learnt.
        rounds: rounds of weighing columns.
    """

    hidden_layer_sizes: tuple[int, ...]
    epochs: int
    rounds: int = 0


@dataclass(frozen=True)
class Fit:
    """A fitted learner, and what stands between it and standardised data.

    Attributes:
        learner: the learner.
        weights: factors that its columns are multiplied by.
        doubt: a factor on the variance that its networks have themselves.
        noise: factors on its noise, where they depend on the inputs.
        tails: equally likely factors on its noise, where that is not normal.
    """

    learner: Learner
    weights: Tensor
    doubt: float = 1.0
    noise: NoiseModel | None = None
    tails: Tensor | None = None

    def slopes(self, x: Tensor) -> Tensor:
        """Root mean square slope along each standardised column."""
        return relevance.slopes(self.learner, x, self.weights)

    def seen(self, rows: Rows, y: Tensor) -> Seen:
        """What it says of rows that it has not seen.

        Of rows with gaps, mean and variance over the ways to fill them.
        """
        drawn = rows.completions()
        if drawn is None:
            return self._seen(rows.x, y)
        many = len(drawn)
        again = y.repeat(many, *[1] * (y.ndim - 1))
        found = self._seen(drawn.flatten(0, 1), again)

        def ways(part: Tensor) -> Tensor:
            return part.unflatten(0, (many, -1))

        means = ways(found.mean)
        return Seen(
            found.likelihood,
            found.y[: len(y)],
            means.mean(0),
            ways(found.variance).mean(0) + means.var(0, correction=0),
            ways(found.within).mean(0),
            None if found.growth is None else ways(found.growth).mean(0),
            rows.x,
        )

    def _seen(self, x: Tensor, y: Tensor) -> Seen:
        at, targets = self.learner.checked(x * self.weights.to(x), y)
        (likelihood, outputs), support = (
            holdout.held_out_outputs(self.learner, at),
            self.learner.support,
        )
        mean, variance = outputs.moments()
        growth = None
        if support is not None and support.slope is not None:
            if not isinstance(at, Tensor):
                raise TypeError(f"distances need one tensor of inputs, got {type(at).__name__}")
            extra = support.distance(at).extra
            if extra is not None and extra.numel() == mean.numel():  # else several serve a target
                growth = extra.reshape(mean.shape)
        return Seen(likelihood, targets, mean, variance, outputs.within(), growth, x)


@dataclass(frozen=True)
class Tried:
    """What held-out rows say of a setting.

    Attributes:
        setting: what was tried.
        n_estimators: how many networks there were.
        log_probs: log-likelihood of every held-out row.
        factor: what the noise variance was multiplied by to suit them.
    """

    setting: Setting
    log_probs: Tensor = field(repr=False)
    factor: float = 1.0
    n_estimators: int = 1

    def beats(self, other: Tried) -> bool:
        """Whether it is better by more than the standard error of the difference."""
        gained = self.log_probs - other.log_probs
        return bool(gained.mean() > gained.std() / len(gained) ** 0.5)

    @property
    def mean(self) -> float:
        """Mean log-likelihood."""
        return float(self.log_probs.mean())


@dataclass(frozen=True)
class Wanted:
    """What is to be fitted to which rows.

    Attributes:
        setting: how the network is made and taught.
        rows: which rows.
        number: which selection of rows it is; sets the seed.
        n_estimators: how many the learner has.
        distance_aware: whether it remembers where its rows were.
        start: weights of the columns that one more round of weighing begins with; by default they
            begin with 1, and all rounds are made.
    """

    setting: Setting
    rows: Tensor = field(repr=False)
    number: int
    n_estimators: int = 1
    distance_aware: bool = False
    start: Tensor | None = None


class Trials:
    """Fits of settings to the rows that are not held out.

    Args:
        make: makes learners.
        rows: standardised inputs.
        y: targets.
        parts: the rows to hold out in turn; see ``parts_of``.
        seed: seed of the first learner.
        batch_size: rows per update, as ``Learner.fit`` takes it.
    """

    def __init__(
        self,
        make: Make,
        rows: Rows,
        y: Tensor,
        parts: Sequence[Tensor],
        *,
        seed: int,
        batch_size: int | None,
    ) -> None:
        self.make, self.rows, self.x, self.y, self.parts = make, rows, rows.x, y, parts
        self.seed, self.batch_size = seed, batch_size
        self._weights: dict[tuple[Setting, int], Tensor] = {}
        self._judged: tuple[Setting, int, list[Fit]] | None = None
        self._first: dict[tuple[tuple[int, ...], int], Learner] = {}

    def kept(self, out: Tensor) -> Tensor:
        """The other rows."""
        keep = torch.ones(len(self.x), dtype=torch.bool)
        keep[out] = False
        return keep.nonzero().squeeze(1)

    def fits(self, wanted: Sequence[Wanted], *, progress: bool = False) -> list[Fit]:
        """Fits, beside each other on the cores there are, longest first.

        Args:
            wanted: what to fit to which rows.
            progress: whether to show a bar of the epochs of the first.
        """
        learners = [self._learner(w, w.n_estimators) for w in wanted]
        found: dict[int, Fit] = {}

        def run(number: int) -> None:
            want, learner = wanted[number], learners[number]
            weights = self._weighed(want)
            learner.fit(
                self.rows.at(want.rows).uncertain(weights),
                self.y[want.rows],
                epochs=want.setting.epochs,
                batch_size=self.batch_size,
                distance_aware=want.distance_aware,
                progress=progress and number == 0,
            )
            found[number] = Fit(learner, weights)

        longest = sorted(range(len(wanted)), key=lambda k: -_work(wanted[k]))
        together = all(learner.parallel for learner in learners)
        run_each([partial(run, k) for k in longest], threads=together)
        return [found[k] for k in range(len(wanted))]

    def _learner(self, want: Wanted, n_estimators: int) -> Learner:
        """One that has seen nothing; all of a kind share what does not change."""
        seed, kind = (
            self.seed + _SEEDS_APART * want.number,
            (want.setting.hidden_layer_sizes, n_estimators),
        )
        if kind not in self._first:
            self._first[kind] = self.make(*kind, seed)
        return self._first[kind].reinitialized(seed)

    def _weighed(self, want: Wanted) -> Tensor:
        """Weights of the columns, from slopes of short fits."""
        setting, known = want.setting, (want.setting, want.number)
        if known in self._weights:
            return self._weights[known]
        rows, y = self.rows.at(want.rows), self.y[want.rows]
        x = rows.x
        weights = torch.ones(x.shape[1], dtype=x.dtype) if want.start is None else want.start
        for _ in range(setting.rounds if want.start is None else min(setting.rounds, 1)):
            probe = self._learner(want, 1)
            probe.fit(
                rows.uncertain(weights),
                y,
                epochs=_probing(setting),
                batch_size=self.batch_size,
                distance_aware=False,
                progress=False,
            )
            weights = relevance.weights(probe, x, weights)
        self._weights[known] = weights
        return weights

    def seen(self, fits: Sequence[Fit]) -> list[Seen]:
        """What fits say of the parts that were held out of them."""
        pairs = zip(fits, self.parts, strict=True)
        return [fit.seen(self.rows.at(out), self.y[out]) for fit, out in pairs]

    def held_out(self, fits: Sequence[Fit]) -> list[HeldOut]:
        """The same for a likelihood, widened where rows are unlike those of the fits."""
        return [part.heldout() for part in self.seen(fits)]

    def judged(
        self,
        setting: Setting,
        n_estimators: int,
        beside: Sequence[Wanted] = (),
        *,
        progress: bool = False,
    ) -> tuple[list[Fit], list[Fit]]:
        """Ensembles from which the parts were held out, and other fits that are made beside them.

        The ensembles of the last setting are kept.
        """
        known = self._judged is not None and self._judged[:2] == (setting, n_estimators)
        parts = () if known else self.parts
        wanted = [
            Wanted(setting, self.kept(out), number, n_estimators, distance_aware=True)
            for number, out in enumerate(parts, 1)
        ]
        fits = self.fits([*beside, *wanted], progress=progress)
        others, new = fits[: len(beside)], fits[len(beside) :]
        if not known:
            self._judged = setting, n_estimators, new
        assert self._judged is not None
        return self._judged[2], others

    def tried(self, settings: Sequence[Setting]) -> list[Tried]:
        """Held-out log-likelihoods of single networks of some settings."""
        many, kept = len(self.parts), [self.kept(out) for out in self.parts]
        fits = self.fits([Wanted(s, at, k) for s in settings for k, at in enumerate(kept, 1)])
        return [
            self._scored(setting, fits[number * many : (number + 1) * many])
            for number, setting in enumerate(settings)
        ]

    def tried_together(self, setting: Setting, n_estimators: int) -> Tried:
        """Held-out log-likelihoods of ensembles of a setting."""
        return self._scored(setting, self.judged(setting, n_estimators)[0], n_estimators)

    def _scored(self, setting: Setting, fits: Sequence[Fit], n_estimators: int = 1) -> Tried:
        log_probs, factor = holdout.score(fits[0].learner, self.held_out(fits))
        return Tried(setting, log_probs, factor, n_estimators)


def parts_of(rows: int, seed: int) -> list[Tensor]:
    """The rows to hold out in turn: tenths, five, three or one of them by the number of rows."""
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    many = 1 if rows >= holdout.MANY_ROWS else 3 if rows >= _FEW_ROWS else 5
    return list(order.chunk(10)[:many])


def choose(
    trials: Trials,
    first: Setting,
    *,
    epochs: bool,
    linear: bool,
    weigh: bool,
    n_estimators: int = 1,
) -> tuple[Tried, list[Tried]]:
    """The setting that suits held-out rows, and all that were tried.

    Args:
        trials: fits and held-out rows.
        first: where to begin: what stands unless another is better.
        epochs: whether to choose the number of epochs.
        linear: whether to try a linear model.
        weigh: whether to try weights of the columns.
        n_estimators: how many networks a linear model is compared with.
    """
    seen: list[Tried] = []

    def look(*settings: Setting) -> list[Tried]:
        new = trials.tried(settings)
        seen.extend(new)
        return new

    weighs = weigh and trials.x.shape[1] > 1
    fewer = sorted({*(first.epochs // k for k in (2, 4, 8)), *FEW_EPOCHS}, reverse=True)
    shorter = [replace(first, epochs=n) for n in fewer if 1 < n < first.epochs] if epochs else []
    weighed = [replace(first, rounds=ROUNDS)] if weighs else []
    lengths = [n for n in LINEAR_EPOCHS if n < first.epochs] if epochs else []
    flat = [replace(first, hidden_layer_sizes=(), epochs=n) for n in lengths or [first.epochs]]
    straight = flat if linear and first.hidden_layer_sizes else []
    stands, *others = look(first, *shorter, *weighed, *straight)  # in one go: cores are shared
    best = _best_of(stands, others[: len(shorter)])
    if weighs:
        all_weighed = others[len(shorter) : len(shorter) + 1]
        if best.setting.epochs < first.epochs:
            all_weighed += look(replace(best.setting, rounds=ROUNDS))
        best = _best_of(best, all_weighed)
    if straight:
        simple = max(others[-len(straight) :], key=lambda tried: tried.mean)
        if weighs:
            simple = _best_of(simple, look(replace(simple.setting, rounds=ROUNDS)))
        if n_estimators > 1 and not best.beats(simple):
            best = trials.tried_together(best.setting, n_estimators)
            seen.append(best)
        best = best if best.beats(simple) else simple
    return best, seen


def _probing(setting: Setting) -> int:
    """Epochs of the short fits that columns are weighed by."""
    return max(setting.epochs // 4, 2)


def _work(want: Wanted) -> int:
    """About how long a fit takes."""
    widths = want.setting.hidden_layer_sizes
    epochs = want.n_estimators * want.setting.epochs + want.setting.rounds * _probing(want.setting)
    return epochs * (1 + sum(a * b for a, b in pairwise(widths)) + sum(widths))


def _best_of(stands: Tried, others: list[Tried]) -> Tried:
    """The one of greatest likelihood among those that are clearly better, if any is."""
    better = [other for other in others if other.beats(stands)]
    return max(better, key=lambda tried: tried.mean, default=stands)
