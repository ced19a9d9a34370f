"""Predictions beside what was observed, and columns by how much they matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tractable.plots.canvas import INK, canvas, next_color, quiet, vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDEST = 22  # letters of a name beside its bar


def observed(
    seen: Any,
    predicted: Any,
    low: Any = None,
    high: Any = None,
    *,
    xlabel: str = "observed",
    ylabel: str = "predicted",
    ax: Axes | None = None,
) -> Axes:
    """Predicted over observed values, with the diagonal on which they are equal.

    Args:
        seen: what was observed, one number a row.
        predicted: what was predicted.
        low: lower ends of error bars.
        high: upper ends.
        xlabel: name of the observed values.
        ylabel: name of the predicted ones.
        ax: where to draw.
    """
    x, y = vector(seen, "seen"), vector(predicted, "predicted")
    ax = canvas(ax, (4.6, 4.4))
    from tractable.plots.ticks import round_ticks

    color = next_color(ax)
    if low is not None and high is not None:
        bars = vector(low, "low"), vector(high, "high")
        ax.vlines(x, *bars, color=color, alpha=0.35, linewidth=1)
    ends = [float(min(x.min(), y.min())), float(max(x.max(), y.max()))]
    ax.plot(ends, ends, ":", color=INK, linewidth=1)
    ax.plot(x, y, "o", color=color, markersize=3, alpha=0.8)
    round_ticks(ax.xaxis)
    round_ticks(ax.yaxis)
    return quiet(ax, xlabel=xlabel, ylabel=ylabel)


def ranked(
    names: Sequence[str],
    values: Any,
    errors: Any = None,
    *,
    xlabel: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Bars with names, the first on top, and lines of an error on each side.

    Args:
        names: what each bar is of.
        values: its length.
        errors: half the length of the line at its end.
        xlabel: what is measured.
        ax: where to draw.
    """
    lengths = vector(values, "values")
    ax = canvas(ax, (6.4, 0.8 + 0.35 * len(lengths)))
    from tractable.plots.ticks import round_ticks

    at = np.arange(len(lengths))[::-1]
    ax.barh(at, lengths, height=0.6, color=next_color(ax))
    if errors is not None:
        half = vector(errors, "errors")
        ax.hlines(at, lengths - half, lengths + half, color=INK, linewidth=1.2)
    short = [name if len(name) <= _WIDEST else f"{name[: _WIDEST - 1]}…" for name in names]
    ax.set_yticks(at, short)
    ax.set_ylim(-0.7, len(lengths) - 0.3)
    round_ticks(ax.xaxis)
    quiet(ax, xlabel=xlabel, ylabel=" ")
    ax.grid(False, axis="y")
    return ax
