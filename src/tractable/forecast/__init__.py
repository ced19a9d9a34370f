"""Probabilistic forecasts of one or several time series, with online updates."""

from tractable.forecast.anomalies import Anomalies
from tractable.forecast.backtest import Backtest, seasonal_naive
from tractable.forecast.forecast import Forecast
from tractable.forecast.forecaster import Forecaster

__all__ = ["Anomalies", "Backtest", "Forecast", "Forecaster", "seasonal_naive"]
