"""Predictions of a number along one input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tractable.plots.canvas import COLORS, INK, array, canvas, legend, next_color, quiet, vector
from tractable.predictive import Predictive

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def bands(
    x: Any,
    predictive: Predictive,
    *,
    levels: Sequence[float] = (0.5, 0.9),
    draws: Any = None,
    data: tuple[Any, Any] | None = None,
    truth: Any = None,
    label: str | None = None,
    color: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The predicted mean and central intervals over ``x``, with single draws if wanted.

    Args:
        x: the input of each row, in any order.
        predictive: of a single output.
        levels: of the intervals, shaded darker the smaller they are.
        draws: curves to draw thinly: an array with one row per curve, or a number of draws of a
            predictive that is a mixture over sampled weights.
        data: inputs and targets that were learnt from, shown as dots.
        truth: the noise-free target at each ``x``, shown dashed.
        label: name of the model in the legend.
        color: of the mean and the bands; by default the next of the palette.
        ax: where to draw.
    """
    at = vector(x, "x")
    mean = vector(predictive.mean, "the predicted mean")
    if mean.shape != at.shape:
        raise ValueError(f"x has {len(at)} rows and the predictive {len(mean)}")
    for level in levels:
        if not 0 < level < 1:
            raise ValueError(f"levels must lie between 0 and 1, got {level}")
    curves = _curves(predictive, draws, len(at))
    ax = canvas(ax)
    color = next_color(ax, color)
    order = np.argsort(at, kind="stable")
    at = at[order]
    prefix = "" if label is None else f"{label}, "
    for rank, level in enumerate(sorted(levels, reverse=True)):
        low, high = (vector(side, "an interval")[order] for side in predictive.interval(level))
        ax.fill_between(
            at, low, high,
            color=color, alpha=0.16 + 0.12 * rank, linewidth=0, label=f"{prefix}{level:.0%}",
        )  # fmt: skip
    for curve in curves:
        ax.plot(at, curve[order], color=color, alpha=0.45, linewidth=0.8)
    if truth is not None:
        ax.plot(at, vector(truth, "truth")[order], "--", color=INK, linewidth=1.2, label="truth")
    ax.plot(at, mean[order], color=color, linewidth=2, label=label or "mean")
    if data is not None:
        seen_x, seen_y = vector(data[0], "data inputs"), vector(data[1], "data targets")
        many = len(seen_x) > 200
        ax.plot(
            seen_x, seen_y, ".",
            color=COLORS[-1], markersize=4 if many else 7, alpha=0.5 if many else 0.9,
            markeredgewidth=0, label="data", zorder=2.5,
        )  # fmt: skip
    quiet(ax, xlabel="x", ylabel="y")
    legend(ax)
    return ax


def _curves(predictive: Predictive, draws: Any, rows: int) -> Any:
    if draws is None:
        return []
    if isinstance(draws, int):
        if draws < 0:
            raise ValueError(f"draws must not be negative, got {draws}")
        held = getattr(predictive, "draws", None)
        if held is None:
            raise TypeError(
                f"{type(predictive).__name__} holds no draws of the weights: give the curves "
                "themselves, one row each"
            )
        draws = held[:draws]
    curves = array(draws)
    curves = curves.reshape(len(curves), -1)
    if curves.shape[1] != rows:
        raise ValueError(f"draws must have {rows} columns, one per row of x; got {curves.shape}")
    return curves
