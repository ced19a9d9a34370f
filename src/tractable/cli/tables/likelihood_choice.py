"""Choice of the likelihood: given by the user, or inferred from the target."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tractable.cli.errors import UsageError, unknown_name
from tractable.cli.tables.columns import parse
from tractable.cli.tables.target import TargetColumn
from tractable.sklearn.targets import KINDS, NORMAL

Array = npt.NDArray[Any]

AUTO = "auto"
CATEGORICAL, ORDINAL = "categorical", "ordinal"
NAMES = (AUTO, *KINDS, CATEGORICAL, ORDINAL)
MAX_COUNT = 100_000
MIN_ROWS = 50
"""Minimum number of rows to infer a distribution."""
_NEAR_SEAM = 0.3  # radians; angles near both ends of a turn are required
_FAR = 5.0  # robust standard deviations from which a residual counts as an outlier
_FAR_SHARE = 0.01
_ROUNDS = 10


@dataclass(frozen=True)
class LikelihoodChoice:
    """The likelihood of a target.

    Attributes:
        name: one of ``NAMES``, except ``auto``.
        reason: why it was chosen; empty if the user chose it.
        order: levels of ``ordinal`` in increasing order.
    """

    name: str
    reason: str = ""
    order: tuple[str, ...] = ()

    def options(self) -> dict[str, Any]:
        """Return the arguments of an estimator that differ from its defaults."""
        if self.name == ORDINAL:
            return {"ordered": list(self.order)}
        return {} if self.name in (NORMAL, CATEGORICAL) else {"likelihood": self.name}


def implied_task(name: str | None) -> str | None:
    """Return the task of a likelihood; None for ``auto``."""
    if name is None or name == AUTO:
        return None
    if name not in NAMES:
        raise unknown_name("likelihood", name, NAMES)
    return "classification" if name in (CATEGORICAL, ORDINAL) else "regression"


def choose_likelihood(
    target: TargetColumn, name: str | None, order: tuple[str, ...], x: Array, y: Array
) -> LikelihoodChoice:
    """Return the likelihood of a target.

    Args:
        target: all targets.
        name: name given by the user, or None.
        order: order of the levels given by the user.
        x: inputs of the training rows.
        y: targets of the training rows.

    Raises:
        UsageError: the order of the levels is unknown.
    """
    if order and name not in (AUTO, ORDINAL):
        raise UsageError("--order requires --likelihood ordinal")
    if target.task == "classification":
        if name == ORDINAL or (name == AUTO and order):
            return LikelihoodChoice(ORDINAL, order=_level_order(target.values, order))
        return _choose_for_labels(target.values) if name == AUTO else LikelihoodChoice(CATEGORICAL)
    if name == AUTO:
        return _choose_for_numbers(x, y)
    return LikelihoodChoice(name or NORMAL)


def _level_order(labels: Array, order: tuple[str, ...]) -> tuple[str, ...]:
    """Return the levels in increasing order: as given, or as numbers."""
    levels = np.unique(labels).tolist()
    if order:
        unknown = [level for level in levels if level not in order]
        if unknown or len(set(order)) != len(order):
            raise UsageError(
                f"--order has {', '.join(order)}, but the target has {', '.join(levels)}"
            )
        return order
    numbers = {level: parse(level) for level in levels}
    if any(number is None for number in numbers.values()):
        raise UsageError(
            f"the levels {', '.join(levels)} are text: pass their increasing order, "
            f"e.g. --order {','.join(levels)}"
        )
    return tuple(sorted(levels, key=lambda level: numbers[level] or 0.0))


def _choose_for_labels(labels: Array) -> LikelihoodChoice:
    """Return ordinal for three or more integer levels, else categorical."""
    levels = np.unique(labels).tolist()
    numbers = [parse(level) for level in levels]
    if len(levels) < 3 or any(n is None or n != int(n) for n in numbers):
        return LikelihoodChoice(CATEGORICAL, "unordered classes")
    return LikelihoodChoice(
        ORDINAL, f"{len(levels)} integer levels, taken as ordered", _level_order(labels, ())
    )


def _choose_for_numbers(x: Array, y: Array) -> LikelihoodChoice:
    """Return the likelihood of angles, counts, numbers with outliers or others."""
    if len(y) >= MIN_ROWS and _is_angular(y):
        return LikelihoodChoice("von_mises", "angles in radians")
    if _is_count(y):
        return LikelihoodChoice("negative_binomial", "counts (non-negative integers)")
    share = _outlier_share(x, y)
    if share > _FAR_SHARE:
        return LikelihoodChoice(
            "student_t", f"heavy tails ({100 * share:.0f} % outliers of a linear fit)"
        )
    return LikelihoodChoice(NORMAL, "continuous values")


def _is_angular(y: Array) -> bool:
    """Whether numbers fill one turn, from 0 or from -pi, with values near both ends."""
    for low in (0.0, -math.pi):
        high = low + 2 * math.pi
        inside = y.min() >= low and y.max() <= high + 1e-9
        if inside and y.min() < low + _NEAR_SEAM and y.max() > high - _NEAR_SEAM:
            return not bool((y == np.round(y)).all())
    return False


def _is_count(y: Array) -> bool:
    """Whether numbers are non-negative integers with small values and overdispersion."""
    whole = bool((y == np.round(y)).all()) and y.min() >= 0 and y.max() <= MAX_COUNT
    return whole and y.min() <= 0.1 * y.mean() and y.var() >= y.mean()


def _outlier_share(x: Array, y: Array) -> float:
    """Return the fraction of outliers of a linear fit with least absolute residuals.

    Twice the fraction of the rarer side: a skewed target has one long tail without outliers.
    """
    whole = ~np.isnan(x).any(1)  # rows without missing values
    x, y = x[whole], y[whole]
    if len(y) < MIN_ROWS:
        return 0.0
    design = np.column_stack([np.ones(len(x)), x])
    weight, middle, residual = np.ones(len(y)), 0.0, y
    for _ in range(_ROUNDS):  # iteratively reweighted least squares for absolute residuals
        root = np.sqrt(weight)
        residual = y - design @ np.linalg.lstsq(design * root[:, None], y * root, rcond=None)[0]
        middle = float(np.median(np.abs(residual)))
        if not middle > 0:
            return 0.0
        weight = 1 / np.maximum(np.abs(residual), middle)
    far = residual / (_FAR * 1.4826 * middle)
    return 2 * min(float(np.mean(far > 1)), float(np.mean(far < -1)))
