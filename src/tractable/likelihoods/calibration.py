"""The factor on a noise that suits held-out rows, for any likelihood that can be rescaled."""

from __future__ import annotations

import copy
import math
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tractable.likelihoods.base import HeldOut

_WIDEST = 5.0
_STEPS = (2.0, 1.0, 0.5, 0.25, 0.12, 0.06, 0.03)


def calibrated_scale(held_out: list[HeldOut]) -> float:
    """The factor of greatest held-out likelihood between e^-5 and e^5, to 3 %.

    A search in its logarithm by steps that halve, from 1; the likelihood is taken to have one
    peak.
    """
    twins = [(copy.deepcopy(likelihood), y, mean, var) for likelihood, y, mean, var in held_out]

    @cache  # the way back from a step leads where the search has been
    def total(log_scale: float) -> float:
        found = 0.0
        for twin, y, mean, variance in twins:
            with twin.holding({}):  # its own noise again afterwards
                twin.rescale(math.exp(log_scale))
                found += float(twin.held_out_log_prob(y, mean, variance).sum())
        return found

    at, best = 0.0, total(0.0)
    for step in _STEPS:
        for way in (step, -step):
            while abs(at + way) <= _WIDEST and (there := total(at + way)) > best:
                at, best = at + way, there
    return math.exp(at)
