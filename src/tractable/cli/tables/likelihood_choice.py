"""What the target means: a likelihood that the user names, or that the target itself suggests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tractable.cli.errors import UsageError, unknown_name
from tractable.cli.tables.columns import parse
from tractable.cli.tables.target import Target
from tractable.sklearn.targets import KINDS, NORMAL

Array = npt.NDArray[Any]

AUTO = "auto"
CATEGORICAL, ORDINAL = "categorical", "ordinal"
NAMES = (AUTO, *KINDS, CATEGORICAL, ORDINAL)
MAX_COUNT = 100_000
MIN_ROWS = 50
"""To see the shape of a distribution by."""
_NEAR_SEAM = 0.3  # of a turn, in radians
_FAR = 5.0  # residuals, in deviations of those in the middle
_FAR_SHARE = 0.01
_ROUNDS = 10


@dataclass(frozen=True)
class LikelihoodChoice:
    """The likelihood of a target.

    Attributes:
        name: one of ``NAMES`` but ``auto``.
        reason: why, if the user did not say; else empty.
        order: levels from the lowest, of ``ordinal``.
    """

    name: str
    reason: str = ""
    order: tuple[str, ...] = ()

    def options(self) -> dict[str, Any]:
        """Arguments of an estimator that are not its defaults."""
        if self.name == ORDINAL:
            return {"ordered": list(self.order)}
        return {} if self.name in (NORMAL, CATEGORICAL) else {"likelihood": self.name}


def implied_task(name: str | None) -> str | None:
    """The task that a likelihood goes with; None if it says nothing of it."""
    if name is None or name == AUTO:
        return None
    if name not in NAMES:
        raise unknown_name("likelihood", name, NAMES)
    return "classification" if name in (CATEGORICAL, ORDINAL) else "regression"


def choose_likelihood(
    target: Target, wanted: str | None, stated: tuple[str, ...], x: Array, y: Array
) -> LikelihoodChoice:
    """What the target means.

    Args:
        target: all of it.
        wanted: as the user said, or None.
        stated: an order of levels that the user gave.
        x: inputs of the training rows.
        y: their targets.

    Raises:
        UsageError: levels whose order is not known.
    """
    if stated and wanted not in (AUTO, ORDINAL):
        raise UsageError("--order goes with --likelihood ordinal")
    if target.task == "classification":
        if wanted == ORDINAL or (wanted == AUTO and stated):
            return LikelihoodChoice(ORDINAL, order=_level_order(target.values, stated))
        return (
            _choose_for_labels(target.values) if wanted == AUTO else LikelihoodChoice(CATEGORICAL)
        )
    if wanted == AUTO:
        return _choose_for_numbers(x, y)
    return LikelihoodChoice(wanted or NORMAL)


def _level_order(labels: Array, stated: tuple[str, ...]) -> tuple[str, ...]:
    """Levels from the lowest: as stated, or as numbers go."""
    levels = np.unique(labels).tolist()
    if stated:
        strange = [level for level in levels if level not in stated]
        if strange or len(set(stated)) != len(stated):
            raise UsageError(
                f"--order names {', '.join(stated)}; the target has {', '.join(levels)}"
            )
        return stated
    numbers = {level: parse(level) for level in levels}
    if any(number is None for number in numbers.values()):
        raise UsageError(
            f"the levels {', '.join(levels)} are text: give their order from the lowest, "
            f"for instance --order {','.join(levels)}"
        )
    return tuple(sorted(levels, key=lambda level: numbers[level] or 0.0))


def _choose_for_labels(labels: Array) -> LikelihoodChoice:
    """Whole numbers are levels with an order, if there are three or more."""
    levels = np.unique(labels).tolist()
    numbers = [parse(level) for level in levels]
    if len(levels) < 3 or any(n is None or n != int(n) for n in numbers):
        return LikelihoodChoice(CATEGORICAL, "classes without an order")
    return LikelihoodChoice(
        ORDINAL, f"{len(levels)} whole numbers are levels in order", _level_order(labels, ())
    )


def _choose_for_numbers(x: Array, y: Array) -> LikelihoodChoice:
    """Angles, counts, numbers with far outliers, or plain ones."""
    if len(y) >= MIN_ROWS and _is_angular(y):
        return LikelihoodChoice("von_mises", "numbers all around a circle, in radians")
    if _is_count(y):
        return LikelihoodChoice(
            "negative_binomial", "whole numbers from 0, small ones among them: counts"
        )
    share = _outlier_share(x, y)
    if share > _FAR_SHARE:
        return LikelihoodChoice(
            "student_t", f"{100 * share:.0f} % lie far off a straight line: long tails"
        )
    return LikelihoodChoice(NORMAL, "numbers of no special kind")


def _is_angular(y: Array) -> bool:
    """Whether numbers fill one turn, from 0 or from -pi, with some on both sides of its seam."""
    for low in (0.0, -math.pi):
        high = low + 2 * math.pi
        inside = y.min() >= low and y.max() <= high + 1e-9
        if inside and y.min() < low + _NEAR_SEAM and y.max() > high - _NEAR_SEAM:
            return not bool((y == np.round(y)).all())
    return False


def _is_count(y: Array) -> bool:
    """Whether numbers are whole, not negative, and scatter as counts do, down to small ones."""
    whole = bool((y == np.round(y)).all()) and y.min() >= 0 and y.max() <= MAX_COUNT
    return whole and y.min() <= 0.1 * y.mean() and y.var() >= y.mean()


def _outlier_share(x: Array, y: Array) -> float:
    """Share of the rows more than five deviations off the plane of least absolute residuals.

    Twice that of the rarer side: a skewed target has one long tail, and is no case of outliers.
    """
    whole = ~np.isnan(x).any(1)  # a row with a hole is off for want of its value
    x, y = x[whole], y[whole]
    if len(y) < MIN_ROWS:
        return 0.0
    design = np.column_stack([np.ones(len(x)), x])
    weight, middle, residual = np.ones(len(y)), 0.0, y
    for _ in range(_ROUNDS):  # least squares by weights that become those of absolute values
        root = np.sqrt(weight)
        residual = y - design @ np.linalg.lstsq(design * root[:, None], y * root, rcond=None)[0]
        middle = float(np.median(np.abs(residual)))
        if not middle > 0:
            return 0.0
        weight = 1 / np.maximum(np.abs(residual), middle)
    far = residual / (_FAR * 1.4826 * middle)
    return 2 * min(float(np.mean(far > 1)), float(np.mean(far < -1)))
