"""Settings chosen on windows that are held out: the last ones, because the future comes last.

Training windows end before the first held-out value.  A long series is cut once; a short one three
times in a row, each time with more to learn from, and windows that reach beyond its end count with
the steps they have.

In turn are chosen the length of the window, the prior, the level that a window is measured from and
a hidden layer; each by the mean squared error of held-out windows, of every series in the units of
its own, and later ones must gain a hundredth to win.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tractable.errors import InvalidInput
from tractable.forecast.model import Model, Origins, Recipe, Setting, taught
from tractable.forecast.recursion import Recursion, run_on
from tractable.forecast.spread import Errors
from tractable.forecast.windows import Array, History, Level

GAINS = (0.01, 0.25)
HIDDEN = (64,)
SHORT = 600
"""Times below which a series is cut three times, and windows may be partly beyond its end."""
GAIN = 0.01
"""Of the log of the root mean squared error, that a richer setting must gain."""
_CUTS = 3
_MOST_WINDOWS = 12_000
_FEWEST = 4  # windows to learn from
_ENOUGH = 60  # whole windows: below, those count that reach beyond the end


@dataclass(frozen=True)
class Cut:
    """Where windows to learn from end, and where those to judge by end.

    Attributes:
        first: time of the first held-out value.
        last: time after the last one.
    """

    first: int
    last: int


@dataclass(frozen=True)
class Tried:
    """A setting and its score on held-out windows, the larger the better."""

    setting: Setting
    score: float


class Trials:
    """Fits whose last windows are held out.

    Args:
        recipe: how learners are made.
        history: scaled series.
        held_out: number of times to hold out; None for a fifth.
        units: mean and scale of the series, for counts.
    """

    def __init__(
        self,
        recipe: Recipe,
        history: History,
        held_out: int | None,
        units: tuple[Array, Array] | None = None,
    ) -> None:
        self.recipe, self.history, self.units = recipe, history, units
        times = len(history)
        self.short = times < SHORT
        size = max(times // 5, min(recipe.reach, times // 4)) if held_out is None else held_out
        cuts = _CUTS if self.short and held_out is None else 1
        if cuts > 1:
            size = max(times // 8, min(recipe.reach, times // 5))
        ends = [times - k * size for k in range(cuts)]
        self.cuts = [Cut(end - size, end) for end in reversed(ends) if end - size > recipe.reach]
        if held_out is not None and not self.cuts:
            raise InvalidInput(
                f"validation={held_out} leaves {max(times - held_out, 0)} of {times} times to "
                f"learn from, and forecasts of {recipe.reach} steps need at least "
                f"{recipe.reach + 1}: give a smaller validation"
            )

    @property
    def left(self) -> str:
        """How many times there are to learn from, in words, if some are held out."""
        return f" with the first {self.cuts[0].first} to learn from" if self.cuts else ""

    def training(self, setting: Setting, last: int) -> Origins:
        """Origins of windows whose targets end before a time; if they are few, begin before it."""
        whole = np.arange(setting.lags - 1, last - self.recipe.steps)
        if len(whole) >= _ENOUGH or not self.recipe.normal:
            return whole
        return np.arange(setting.lags - 1, last - 1)

    def judged(self, setting: Setting, cut: Cut) -> Origins:
        """Origins of held-out windows."""
        partly = self.short or cut.last - cut.first < self.recipe.reach
        reach = 1 if partly else self.recipe.reach
        return np.arange(max(cut.first, setting.lags) - 1, cut.last - reach)

    def judged_to_the_end(self, setting: Setting, cut: Cut) -> Origins:
        """The same, with those of which only some steps are known, up to the last but one."""
        return np.arange(max(cut.first, setting.lags) - 1, cut.last - 1)

    def fits(self, setting: Setting) -> bool:
        """Whether there are windows to learn from, in every cut."""
        ends = [cut.first for cut in self.cuts] or [len(self.history)]
        return all(len(self.training(setting, end)) >= _FEWEST for end in ends)

    def before(self, last: int) -> History:
        """The series up to a time: nothing after it can be learnt."""
        h = self.history
        return History(h.loc[:last], h.variance[:last], h.known, h.past[:last])

    def fitted(self, setting: Setting, last: int, *, thin: bool = False) -> Model | Recursion:
        """A model that knows the series up to a time."""
        origins = self.training(setting, last)[:: -self.recipe.stride][::-1]
        if thin:
            most = max(_MOST_WINDOWS // self.history.loc.shape[1], 1)
            origins = origins[:: -(-len(origins) // most)]
        recipe = self.recipe
        model = taught(recipe, setting, self.before(last), origins, self.units)
        return run_on(model, recipe.ahead, recipe.way, recipe.seed)

    def errors(
        self, model: Model | Recursion, setting: Setting, cut: Cut, *, thin: bool = False
    ) -> Errors:
        """Of the windows of a cut, missing where a series has no values in or after a window."""
        origins = self.judged(setting, cut)
        if thin or self.recipe.ahead:
            most = _MOST_WINDOWS // self.history.loc.shape[1] // (60 if self.recipe.ahead else 4)
            most = max(most, 1)
            origins = origins[:: -(-len(origins) // most)]
        return Errors.of(model, self.before(cut.last), origins)

    def joined(self, parts: list[Errors]) -> Errors:
        """The errors of all cuts.

        Raises:
            InvalidInput: there are none, because no series has values where they are held out.
        """
        found = Errors.joined(parts)
        if not found.known.any():
            raise InvalidInput(
                f"no held-out window has a value in it and one after it, of any series: the values "
                f"from row {self.cuts[0].first} on, which are held out, are missing. Leave out the "
                "rows after the last value, or give a larger validation="
            )
        return found

    def tried(self, setting: Setting) -> Tried:
        """A setting, judged on all cuts."""
        parts = []
        for cut in self.cuts:
            model = self.fitted(setting, cut.first, thin=True)
            parts.append(self.errors(model, setting, cut, thin=True))
        return Tried(setting, self.joined(parts).score)

    @cached_property
    def usable(self) -> bool:
        """Whether there is enough to hold any out."""
        return bool(self.cuts)


def choose(
    trials: Trials,
    lags: Sequence[int],
    *,
    gains: Sequence[float | None],
    levels: Sequence[Level],
    hidden: Sequence[tuple[int, ...]],
    epochs: int | None,
) -> tuple[Setting, list[Tried]]:
    """The best setting, one decision after the other, and all that were tried.

    Raises:
        InvalidInput: the series is too short for any of them.
    """
    first = Setting(lags[0], hidden[0], levels[0], gains[0], epochs)
    options = [s for s in (replace(first, lags=length) for length in lags) if trials.fits(s)]
    if not options:
        raise InvalidInput(
            f"{len(trials.history)} values are too few for windows of {min(lags)} and forecasts of "
            f"{trials.recipe.reach} steps{trials.left}: give fewer lags, a shorter horizon or a "
            "smaller validation"
        )
    decisions = [len(options), len(gains), len(levels), len(hidden)]
    if not trials.usable or max(decisions) == 1:
        return options[0], []
    seen = [trials.tried(setting) for setting in options]
    best = _best(seen)
    steps: tuple[tuple[str, Sequence[Any]], ...] = (
        ("gain", gains), ("level", levels), ("hidden", hidden),
    )  # fmt: skip
    for name, values in steps:
        others = [replace(best.setting, **{name: value}) for value in values[1:]]
        found = [trials.tried(setting) for setting in others]
        seen += found
        best = _best([best, *found])
    return best.setting, seen


def _best(tried: list[Tried]) -> Tried:
    """The first, unless a later one is clearly better than all before it."""
    best = tried[0]
    for other in tried[1:]:
        if other.score > best.score + GAIN:
            best = other
    return best
