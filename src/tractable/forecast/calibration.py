"""Calibration of forecast errors on validation windows.

A network trained on the same windows for several epochs underestimates its errors, and later values
may be more or less volatile than the training data. Three things are therefore measured on the
validation windows:

* ``noise_factors``: factors on the noise variance of each series and step, shrunk towards the mean
  of the series with the weight of ten windows;
* ``correlation``: correlation of the errors of different steps, shrunk towards one that decays with
  their distance, more strongly for fewer windows; sample paths need it;
* ``error_window``: number of times over which squared standardized errors ``z^2`` are averaged. The
  variance of a step is multiplied by that exponentially weighted average (of forecasts whose
  outcome is known at the origin, so the future is not used):

      r <- r + (min(z^2, 25) - r) / error_window        at every new value, for every step

  It is not used if it costs the later half of the windows more than 0.05 nats per value, with
  factors of the earlier half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tractable.forecast.direct import DirectModel, Origins
from tractable.forecast.recursive import RecursiveModel
from tractable.forecast.windows import Array, History, targets_at, windows_with_values

Doubles = npt.NDArray[np.float64]
DEFAULT_ERROR_WINDOW = 500.0  # times; long enough that the average itself has an error of 6 %
MAX_COST = 0.05  # nats per value, the price of adapting to a volatility that may change later
_MAX_SQUARED_ERROR = 25.0  # in units of the variance, to bound the effect of one outlier
_PRIOR_WINDOWS = 10.0  # weight of the series mean in the factor of a step
_MIN_SHARE = 1e-3  # of the squared error that counts as noise, however large the epistemic variance


@dataclass(frozen=True)
class ForecastErrors:
    """Errors and variances of forecasts, ``[origins, series, steps]`` each.

    Attributes:
        error: value minus forecast mean; NaN where the value is missing.
        epistemic: variance without the noise.
        aleatoric: variance of the noise.
    """

    error: Array
    epistemic: Array
    aleatoric: Array

    @classmethod
    def of_model(
        cls, model: DirectModel | RecursiveModel, history: History, origins: Origins
    ) -> ForecastErrors:
        """Return the errors at these origins; NaN for windows without any value."""
        series, steps = history.loc.shape[1], model.layout.steps
        parts: list[tuple[Array, Array, Array]] = []
        for chunk in model.chunks(origins, series):
            found = model.predictive(history, chunk)
            level = np.zeros(len(chunk) * series, np.float32)
            after = targets_at(history, model.layout, chunk, level)
            if model.target_units is not None:
                mean, scale = (np.tile(part, len(chunk))[:, None] for part in model.target_units)
                after = after * scale + mean
            e = after - found.mean.numpy().reshape(after.shape)
            e[~windows_with_values(history, model.layout.lags, chunk).reshape(-1)] = np.nan
            row = (e, found.epistemic.numpy(), found.aleatoric.numpy())
            a, b, c = (p.reshape(len(chunk), series, steps).astype(np.float32) for p in row)
            parts.append((a, b, c))
        return cls(*(np.concatenate(kind) for kind in zip(*parts, strict=True)))

    @classmethod
    def concatenate(cls, parts: list[ForecastErrors]) -> ForecastErrors:
        """Return the errors of several fits, one after the other."""
        names = ("error", "epistemic", "aleatoric")
        return cls(*(np.concatenate([getattr(part, n) for part in parts]) for n in names))

    def __getitem__(self, rows: slice) -> ForecastErrors:
        return ForecastErrors(self.error[rows], self.epistemic[rows], self.aleatoric[rows])

    def __len__(self) -> int:
        return len(self.error)

    @property
    def score(self) -> float:
        """Mean over series of minus half the log mean squared error; larger is better."""
        some = self.has_errors
        square = np.nanmean(np.square(self.error[:, some], dtype=np.float64), axis=(0, 2))
        return float(-0.5 * np.mean(np.log(square + 1e-12)))

    @property
    def has_errors(self) -> npt.NDArray[np.bool_]:
        """Which series have at least one error, ``[series]``."""
        found: npt.NDArray[np.bool_] = np.any(~np.isnan(self.error), axis=(0, 2))
        return found

    def variance(self, factors: Array) -> Array:
        """Return the forecast variance when the noise variance is multiplied by ``factors``."""
        variance: Array = self.epistemic + factors.astype(np.float32) * self.aleatoric
        return variance

    def log_likelihood(self, factors: Array) -> float:
        """Return the mean log density of the values with these factors on the noise."""
        variance = self.variance(factors)
        density = -0.5 * (self.error**2 / variance + np.log(2 * np.pi * variance))
        return float(np.nanmean(density, dtype=np.float64))


@dataclass(frozen=True)
class ErrorCalibration:
    """Calibration of the forecast errors.

    Attributes:
        noise_factors: factors on the noise variance, ``[series, steps]``.
        correlation: correlation of the errors of different steps, ``[steps, steps]``.
        error_window: number of times that recent errors are averaged over; None for no average.
    """

    noise_factors: Doubles
    correlation: Doubles
    error_window: float | None

    @classmethod
    def identity(cls, series: int, steps: int) -> ErrorCalibration:
        """Return the calibration that changes nothing, with independent steps."""
        return cls(np.ones((series, steps)), np.eye(steps), None)

    @classmethod
    def fit(
        cls, errors: ForecastErrors, error_window: float | Literal["auto"] | None
    ) -> ErrorCalibration:
        """Return the calibration of errors at consecutive origins.

        Args:
            errors: errors of validation windows.
            error_window: ``"auto"`` selects it on these windows.
        """
        factors = noise_factors(errors)
        if error_window == "auto":
            error_window = select_error_window(errors)
        return cls(factors, step_correlation(errors, factors), error_window)


def noise_factors(errors: ForecastErrors) -> Doubles:
    """Return the factors on the noise variance that match the squared errors, ``[series, steps]``.

    A series without any error, such as one that ended early, gets the factors of all other series
    together.
    """
    known = ~np.isnan(errors.error)
    count = known.sum(0)
    square = np.where(known, np.square(errors.error, dtype=np.float64), 0).sum(0)
    epistemic = np.where(known, errors.epistemic, 0).sum(0, dtype=np.float64)
    noise = np.where(known, errors.aleatoric, 0).sum(0, dtype=np.float64)
    target = np.maximum(square - epistemic, _MIN_SHARE * square)
    pooled = target.sum(1, keepdims=True) / np.maximum(noise.sum(1, keepdims=True), 1e-30)
    mean_noise = np.where(count > 0, noise / np.maximum(count, 1), 1.0)
    factors: Doubles = (target + _PRIOR_WINDOWS * pooled * mean_noise) / (
        (count + _PRIOR_WINDOWS) * mean_noise
    )
    some = count.sum(1) > 0
    factors[~some] = target.sum(0) / np.maximum(noise.sum(0), 1e-30)
    steps = count.sum(0) > 0  # steps with any known outcome
    factors[np.ix_(~some, ~steps)] = target.sum() / max(noise.sum(), 1e-30)
    return np.maximum(factors, 1e-9)


def step_correlation(errors: ForecastErrors, factors: Doubles) -> Doubles:
    """Return the correlation of the errors of different steps, over all series."""
    z = errors.error / np.sqrt(errors.variance(factors))
    z = z.reshape(-1, z.shape[-1]).astype(np.float64)
    known = (~np.isnan(z)).astype(np.float64)
    z = np.nan_to_num(z)
    n_pairs = np.maximum(known.T @ known, 1)
    cross = (z.T @ z) / n_pairs
    size = np.sqrt(np.maximum(cross.diagonal(), 1e-12))
    sample = np.clip(cross / np.outer(size, size), -1, 1)
    steps = len(sample)
    if steps == 1:
        return np.ones((1, 1))
    neighbors = float(np.clip(np.diagonal(sample, 1).mean(), 0.0, 0.999))
    distance = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))
    weight = 1 / (1 + len(errors) / steps)
    return nearest_correlation((1 - weight) * sample + weight * neighbors**distance)


def nearest_correlation(matrix: Doubles) -> Doubles:
    """Return a correlation matrix whose eigenvalues are at least about 1e-8."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    if values[0] > 1e-8:
        return matrix
    clipped = (vectors * np.maximum(values, 1e-8)) @ vectors.T
    size = np.sqrt(clipped.diagonal())
    correlation: Doubles = clipped / np.outer(size, size)
    return correlation


