"""Series and what is forecast of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tractable.plots.canvas import INK, array, canvas, legend, next_color, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tractable.forecast import Forecast


def forecast(
    forecast: Forecast,
    *,
    history: tuple[Any, Any] | None = None,
    truth: Any = None,
    levels: Sequence[float] = (0.5, 0.9),
    paths: int = 0,
    series: int = 0,
    color: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The forecast mean and central intervals, after the end of the series.

    Args:
        forecast: what ``Forecaster.predict`` gave.
        history: time stamps and values before it; only the end matters.
        truth: what came, one value per step, shown dashed.
        levels: of the intervals, shaded darker the smaller they are.
        paths: number of paths to draw thinly.
        series: which of several series.
        color: of the forecast; by default the next of the palette.
        ax: where to draw.
    """

    def own(values: Any) -> Any:
        values = array(values)
        return values if forecast.squeezed else values[..., series]

    ax = canvas(ax, (7.2, 3.4))
    color = next_color(ax, color)
    if history is not None:
        times, values = array(history[0]), array(history[1])
        values = values if values.ndim == 1 else values[:, series]
        ax.plot(times, values, color=INK, linewidth=1.0, label="series")
    for rank, level in enumerate(sorted(levels, reverse=True)):
        low, high = (own(side) for side in forecast.interval(level))
        ax.fill_between(
            forecast.times, low, high,
            color=color, alpha=0.16 + 0.12 * rank, linewidth=0, label=f"{level:.0%}",
        )  # fmt: skip
    if paths:
        for path in own(forecast.sample(paths)):
            ax.plot(forecast.times, path, color=color, alpha=0.45, linewidth=0.8)
    if truth is not None:
        seen = np.asarray(truth, dtype=float)
        seen = seen if seen.ndim == 1 else seen[:, series]
        ax.plot(forecast.times, seen, "--", color=INK, linewidth=1.2, label="what came")
    ax.plot(forecast.times, own(forecast.mean), color=color, linewidth=2, label="forecast")
    quiet(ax, xlabel="time", ylabel=forecast.series_names[series])
    legend(ax, loc="lower left", bbox_to_anchor=(0, 1), ncols=5)
    return ax
