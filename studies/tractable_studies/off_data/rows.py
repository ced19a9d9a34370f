"""Training and test rows: a sine with a gap, and tables without the middle third of a column."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tractable.data import RegressionData

Array = npt.NDArray[np.float64]
Pair = tuple[Array, Array]

MOST_ROWS = 1_000
"""Maximum number of training rows of a table with a gap."""
MOST_TEST_ROWS = 1_000


@dataclass(frozen=True)
class Task:
    """Training rows and several kinds of test rows, by name."""

    train: Pair
    tests: dict[str, Pair] = field(default_factory=dict)


def sine(seed: int, *, gap: bool = True) -> Task:
    """``sin(4 x)`` with noise 0.1 on [-1, 1]; with ``gap``, a faster sine without the middle third.

    The latter is ``sin(6 x + phase)``, the phase drawn, so that the gap hides bends of all kinds.
    """
    rng = np.random.default_rng(seed)
    speed, phase = (6.0, rng.uniform(0, 2 * np.pi)) if gap else (4.0, 0.0)

    def seen(x: Array) -> Pair:
        return x.reshape(-1, 1), np.sin(speed * x + phase) + 0.1 * rng.normal(size=len(x))

    def sides(low: float, high: float, rows: int) -> Array:
        return rng.uniform(low, high, rows) * rng.choice([-1.0, 1.0], rows)

    inner = 1 / 3 if gap else 0.0
    tests = {
        "inside": seen(sides(inner, 1, 500)),
        "half a range beyond": seen(sides(1, 2, 500)),
        "one range beyond": seen(sides(1, 3, 500)),
    }
    if gap:
        tests["gap"] = seen(sides(0, inner, 500))
    return Task(seen(sides(inner, 1, 200)), tests)


def without_middle(data: RegressionData, column: int, seed: int) -> Task:
    """Return the middle third of one column as ``gap``, and a tenth of the rest as ``inside``."""
    x, y = _arrays(data.features, data.targets)
    order = np.argsort(x[:, column], kind="stable")
    third = len(order) // 3
    rng = np.random.default_rng(seed)
    gap = rng.permutation(order[third : 2 * third])[:MOST_TEST_ROWS]
    rest = rng.permutation(np.concatenate([order[:third], order[2 * third :]]))
    inside, train = np.split(rest, [len(rest) // 10])
    train, inside = train[:MOST_ROWS], inside[:MOST_TEST_ROWS]
    tests = {"gap": (x[gap], y[gap]), "inside": (x[inside], y[inside])}
    return Task((x[train], y[train]), tests)


def published(data: RegressionData, split: int) -> Task:
    """Return a published split, in distribution."""
    x, y, x_test, y_test = data.split(split)
    return Task(_arrays(x, y), {"inside": _arrays(x_test, y_test)})


def shuffled(x: Array, seed: int) -> Array:
    """Return rows with each column permuted independently."""
    return np.random.default_rng(seed).permuted(x, axis=0)


def _arrays(x: Any, y: Any) -> Pair:
    return x.double().numpy(), y.double().numpy().ravel()
