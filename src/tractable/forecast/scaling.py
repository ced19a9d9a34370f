"""Transformation and standardization of series.

A series may be transformed first (``"log"`` where fluctuations grow with the level, ``"sqrt"`` for
counts), and each series is then standardized by its own mean and standard deviation.
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
_LOWER_BOUNDS = {"log": 0.0, "log1p": -1.0, "sqrt": 0.0}
_ROUNDING = 1e-12  # range of a series, relative to its magnitude, below which it is constant


def forward(transform: Transform, y: Array) -> Array:
    """Return the transformed series.

    Raises:
        InvalidInput: the transform is not defined for a value, such as the logarithm of zero.
    """
    if transform == "none":
        return y
    low = _LOWER_BOUNDS[transform]
    bad = (y < low) if transform == "sqrt" else (y <= low)
    if bad.any():
        row = int(np.argwhere(bad)[0, 0])
        raise InvalidInput(
            f"transform={transform!r} needs larger values: row {row} has {y[bad][0]:g}"
        )
    transformed: Array = {"log": np.log, "log1p": np.log1p, "sqrt": np.sqrt}[transform](y)
    return transformed


def backward(transform: Transform, x: Array) -> Array:
    """Return the inverse transform of ``x``; it is monotone, so quantiles map to quantiles."""
    if transform == "log":
        return np.exp(x)
    if transform == "log1p":
        return np.expm1(x)
    return np.square(np.maximum(x, 0.0)) if transform == "sqrt" else x


def log_slope(transform: Transform, y: Array) -> Array:
    """Return the log derivative of ``forward``, the change of a log density by the transform."""
    if transform == "log":
        return -np.log(y)
    if transform == "log1p":
        return -np.log1p(y)
    return -np.log(2) - 0.5 * np.log(np.maximum(y, 1e-12)) if transform == "sqrt" else 0.0 * y


def moments(transform: Transform, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Return mean and variance of ``backward`` of a Gaussian, in closed form.

    For ``"sqrt"`` they are those of the square, also of negative values.
    """
    if transform == "sqrt":
        return mean**2 + variance, 4 * mean**2 * variance + 2 * variance**2
    if transform == "none":
        return mean, variance
    center = np.exp(mean + variance / 2)
    shift = 1.0 if transform == "log1p" else 0.0
    return center - shift, np.expm1(variance) * center**2


def epistemic_variance(
    transform: Transform, mean: Array, epistemic: Array, variance: Array
) -> Array:
    """Return the variance of the conditional mean of ``backward``, given the network output.

    With output ``f ~ N(mean, epistemic)`` and transformed value ``f + e``, ``e`` being normal noise
    of variance ``variance - epistemic``, it is ``Var(E[backward(f + e) | f])``, in closed form.
    """
    if transform == "none":
        return epistemic
    if transform == "sqrt":  # E[(f + e)^2 | f] = f^2 + Var(e)
        return moments("sqrt", mean, epistemic)[1]
    center = np.exp(mean + variance / 2)  # E[exp(f + e) | f] = exp(f + Var(e) / 2)
    return np.expm1(epistemic) * center**2


@dataclass(frozen=True)
class SeriesScaler:
    """Transformation and standardization of each series.

    Attributes:
        transform: transform that is applied first.
        mean: mean of each transformed series, ``[series]``.
        scale: standard deviation of each transformed series, ``[series]``.
    """

    transform: Transform
    mean: Array
    scale: Array

    @classmethod
    def fit(cls, y: Array, transform: Transform, names: tuple[str, ...]) -> SeriesScaler:
        """Return the scaler of series ``[times, series]``; missing values (NaN) are ignored.

        Raises:
            InvalidInput: a series has no values, or is constant.
        """
        x = forward(transform, y)
        for name, column in zip(names, x.T, strict=True):
            values = column[~np.isnan(column)]
            if len(values) == 0:
                raise InvalidInput(f"series {name!r} has no values at all")
            if values.max() - values.min() <= _ROUNDING * np.abs(values).max():
                raise InvalidInput(
                    f"series {name!r} is constant ({values[0]:g}, {len(values)} values): there is "
                    f"nothing to forecast"
                )
        return cls(transform, np.nanmean(x, 0), np.nanstd(x, 0))

    def scaled(self, y: Array) -> Array:
        """Return the transformed and standardized series."""
        x: Array = (forward(self.transform, y) - self.mean) / self.scale
        return x


@dataclass(frozen=True)
class CovariateScaler:
    """Standardization of covariates; a constant one keeps its scale.

    Attributes:
        mean: mean of each covariate, ``[covariates]``.
        scale: standard deviation of each covariate, 1 if constant, ``[covariates]``.
    """

    mean: Array
    scale: Array

    @classmethod
    def fit(cls, values: Array) -> CovariateScaler:
        """Return the scaler of covariates ``[times, series, covariates]``.

        Raises:
            InvalidInput: a covariate has no values.
        """
        if values.shape[-1] == 0:
            return cls(np.zeros(0), np.ones(0))
        flat = values.reshape(-1, values.shape[-1])
        empty = np.isnan(flat).all(0)
        if empty.any():
            raise InvalidInput(f"covariate {int(empty.argmax())} has no values at all")
        # The standard deviation of a constant is a rounding error, too small to divide by.
        constant = np.nanmax(flat, 0) - np.nanmin(flat, 0) <= _ROUNDING * np.nanmax(np.abs(flat), 0)
        return cls(np.nanmean(flat, 0), np.where(constant, 1.0, np.nanstd(flat, 0)))

    def scaled(self, values: Array) -> Array:
        """Return the standardized covariates."""
        x: Array = (values - self.mean) / self.scale
        return x


def check_transform(given: Any) -> Transform:
    """Return one of ``TRANSFORMS``; None means ``"none"``.

    Raises:
        ValueError: the name is unknown.
    """
    name: Any = "none" if given is None else given
    if name not in TRANSFORMS:
        raise ValueError(f"transform must be one of {', '.join(TRANSFORMS)}; got {given!r}")
    return name
