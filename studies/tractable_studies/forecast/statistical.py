"""Autoregression and exponential smoothing of statsmodels, at rolling origins.

Parameters are those of the training values; what comes later only moves the state on.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Moments = tuple[Array, Array]
"""Means and variances, ``[origins, steps]``."""


def autoregression(
    y: Array, train: int, origins: npt.NDArray[np.int64], steps: int, most: int
) -> tuple[Moments, int]:
    """Return forecasts of AR(p) with p by Akaike's criterion on the training values, and p."""
    from statsmodels.tsa.ar_model import AutoReg, ar_select_order

    lags = ar_select_order(y[:train], maxlag=most, ic="aic").ar_lags or [1]
    p = max(lags)
    fitted = AutoReg(y[:train], lags=p).fit()
    constant, weights = float(fitted.params[0]), np.asarray(fitted.params[1:])
    psi = np.zeros(steps)
    psi[0] = 1.0
    for k in range(1, steps):
        reach = min(k, p)
        psi[k] = weights[:reach] @ psi[k - reach : k][::-1]
    variance = float(fitted.sigma2) * np.cumsum(psi**2)
    means = np.empty((len(origins), steps))
    for row, origin in enumerate(origins):
        window = list(y[origin + 1 - p : origin + 1])
        for k in range(steps):
            window.append(constant + float(weights @ np.array(window[: -p - 1 : -1])))
            means[row, k] = window[-1]
    return (means, np.broadcast_to(variance, means.shape)), p


def smoothing(
    y: Array, train: int, origins: npt.NDArray[np.int64], steps: int, season: int | None
) -> Moments:
    """Forecast by additive-error ETS: level, trend, season; or level and damped trend."""
    import pandas as pd
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel

    def model(values: Array) -> Any:
        return ETSModel(
            pd.Series(values), error="add", trend="add", damped_trend=season is None,
            seasonal=None if season is None else "add", seasonal_periods=season,
        )  # fmt: skip

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = model(y[:train]).fit(disp=False)
        means, variances = np.empty((len(origins), steps)), np.empty((len(origins), steps))
        for row, origin in enumerate(origins):
            moved = model(y[: origin + 1]).smooth(fitted.params)
            forecast = moved.get_prediction(start=origin + 1, end=origin + steps)
            frame = forecast.summary_frame(alpha=0.1)
            means[row] = frame["mean"]
            half = (frame["pi_upper"] - frame["pi_lower"]) / 2
            variances[row] = (half / 1.6448536) ** 2
    return means, variances


def scores(y: Array, origins: npt.NDArray[np.int64], moments: Moments) -> dict[str, float]:
    """Return scores of forecasts: over all steps, and of the first step."""
    mean, variance = moments
    came = y[origins[:, None] + 1 + np.arange(mean.shape[1])]
    square = (came - mean) ** 2
    log_density = -0.5 * (square / variance + np.log(2 * math.pi * variance))
    inside = square <= 1.6448536**2 * variance
    return {
        "rmse": float(np.sqrt(square.mean())),
        "log_likelihood": float(log_density.mean()),
        "coverage_90": float(inside.mean()),
        "log_likelihood_1": float(log_density[:, 0].mean()),
        "log_likelihood_last": float(log_density[:, -1].mean()),
    }
