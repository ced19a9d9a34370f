"""Between the units of the data and those in which a network learns.

A series may be transformed first (``log`` where swings grow with the level, ``sqrt`` for counts),
and every series is then standardised by its own mean and deviation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tractable.errors import InvalidInput

Array = npt.NDArray[np.float64]
Transform = Literal["none", "log", "log1p", "sqrt"]
TRANSFORMS: tuple[Transform, ...] = ("none", "log", "log1p", "sqrt")
_LEAST = {"log": 0.0, "log1p": -1.0, "sqrt": 0.0}
_ROUNDING = 1e-12
"""Range of a constant series, in units of its magnitude."""


def forward(transform: Transform, y: Array) -> Array:
    """The transformed series.

    Raises:
        InvalidInput: a value has no image, such as the logarithm of zero.
    """
    if transform == "none":
        return y
    low = _LEAST[transform]
    bad = (y < low) if transform == "sqrt" else (y <= low)
    if bad.any():
        row = int(np.argwhere(bad)[0, 0])
        raise InvalidInput(
            f"transform={transform!r} needs larger values: row {row} has {y[bad][0]:g}"
        )
    made: Array = {"log": np.log, "log1p": np.log1p, "sqrt": np.sqrt}[transform](y)
    return made


def backward(transform: Transform, x: Array) -> Array:
    """The value whose image is ``x``; monotone, so quantiles map to quantiles."""
    if transform == "log":
        return np.exp(x)
    if transform == "log1p":
        return np.expm1(x)
    return np.square(np.maximum(x, 0.0)) if transform == "sqrt" else x


def log_slope(transform: Transform, y: Array) -> Array:
    """Log of the derivative of ``forward``: what a density gains by the change of units."""
    if transform == "log":
        return -np.log(y)
    if transform == "log1p":
        return -np.log1p(y)
    return -np.log(2) - 0.5 * np.log(np.maximum(y, 1e-12)) if transform == "sqrt" else 0.0 * y


def moments(transform: Transform, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Mean and variance of ``backward`` of a Gaussian, in closed form.

    For ``sqrt`` those of the square, also of negative values.
    """
    if transform == "sqrt":
        return mean**2 + variance, 4 * mean**2 * variance + 2 * variance**2
    if transform == "none":
        return mean, variance
    centre = np.exp(mean + variance / 2)
    shift = 1.0 if transform == "log1p" else 0.0
    return centre - shift, np.expm1(variance) * centre**2


@dataclass(frozen=True)
class Units:
    """How series are brought to about unit scale.

    Attributes:
        transform: applied first.
        mean: mean of each transformed series.
        scale: its standard deviation.
    """

    transform: Transform
    mean: Array
    scale: Array

    @classmethod
    def of(cls, y: Array, transform: Transform, names: tuple[str, ...]) -> Units:
        """Of the values that are there.

        Raises:
            InvalidInput: a series has no values, or always the same one.
        """
        x = forward(transform, y)
        for name, column in zip(names, x.T, strict=True):
            there = column[~np.isnan(column)]
            if len(there) == 0:
                raise InvalidInput(f"series {name!r} has no values at all")
            if there.max() - there.min() <= _ROUNDING * np.abs(there).max():
                raise InvalidInput(
                    f"series {name!r} is constant ({there[0]:g}, {len(there)} values): there is "
                    f"nothing to forecast"
                )
        return cls(transform, np.nanmean(x, 0), np.nanstd(x, 0))

    def scaled(self, y: Array) -> Array:
        """Transformed and standardised."""
        made: Array = (forward(self.transform, y) - self.mean) / self.scale
        return made

    def to_tensors(self) -> dict[str, Array]:
        """For a file."""
        return {"mean": self.mean, "scale": self.scale}


@dataclass(frozen=True)
class Covariates:
    """How covariates are brought to about unit scale; a constant one keeps its scale."""

    mean: Array
    scale: Array

    @classmethod
    def of(cls, values: Array) -> Covariates:
        """Of ``[times, series, covariates]``."""
        if values.shape[-1] == 0:
            return cls(np.zeros(0), np.ones(0))
        flat = values.reshape(-1, values.shape[-1])
        empty = np.isnan(flat).all(0)
        if empty.any():
            raise InvalidInput(f"covariate {int(empty.argmax())} has no values at all")
        # The deviation of a constant is a rounding residue, by which nothing must be divided.
        constant = np.nanmax(flat, 0) - np.nanmin(flat, 0) <= _ROUNDING * np.nanmax(np.abs(flat), 0)
        return cls(np.nanmean(flat, 0), np.where(constant, 1.0, np.nanstd(flat, 0)))

    def scaled(self, values: Array) -> Array:
        """Standardised."""
        made: Array = (values - self.mean) / self.scale
        return made


def check_transform(given: Any) -> Transform:
    """One of ``TRANSFORMS``; None is ``"none"``."""
    name: Any = "none" if given is None else given
    if name not in TRANSFORMS:
        raise ValueError(f"transform must be one of {', '.join(TRANSFORMS)}; got {given!r}")
    return name
