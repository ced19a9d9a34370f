"""Plots of predictions with prediction intervals: over one input, and of forecasts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tractable.plots.style import (
    COLORS,
    INK,
    Array,
    array,
    get_axes,
    legend,
    next_color,
    style_axes,
    vector,
)
from tractable.predictive import Predictive

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tractable.forecast import Forecast


def prediction_bands(
    x: Any,
    predictive: Predictive,
    *,
    levels: Sequence[float] = (0.5, 0.9),
    samples: Any = None,
    data: tuple[Any, Any] | None = None,
    truth: Any = None,
    label: str | None = None,
    color: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the predicted mean and central prediction intervals over one input.

    Args:
        x: input of each row, in any order, ``[rows]``.
        predictive: predictions of one output for these rows.
        levels: probabilities of the intervals; smaller ones are shaded darker.
        samples: functions to draw as thin lines: an array ``[functions, rows]``, or the number of
            weight samples to draw of a predictive distribution that contains them.
        data: inputs and targets of the training data, drawn as points.
        truth: noise-free target for each ``x``, drawn as a dashed line.
        label: name of the model in the legend.
        color: color of the mean and the intervals. Default: the next one of the palette.
        ax: matplotlib axes to draw on. Default: axes of a new figure.

    Returns:
        The axes.
    """
    at = vector(x, "x")
    mean = vector(predictive.mean, "the predicted mean")
    if mean.shape != at.shape:
        raise ValueError(f"x has {len(at)} rows and the predictive {len(mean)}")
    for level in levels:
        if not 0 < level < 1:
            raise ValueError(f"levels must lie between 0 and 1, got {level}")
    functions = _sampled_functions(predictive, samples, len(at))
    ax = get_axes(ax)
    color = next_color(ax, color)
    order = np.argsort(at, kind="stable")
    at = at[order]
    prefix = "" if label is None else f"{label}, "

    def interval(level: float) -> tuple[Array, Array]:
        low, high = (vector(end, "an interval")[order] for end in predictive.interval(level))
        return low, high

    _fill_intervals(ax, at, interval, levels, color, prefix)
    for function in functions:
        ax.plot(at, function[order], color=color, alpha=0.45, linewidth=0.8)
    if truth is not None:
        ax.plot(at, vector(truth, "truth")[order], "--", color=INK, linewidth=1.2, label="truth")
    ax.plot(at, mean[order], color=color, linewidth=2, label=label or "mean")
    if data is not None:
        _draw_data(ax, data)
    style_axes(ax, xlabel="x", ylabel="y")
    legend(ax)
    return ax


def _fill_intervals(
    ax: Axes,
    x: Any,
    interval: Callable[[float], tuple[Array, Array]],
    levels: Sequence[float],
    color: str,
    prefix: str = "",
) -> None:
    """Shade the intervals of several levels; smaller ones are drawn later and darker."""
    for rank, level in enumerate(sorted(levels, reverse=True)):
        low, high = interval(level)
        ax.fill_between(
            x, low, high,
            color=color, alpha=0.16 + 0.12 * rank, linewidth=0, label=f"{prefix}{level:.0%}",
        )  # fmt: skip


def _draw_data(ax: Axes, data: tuple[Any, Any]) -> None:
    """Draw training data as points, smaller and fainter if there are many."""
    x, y = vector(data[0], "data inputs"), vector(data[1], "data targets")
    is_dense = len(x) > 200
    ax.plot(
        x, y, ".",
        color=COLORS[-1], markersize=4 if is_dense else 7, alpha=0.5 if is_dense else 0.9,
        markeredgewidth=0, label="data", zorder=2.5,
    )  # fmt: skip


def _sampled_functions(predictive: Predictive, samples: Any, n_rows: int) -> Any:
    """Return the functions to draw, ``[functions, rows]``."""
    if samples is None:
        return []
    if isinstance(samples, int):
        if samples < 0:
            raise ValueError(f"samples must not be negative, got {samples}")
        held = getattr(predictive, "means", None)
        if held is None:
            raise TypeError(
                f"{type(predictive).__name__} contains no weight samples: pass the functions as an "
                "array with one row per function"
            )
        samples = held[:samples]
    functions = array(samples)
    functions = functions.reshape(len(functions), -1)
    if functions.shape[1] != n_rows:
        raise ValueError(
            f"samples must have {n_rows} columns, one per row of x; got {functions.shape}"
        )
    return functions


def forecast(
    forecast: Forecast,
    *,
    history: tuple[Any, Any] | None = None,
    truth: Any = None,
    levels: Sequence[float] = (0.5, 0.9),
    n_paths: int = 0,
    series: int = 0,
    color: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the mean and central prediction intervals of a forecast, after the series.

    Args:
        forecast: result of ``Forecaster.predict``.
        history: time stamps and values before the forecast.
        truth: observed values, one per step, drawn as a dashed line.
        levels: probabilities of the intervals; smaller ones are shaded darker.
        n_paths: number of sampled paths to draw as thin lines.
        series: index of the series, if there are several.
        color: color of the forecast. Default: the next one of the palette.
        ax: matplotlib axes to draw on. Default: axes of a new figure.

    Returns:
        The axes.
    """

    def own(values: Any) -> Any:
        values = array(values)
        return values if forecast.squeezed else values[..., series]

    ax = get_axes(ax, (7.2, 3.4))
    color = next_color(ax, color)
    if history is not None:
        times, values = array(history[0]), array(history[1])
        values = values if values.ndim == 1 else values[:, series]
        ax.plot(times, values, color=INK, linewidth=1.0, label="series")

    def interval(level: float) -> tuple[Array, Array]:
        low, high = (own(end) for end in forecast.interval(level))
        return low, high

    _fill_intervals(ax, forecast.times, interval, levels, color)
    if n_paths:
        for path in own(forecast.sample(n_paths)):
            ax.plot(forecast.times, path, color=color, alpha=0.45, linewidth=0.8)
    if truth is not None:
        observed = np.asarray(truth, dtype=float)
        observed = observed if observed.ndim == 1 else observed[:, series]
        ax.plot(forecast.times, observed, "--", color=INK, linewidth=1.2, label="observed")
    ax.plot(forecast.times, own(forecast.mean), color=color, linewidth=2, label="forecast")
    style_axes(ax, xlabel="time", ylabel=forecast.series_names[series])
    legend(ax, loc="lower left", bbox_to_anchor=(0, 1), ncols=5)
    return ax
