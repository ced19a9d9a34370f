"""Whether a model is right as often as it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tractable import metrics
from tractable.plots.canvas import INK, array, canvas, legend, next_color, quiet
from tractable.plots.lines import Curves, draw, points
from tractable.predictive import Predictive

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def reliability(
    predictive: Predictive | metrics.Reliability,
    y: Any = None,
    *,
    bins: int = 15,
    least: int = 1,
    counts: bool = True,
    label: str | None = None,
    color: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Accuracy against confidence; on the diagonal, a model is as good as it says.

    Args:
        predictive: of classes, or a curve that ``metrics.reliability`` gave.
        y: the observed classes; nothing with a curve.
        bins: number of bins of equal width.
        least: rows that a bin must hold to be drawn: fewer say little.
        counts: show the share of rows in each bin as bars along the bottom.
        label: name of the model in the legend; its calibration error is added.
        color: by default the next of the palette.
        ax: where to draw; call again with the same to compare models.
    """
    if isinstance(predictive, metrics.Reliability):
        curve = predictive
    elif y is None:
        raise ValueError("reliability needs the observed classes: reliability(predictive, y)")
    else:
        curve = metrics.reliability(predictive, y, bins)
    ax = canvas(ax, (4.6, 4.4))
    first = not ax.lines
    color = next_color(ax, color)
    if first:
        ax.plot([0, 1], [0, 1], "--", color=INK, linewidth=1, label="calibrated")
    count = array(curve.count).astype(float)
    edges = array(curve.edges)
    if counts:
        ax.bar(
            edges[:-1], 0.2 * count / max(count.max(), 1), np.diff(edges),
            align="edge", color=color, alpha=0.18, linewidth=0,
        )  # fmt: skip
    held = count >= max(least, 1)
    name = "" if label is None else f"{label}: "
    ax.plot(
        array(curve.confidence)[held], array(curve.accuracy)[held], "o-",
        color=color, markersize=5, linewidth=1.8, label=f"{name}ECE {curve.ece:.2%}",
        clip_on=False,
    )  # fmt: skip
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    quiet(ax, xlabel="confidence", ylabel="accuracy")
    legend(ax, loc="best", fontsize="small" if len(ax.lines) > 4 else None)
    return ax


def agreement(
    curves: Curves,
    *,
    xlabel: str = "stated",
    ylabel: str = "observed",
    names: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Observed over stated frequencies, with the diagonal on which they are equal.

    Args:
        curves: name of each model to the stated and the observed frequencies; None is a gap.
        xlabel: what is stated, for example ``"confidence"``.
        ylabel: what is observed, for example ``"accuracy"``.
        names: show a legend.
        ax: where to draw.
    """
    drawn = {name: points(name, x, y) for name, (x, y) in curves.items()}
    ax = canvas(ax, (4.6, 4.4))
    from tractable.plots.ticks import round_ticks

    ax.plot([0, 1], [0, 1], ":", color=INK, linewidth=1, clip_on=False)
    draw(ax, drawn)
    seen = np.concatenate([[0.0, 1.0], *(values for pair in drawn.values() for values in pair)])
    limits = float(np.nanmin(seen)), float(np.nanmax(seen))
    ax.set(xlim=limits, ylim=limits, aspect="equal")
    round_ticks(ax.xaxis)
    round_ticks(ax.yaxis)
    quiet(ax, xlabel=xlabel, ylabel=ylabel)
    if names:
        legend(ax)
    return ax
