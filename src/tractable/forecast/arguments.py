"""The arguments of a forecaster, checked, as the parts of the room take them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from tractable.errors import InvalidInput
from tractable.forecast.fitting import Wanted, widths
from tractable.forecast.model import Recipe
from tractable.forecast.panel import Panel
from tractable.forecast.units import check_transform
from tractable.forecast.windows import LEVELS
from tractable.learners import TAGI, Learner
from tractable.learners.files import kind_of

if TYPE_CHECKING:
    from tractable.forecast.forecaster import Forecaster


def recipe_of(forecaster: Forecaster, panel: Panel) -> Recipe:
    """How learners are made, from the arguments of a forecaster and its series."""
    given = forecaster.learner
    kind = kind_of(given) if isinstance(given, str) else given
    if not (isinstance(kind, type) and issubclass(kind, Learner)):
        raise TypeError(f"learner must be a class of learners or its name, got {kind!r}")
    if forecaster.strategy not in ("direct", "recursive"):
        raise ValueError(f"strategy must be 'direct' or 'recursive', got {forecaster.strategy!r}")
    if forecaster.spread not in ("covariance", "paths"):
        raise ValueError(f"spread must be 'covariance' or 'paths', got {forecaster.spread!r}")
    horizon, recursive = whole(forecaster.horizon, "horizon"), forecaster.strategy == "recursive"
    if horizon is None:
        raise ValueError("horizon must be a whole number from 1, got None")
    check_forget(forecaster.forget, kind)
    past, known = panel.past.shape[2], panel.known.shape[2]
    if recursive and past:
        raise InvalidInput("a recursion needs the future of all covariates: give none in past=")
    if forecaster.sequence and known:
        raise InvalidInput("sequence=True has no place for covariates with a known future")
    own = forecaster.net if isinstance(forecaster.net, nn.Module) else None
    return Recipe(
        1 if recursive else horizon, kind, own, forecaster.likelihood,
        whole(forecaster.members, "members") or 1, dict(forecaster.options or {}),
        forecaster.batch_size, forecaster.seed, forecaster.sequence, known, past,
        horizon if recursive else 0, forecaster.spread, whole(forecaster.stride, "stride") or 1,
    )  # fmt: skip


def wanted_of(forecaster: Forecaster, season: int) -> Wanted:
    """What the arguments of a forecaster settle."""
    if forecaster.level is not None and forecaster.level not in LEVELS:
        raise ValueError(f"level must be one of {', '.join(LEVELS)}; got {forecaster.level!r}")
    memory = forecaster.memory
    if memory not in ("auto", None) and not _from_one(memory):
        raise ValueError(f"memory must be 'auto', None or a number from 1, got {memory!r}")
    lags = whole(forecaster.lags, "lags")
    module = isinstance(forecaster.net, nn.Module)
    if module and lags is None:
        raise ValueError("a network of your own has a number of inputs: give lags= as well")
    return Wanted(
        lags, forecaster.level, None if module else widths(forecaster.net),
        whole(forecaster.epochs, "epochs"), season, check_transform(forecaster.transform),
        whole(forecaster.validation, "validation"), bool(forecaster.refit),
        memory if memory in ("auto", None) else float(memory),  # one of NumPy makes all double
    )  # fmt: skip


def check_forget(forget: Any, kind: type[Learner]) -> None:
    """Refuse a number of rows to remember that ``update`` could not use.

    Raises:
        ValueError: it is not None or a number above 1.
        InvalidInput: the learner does not forget.
    """
    if forget is None:
        return
    known = isinstance(forget, int | float | np.number) and not isinstance(forget, bool)
    if not (known and 1 < forget < math.inf):
        raise ValueError(f"forget must be None or a number of rows above 1, got {forget!r}")
    if not issubclass(kind, TAGI):
        raise InvalidInput(
            f"forget={forget}: {kind.__name__} cannot forget, only TAGI does: leave out forget="
        )


def whole(given: Any, what: str) -> int | None:
    """A whole number from 1, or None.

    Raises:
        ValueError: it is something else.
    """
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise ValueError(f"{what} must be a whole number from 1, got {given!r}")
    return int(given)


def _from_one(given: Any) -> bool:
    known = isinstance(given, int | float) and not isinstance(given, bool)
    return known and 1 <= given < math.inf
