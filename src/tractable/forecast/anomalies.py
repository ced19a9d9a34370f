"""Anomaly scores: how unlikely each value is, given the values before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tractable.forecast import scaling
from tractable.forecast.panel import Panel
from tractable.forecast.rolling import RollingForecasts, one_step_forecasts
from tractable.forecast.state import ForecasterState
from tractable.predictive import NormalPredictive

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Anomalies:
    """Scores of each value under the forecast one step before it.

    Arrays have shape ``[times]``, or ``[times, series]``; NaN where a value is missing, or has no
    window before it.

    Approximate: where a forecast has no distribution function, or no density of a single step (such
    as one of angles), a normal distribution with the same moments is used.

    Attributes:
        times: time stamps.
        values: observed values.
        expected: medians of the forecasts.
        z_score: errors in standard deviations of the forecast (of transformed values, with a
            transform).
        nll: negative log density of the values, in the units of the data; for counts the negative
            log probability.
        p_value: two-sided p-value ``2 min(F, 1 - F)``, with F the distribution function of the
            forecast. For counts it is the mid-p value, ``F(y) = P(Y < y) + P(Y = y) / 2``.
    """

    times: npt.NDArray[Any]
    values: Array
    expected: Array
    z_score: Array
    nll: Array
    p_value: Array

    @classmethod
    def score(cls, state: ForecasterState, panel: Panel) -> Anomalies:
        """Return the scores of all values of a panel.

        Args:
            state: state of a fitted forecaster.
            panel: the series, with the past and future covariates that the forecaster was fitted
                with.
        """
        arrays = [np.full(panel.values.shape, np.nan) for _ in range(4)]
        for origins, forecasts in one_step_forecasts(state, panel):
            scores = _scores(forecasts, panel.values[origins + 1])
            for array, part in zip(arrays, scores, strict=True):
                array[origins + 1] = part
        parts = [array[:, 0] if panel.squeezed else array for array in (panel.values, *arrays)]
        return cls(panel.stamps, *parts)

    def outliers(self, min_z_score: float = 4.0) -> npt.NDArray[Any]:
        """Return the indices of values whose absolute z-score exceeds ``min_z_score``.

        Returns:
            Rows ``[n]``, or rows and series ``[n, 2]``.
        """
        with np.errstate(invalid="ignore"):
            indices = np.argwhere(np.abs(self.z_score) > min_z_score)
        return indices.squeeze(-1) if self.z_score.ndim == 1 else indices


def _scores(forecasts: RollingForecasts, y: Array) -> tuple[Array, Array, Array, Array]:
    """Return median, z-score, negative log density and p-value of ``y``, ``[origins, series]``."""
    found, x = forecasts.predictive, scaling.forward(forecasts.transform, y)
    shape = forecasts.shape
    mean, variance = (p.numpy().reshape(shape)[..., 0] for p in (found.mean, found.variance))
    z = (x - mean) / np.sqrt(variance)
    slope = scaling.log_slope(forecasts.transform, y)
    density = -0.5 * (z**2 + np.log(2 * np.pi * variance)) + slope
    p_value = 2 * torch.special.ndtr(-torch.from_numpy(np.abs(z))).numpy()
    if not isinstance(found, NormalPredictive):
        density = _density(forecasts, y, density)
        p_value = _p_value(forecasts, x, p_value)
    unknown = np.isnan(y) | ~forecasts.has_values[..., 0]
    z, nll, p_value = (np.where(unknown, np.nan, part) for part in (z, -density, p_value))
    return forecasts.median[..., 0], z, nll, p_value


def _density(forecasts: RollingForecasts, y: Array, normal: Array) -> Array:
    """Return the log density of the first step under the forecast; ``normal`` if it has none."""
    try:
        forecasts.predictive.elementwise_log_prob(forecasts.predictive.mean.round())
    except TypeError:
        return normal
    return forecasts.log_density(_as_first_step(forecasts, y, np.nan))[..., 0]


def _p_value(forecasts: RollingForecasts, x: Array, normal: Array) -> Array:
    """Return the p-value of the first step under the forecast; ``normal`` without a ``cdf``."""
    found = forecasts.predictive
    at = torch.from_numpy(_as_first_step(forecasts, np.nan_to_num(x), 0.0)).flatten(0, 1)
    try:
        probability = found.cdf(at)
        if found.is_discrete:
            probability = (probability + found.cdf(at - 1)) / 2
    except TypeError:
        return normal
    below: Array = probability.numpy().reshape(forecasts.shape)[..., 0]
    return 2 * np.minimum(below, 1 - below)


def _as_first_step(forecasts: RollingForecasts, first: Array, rest: float) -> Array:
    """Return ``[origins, series, steps]`` with values of the first step, ``rest`` elsewhere."""
    full = np.full(forecasts.shape, rest)
    full[..., 0] = first
    return full