def select_error_window(errors: ForecastErrors) -> float | None:
    """Return ``DEFAULT_ERROR_WINDOW``, or None if it makes later windows clearly less likely.

    Noise factors are estimated on the earlier half. With too few windows for the comparison, the
    result is None.
    """
    half = len(errors) // 2
    if half < max(errors.error.shape[2], DEFAULT_ERROR_WINDOW / 2):
        return None
    earlier, later = errors[:half], errors[half:]
    if not (earlier.has_errors.any() and later.has_errors.any()):
        return None
    base = noise_factors(earlier)
    z2 = errors.error**2 / errors.variance(base)
    adapted = later.log_likelihood(base * error_ewma(z2, DEFAULT_ERROR_WINDOW)[0][half:])
    return DEFAULT_ERROR_WINDOW if adapted > later.log_likelihood(base) - MAX_COST else None


def error_ewma(z2: Array, window: float, start: Array | None = None) -> tuple[Array, Array]:
    """Return the average of recent squared errors at each origin, and after the last one.

    Args:
        z2: squared errors in units of their variance at consecutive origins,
            ``[origins, series, steps]``; NaN where the value is unknown.
        window: number of times to average over.
        start: average before the first origin, ``[series, steps]``; by default 1.
    """
    origins, series, steps = z2.shape
    r = np.ones((series, steps), np.float32) if start is None else start.astype(np.float32)
    averages = np.empty_like(z2)
    ahead = np.arange(steps)
    for i in range(origins):
        r = ewma_step(r, _outcomes(z2, i, ahead), window)
        averages[i] = r
    return averages, r


def ewma_step(r: Array, z2: Array, window: float) -> Array:
    """Return the average after one more squared error of each step; NaN changes nothing."""
    known = np.isfinite(z2)
    clipped = np.where(known, np.minimum(z2, _MAX_SQUARED_ERROR), r)
    updated: Array = r + (clipped - r) / window
    return updated


def _outcomes(z2: Array, now: int, ahead: npt.NDArray[np.int64]) -> Array:
    """Return the squared errors known at origin ``now``: of step k, made k origins before."""
    made = now - 1 - ahead
    known = made >= 0
    found = np.full(z2.shape[1:], np.nan, z2.dtype)
    found[:, known] = z2[made[known], :, ahead[known]].T
    return found
