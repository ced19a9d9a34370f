"""Plots of calibration: reliability diagrams, predicted over observed values, and rankings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tractable import metrics
from tractable.plots.curves import Curves, curve_points, draw_curves
from tractable.plots.style import INK, array, get_axes, legend, next_color, style_axes, vector
from tractable.predictive import Predictive

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_LABEL = 22  # characters of the name of a bar


def reliability(
    predictive: Predictive | metrics.Reliability,
    y: Any = None,
    *,
    n_bins: int = 15,
    min_count: int = 1,
    show_counts: bool = True,
    label: str | None = None,
    color: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot accuracy over confidence (reliability diagram); calibrated models lie on the diagonal.

    Args:
        predictive: predictions of classes, or a result of ``metrics.reliability``.
        y: observed classes; not needed with a result of ``metrics.reliability``.
        n_bins: number of bins of equal width.
        min_count: minimum number of rows in a bin that is drawn; fewer rows show mostly noise.
        show_counts: whether to show the share of rows in each bin as bars at the bottom.
        label: name of the model in the legend, to which its calibration error is added.
        color: color of the curve. Default: the next one of the palette.
        ax: matplotlib axes to draw on; pass the same axes to compare models. Default: axes of a new
            figure.

    Returns:
        The axes.

    References:
        C. Guo, G. Pleiss, Y. Sun and K. Weinberger, "On calibration of modern neural networks",
        ICML 2017.
    """
    if isinstance(predictive, metrics.Reliability):
        curve = predictive
    elif y is None:
        raise ValueError("reliability needs the observed classes: reliability(predictive, y)")
    else:
        curve = metrics.reliability(predictive, y, n_bins)
    ax = get_axes(ax, (4.6, 4.4))
    first = not ax.lines
    color = next_color(ax, color)
    if first:
        ax.plot([0, 1], [0, 1], "--", color=INK, linewidth=1, label="calibrated")
    count = array(curve.count).astype(float)
    edges = array(curve.edges)
    if show_counts:
        ax.bar(
            edges[:-1], 0.2 * count / max(count.max(), 1), np.diff(edges),
            align="edge", color=color, alpha=0.18, linewidth=0,
        )  # fmt: skip
    drawn = count >= max(min_count, 1)
    name = "" if label is None else f"{label}: "
    ax.plot(
        array(curve.confidence)[drawn], array(curve.accuracy)[drawn], "o-",
        color=color, markersize=5, linewidth=1.8, label=f"{name}ECE {curve.ece:.2%}",
        clip_on=False,
    )  # fmt: skip
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    style_axes(ax, xlabel="confidence", ylabel="accuracy")
    legend(ax, loc="best", fontsize="small" if len(ax.lines) > 4 else None)
    return ax


def calibration_curve(
    curves: Curves,
    *,
    xlabel: str = "predicted",
    ylabel: str = "observed",
    show_legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Plot observed over predicted frequencies, with the diagonal on which they are equal.

    Args:
        curves: predicted and observed frequencies of each model, by name; None is a gap.
        xlabel: name of the predicted frequencies, for example ``"confidence"``.
        ylabel: name of the observed frequencies, for example ``"accuracy"``.
        show_legend: whether to show a legend.
        ax: matplotlib axes to draw on. Default: axes of a new figure.

    Returns:
        The axes.
    """
    drawn = {name: curve_points(name, x, y) for name, (x, y) in curves.items()}
    ax = get_axes(ax, (4.6, 4.4))
    from tractable.plots.ticks import round_ticks

    ax.plot([0, 1], [0, 1], ":", color=INK, linewidth=1, clip_on=False)
    draw_curves(ax, drawn)
    values = np.concatenate([[0.0, 1.0], *(part for pair in drawn.values() for part in pair)])
    limits = float(np.nanmin(values)), float(np.nanmax(values))
    ax.set(xlim=limits, ylim=limits, aspect="equal")
    round_ticks(ax.xaxis)
    round_ticks(ax.yaxis)
    style_axes(ax, xlabel=xlabel, ylabel=ylabel)
    if show_legend:
        legend(ax)
    return ax


def predicted_vs_observed(
    observed: Any,
    predicted: Any,
    low: Any = None,
    high: Any = None,
    *,
    xlabel: str = "observed",
    ylabel: str = "predicted",
    ax: Axes | None = None,
) -> Axes:
    """Plot predicted over observed values, with the diagonal on which they are equal.

    Args:
        observed: observed values, ``[rows]``.
        predicted: predicted values, ``[rows]``.
        low: lower ends of error bars, ``[rows]``.
        high: upper ends of error bars, ``[rows]``.
        xlabel: label of the x axis.
        ylabel: label of the y axis.
        ax: matplotlib axes to draw on. Default: axes of a new figure.

    Returns:
        The axes.
    """
    x, y = vector(observed, "observed"), vector(predicted, "predicted")
    ax = get_axes(ax, (4.6, 4.4))
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
    return style_axes(ax, xlabel=xlabel, ylabel=ylabel)


def bar_ranking(
    names: Sequence[str],
    values: Any,
    errors: Any = None,
    *,
    xlabel: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Plot named horizontal bars with error bars, the first one at the top.

    Args:
        names: names of the bars.
        values: lengths of the bars, ``[bars]``.
        errors: half the lengths of the error bars, ``[bars]``.
        xlabel: label of the x axis.
        ax: matplotlib axes to draw on. Default: axes of a new figure.

    Returns:
        The axes.
    """
    lengths = vector(values, "values")
    ax = get_axes(ax, (6.4, 0.8 + 0.35 * len(lengths)))
    from tractable.plots.ticks import round_ticks

    at = np.arange(len(lengths))[::-1]
    ax.barh(at, lengths, height=0.6, color=next_color(ax))
    if errors is not None:
        half = vector(errors, "errors")
        ax.hlines(at, lengths - half, lengths + half, color=INK, linewidth=1.2)
    short = [name if len(name) <= _MAX_LABEL else f"{name[: _MAX_LABEL - 1]}…" for name in names]
    ax.set_yticks(at, short)
    ax.set_ylim(-0.7, len(lengths) - 0.3)
    round_ticks(ax.xaxis)
    style_axes(ax, xlabel=xlabel, ylabel=" ")
    ax.grid(False, axis="y")
    return ax
