"""Test functions for black-box optimization, with their bounds and minima."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Function:
    """A function to minimize within bounds."""

    name: str
    call: Callable[[Array], float]
    bounds: tuple[tuple[float, float], ...]
    minimum: float


def branin(x: Array) -> float:
    """Return the value of the Branin function, which has three equal minima in the plane."""
    a, b = float(x[0]), float(x[1])
    bowl = b - 5.1 / (4 * math.pi**2) * a * a + 5 / math.pi * a - 6
    return bowl * bowl + 10 * (1 - 1 / (8 * math.pi)) * math.cos(a) + 10


def hartmann6(x: Array) -> float:
    """Return the value of the Hartmann function: four Gaussian wells in six dimensions."""
    return -float(_HEIGHT @ np.exp(-(_WIDTH * (np.asarray(x) - _CENTRE) ** 2).sum(1)))


def ackley(x: Array) -> float:
    """Return the value of the Ackley function: one deep minimum among many shallow ones."""
    x = np.asarray(x, dtype=np.float64)
    flat = -20 * math.exp(-0.2 * math.sqrt(float((x * x).mean())))
    return flat - math.exp(float(np.cos(2 * math.pi * x).mean())) + 20 + math.e


_HEIGHT = np.array([1.0, 1.2, 3.0, 3.2])
_WIDTH = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
_CENTRE = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)

BRANIN = Function("Branin", branin, ((-5.0, 10.0), (0.0, 15.0)), 0.39788735772973816)
HARTMANN6 = Function("Hartmann-6", hartmann6, ((0.0, 1.0),) * 6, -3.322368011415512)
# Off-center, so that no method gains from evaluating the center of the bounds.
ACKLEY10 = Function("Ackley-10", ackley, ((-32.768, 16.384),) * 10, 0.0)
