"""From a panel to a fitted state: scale, choose, measure the spread, learn from everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tractable.errors import InvalidInput
from tractable.forecast.choosing import GAINS, HIDDEN, Trials, Tried, choose
from tractable.forecast.model import Model, Recipe, Setting
from tractable.forecast.panel import Panel
from tractable.forecast.recursion import Recursion
from tractable.forecast.spread import Errors, Spread, tracked
from tractable.forecast.state import State
from tractable.forecast.units import Covariates, Transform, Units
from tractable.forecast.windows import Array, History, Level

_SEASONS = (2, 7, 14)
"""Lengths of windows that are tried, in seasons."""
_WITHOUT_SEASON = (12, 36, 96)


@dataclass(frozen=True)
class Wanted:
    """What a user has settled; None leaves it to held-out windows.

    Attributes:
        lags: length of the window.
        level: what a window is measured from.
        hidden: widths of the hidden layers.
        epochs: over the windows.
        season: length of a season.
        transform: what is applied to the series.
        validation: number of last times to hold out.
        refit: whether to learn from these as well in the end.
        memory: times that recent errors are averaged over.
    """

    lags: int | None
    level: Level | None
    hidden: tuple[int, ...] | None
    epochs: int | None
    season: int
    transform: Transform
    validation: int | None
    refit: bool
    memory: float | str | None


def fitted(panel: Panel, recipe: Recipe, wanted: Wanted) -> tuple[State, list[Tried]]:
    """The state, and the settings that were tried."""
    if len(panel) <= recipe.reach:
        raise InvalidInput(
            f"a horizon of {recipe.reach} steps is longer than the series has room for: it has "
            f"{len(panel)} values"
        )
    units = Units.of(panel.values, wanted.transform, panel.names)
    known, past = Covariates.of(panel.known), Covariates.of(panel.past)
    history = History.observed(
        units.scaled(panel.values), known.scaled(panel.known), past.scaled(panel.past)
    )
    own = (units.mean, units.scale) if recipe.counts else None
    trials = Trials(recipe, history, wanted.validation, own)
    if not (_consecutive(trials) or wanted.memory in ("auto", None)):
        raise InvalidInput(
            f"memory={wanted.memory:g}: error bars cannot follow recent errors here. That takes "
            "(a) strategy='direct', (b) a normal likelihood, and (c) a series long enough for one "
            "stretch of held-out windows; memory='auto' does without where it must"
        )
    setting, tried = choose(
        trials,
        _lags(wanted, len(panel), recipe),
        gains=GAINS if recipe.gaussian_inputs and "gain" not in recipe.options else (None,),
        levels=_levels(wanted, recipe),
        hidden=_hidden(wanted, recipe),
        epochs=wanted.epochs,
    )
    model, spread, recent = _measured(trials, setting, wanted)
    if model is None or wanted.refit:
        model = trials.fitted(setting, len(history))
    state = State(
        model, setting, units, known, past, spread, recent, history, panel.grid, len(panel) - 1,
        panel.names, panel.alone, wanted.season,
    )  # fmt: skip
    state.trimmed()
    return state, tried


def _consecutive(trials: Trials) -> bool:
    """Whether errors were seen one after the other, so that recent ones can be followed."""
    return len(trials.cuts) == 1 and not trials.recipe.ahead and trials.recipe.normal


def _measured(
    trials: Trials, setting: Setting, wanted: Wanted
) -> tuple[Model | Recursion | None, Spread, Array]:
    """The model of the last cut, the spread, and recent errors at the end of the series."""
    series, steps = trials.history.loc.shape[1], trials.recipe.reach
    recent: Array = np.ones((series, steps), np.float32)
    if not trials.usable:
        return None, Spread.plain(series, steps), recent
    parts: list[Errors] = []
    model: Model | Recursion | None = None
    for cut in trials.cuts:
        model = trials.fitted(setting, cut.first)
        parts.append(trials.errors(model, setting, cut))
    errors = trials.joined(parts)
    spread = Spread.of(errors, wanted.memory if _consecutive(trials) else None)
    if not trials.recipe.normal:
        spread = Spread(np.ones((series, steps)), spread.correlation, None)
    if spread.memory is not None:
        assert model is not None
        last = trials.judged_to_the_end(setting, trials.cuts[-1])
        errors = Errors.of(model, trials.history, last)
        _, recent = tracked(errors.error**2 / errors.variance(spread.factors), spread.memory)
    return model, spread, recent


def _lags(wanted: Wanted, times: int, recipe: Recipe) -> list[int]:
    """Lengths of windows to try, shortest first."""
    if wanted.lags is not None:
        return [wanted.lags]
    season = wanted.season
    lengths = [k * season for k in _SEASONS] if season > 1 else list(_WITHOUT_SEASON)
    most = max(times // 5, 4)
    return [n for n in lengths if n <= most] or [min(lengths[0], max(most, season + 1))]


def _levels(wanted: Wanted, recipe: Recipe) -> tuple[Level, ...]:
    if recipe.counts:
        return ("none",)
    return ("last", "mean") if wanted.level is None else (wanted.level,)


def _hidden(wanted: Wanted, recipe: Recipe) -> tuple[tuple[int, ...], ...]:
    if recipe.net is not None:
        return ((),)
    return ((), HIDDEN) if wanted.hidden is None else (wanted.hidden,)


def widths(net: Any) -> tuple[int, ...] | None:
    """Widths of hidden layers, from what users give for a network; None leaves them open."""
    if net is None:
        return None
    if net == "linear":
        return ()
    given = [net] if isinstance(net, int) else list(net)
    if not all(isinstance(w, int) and not isinstance(w, bool) and w >= 1 for w in given):
        raise ValueError(f"net must be 'linear', widths of hidden layers or a module, got {net!r}")
    return tuple(given)
