"""Forecasts from many origins at once, as they would have been made then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from tractable.forecast import scaling
from tractable.forecast.direct import Origins
from tractable.forecast.forecast import log_densities
from tractable.forecast.panel import Panel
from tractable.forecast.state import ForecasterState
from tractable.forecast.windows import Array, History, windows_with_values
from tractable.predictive import Predictive

Doubles = npt.NDArray[np.float64]
LEVELS = (0.5, 0.8, 0.9, 0.95)
"""Levels of the intervals whose coverage is measured."""


@dataclass(frozen=True)
class RollingForecasts:
    """Forecasts in the units of the data, ``[origins, series, steps]`` each.

    Attributes:
        predictive: distribution of the transformed values, ``[origins * series, steps]``.
        transform: transform of the values.
        shape: numbers of origins, series and steps.
        has_values: which windows have any value, ``[origins, series, 1]``; the others have no
            forecast, and numbers are NaN.
    """

    predictive: Predictive
    transform: scaling.Transform
    shape: tuple[int, int, int]
    has_values: npt.NDArray[np.bool_]

    @classmethod
    def at(
        cls, state: ForecasterState, history: History, origins: Origins, factors: Array
    ) -> RollingForecasts:
        """Return the forecasts of these origins, with factors on the noise variance."""
        found = state.model.predictive(history, origins, factors).double()
        if state.model.target_units is None:
            units = (state.scaler.mean, state.scaler.scale)
            mean, scale = (torch.from_numpy(np.tile(p, len(origins))[:, None]) for p in units)
            found = found.rescaled(mean, scale)
        shape = (len(origins), len(state.series_names), state.model.layout.steps)
        has_values = windows_with_values(history, state.model.layout.lags, origins)[..., None]
        return cls(found, state.scaler.transform, shape, has_values)

    @property
    def mean(self) -> Doubles:
        """Expected values."""
        return self._shaped(self._moments[0])

    @property
    def std(self) -> Doubles:
        """Standard deviations."""
        return self._shaped(np.sqrt(self._moments[1]))

    @property
    def _moments(self) -> tuple[Doubles, Doubles]:
        mean, variance = self.predictive.mean.numpy(), self.predictive.variance.numpy()
        return scaling.moments(self.transform, mean, variance)

    @property
    def median(self) -> Doubles:
        """Median of each forecast."""
        return self._quantile(0.5)

    def intervals(self) -> dict[float, tuple[Doubles, Doubles]]:
        """Return the central intervals of all ``LEVELS``."""
        return {q: (self._quantile((1 - q) / 2), self._quantile((1 + q) / 2)) for q in LEVELS}

    def log_density(self, y: Doubles) -> Doubles:
        """Return the log density of each value; NaN where it is missing."""
        rows = y.reshape(-1, self.shape[2])
        density = log_densities(self.predictive, scaling.forward(self.transform, rows))
        return self._shaped(density + scaling.log_slope(self.transform, rows))

    def _quantile(self, q: float) -> Doubles:
        found = self.predictive.quantile(q).numpy()
        return self._shaped(scaling.backward(self.transform, found))

    def _shaped(self, found: Doubles) -> Doubles:
        return np.where(self.has_values, found.reshape(self.shape), np.nan)


def one_step_forecasts(
    state: ForecasterState, panel: Panel
) -> Iterator[tuple[Origins, RollingForecasts]]:
    """Yield calibrated forecasts, in chunks, at every origin that has a whole window."""
    history = scaled_history(state, panel)
    origins = np.arange(state.model.layout.lags - 1, len(panel) - 1)
    for chunk in state.model.chunks(origins, len(state.series_names)):
        factors = state.calibration.noise_factors[None]
        yield chunk, RollingForecasts.at(state, history, chunk, factors)


def scaled_history(state: ForecasterState, panel: Panel) -> History:
    """Return a panel as a history, scaled by the scalers of the fit."""
    return History.from_observed(
        state.scaler.scaled(panel.values),
        state.future_scaler.scaled(panel.future_covariates),
        state.past_scaler.scaled(panel.past_covariates),
    )
