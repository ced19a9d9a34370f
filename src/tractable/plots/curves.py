"""Plots of curves: named curves, training histories, pruning and robustness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    thin_indices,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curves = Mapping[str, tuple[Sequence[float | None], Sequence[float | None]]]

DASHES = ("-", "--", ":", "-.")
"""Line styles; the next one is used when all colors have been used."""
_MAX_MARKERS = 25  # curves with more points have no markers
_MAX_VALUE = 1e100  # matplotlib cannot compute axes for larger values
Pairs = tuple[Any, Any]


def lines(
    curves: Curves,
    *,
    xlabel: str = "x",
    ylabel: str = "y",
    scale: str = "linear",
    max_points: int = 2000,
    show_legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Plot named curves; None and values that are not finite are gaps.

    Args:
        curves: x and y values of each curve, by name.
        xlabel: label of the x axis.
        ylabel: label of the y axis.
        scale: scale of the y axis: ``"linear"`` or ``"log"``, where values up to 0 are gaps.
        max_points: number of points to which longer curves are thinned, ends included.
        show_legend: whether to show a legend.
        ax: matplotlib axes to draw on. Default: axes of a new figure.

    Returns:
        The axes.
    """
    if scale not in ("linear", "log"):
        raise ValueError(f"scale must be 'linear' or 'log', got {scale!r}")
    log = scale == "log"
    drawn = {name: curve_points(name, x, y, max_points, log) for name, (x, y) in curves.items()}
    ax = get_axes(ax)
    from tractable.plots.ticks import round_ticks

    finite = [x[np.isfinite(y)] for x, y in drawn.values() if np.isfinite(y).any()]
    if log:
        ax.set_yscale("log")
    if not finite:  # an empty log axis needs limits
        ax.set_ylim(1, 10)
    draw_curves(ax, drawn)
    ax.margins(x=0.02)
    ax.autoscale_view()
    round_ticks(ax.xaxis, integer=bool(finite) and all((x == x.round()).all() for x in finite))
    round_ticks(ax.yaxis, log=log)
    style_axes(ax, xlabel=xlabel, ylabel=ylabel)
    if show_legend:
        legend(ax)
    return ax


def draw_curves(ax: Axes, curves: Mapping[str, tuple[Array, Array]]) -> None:
    """Draw each curve in the next color; short curves have markers."""
    for rank, (name, (x, y)) in enumerate(curves.items()):
        ax.plot(
            x, y, DASHES[rank // len(COLORS) % len(DASHES)],
            marker="o" if np.isfinite(y).sum() <= _MAX_MARKERS else None, markersize=3.5,
            color=next_color(ax), linewidth=1.6, label=name, clip_on=False,
        )  # fmt: skip


def curve_points(
    name: str, x: Any, y: Any, max_points: int = 2000, log: bool = False
) -> tuple[Array, Array]:
    """Return x and y values as arrays, thinned to ``max_points``; NaN in both for gaps."""
    if len(x) != len(y):
        raise ValueError(f"curve {name!r} has {len(x)} x values and {len(y)} y values")
    kept = thin_indices(len(x), max_points)
    across, up = (np.array(values, dtype=float)[kept] for values in (x, y))
    with np.errstate(invalid="ignore"):
        gap = ~((np.abs(across) < _MAX_VALUE) & (np.abs(up) < _MAX_VALUE))
        if log:
            gap |= ~(up > 1 / _MAX_VALUE)
    across[gap] = up[gap] = np.nan
    return across, up


def learning_curves(
    histories: Any,
    key: str = "validation_nll",
    *,
    scale: str = "linear",
    smooth: int = 1,
    ylabel: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot a metric of the training history over the epochs.

    Args:
        histories: a learner, its ``history``, or a dict of either by name.
        key: metric, for example ``"elbo"`` or ``"validation_nll"``.
        scale: scale of the y axis: ``"linear"``, ``"log"`` or ``"symlog"``.
        smooth: number of epochs of a running mean, which is drawn over the faint original curve.
        ylabel: label of the y axis. Default: the key with spaces.
        ax: matplotlib axes to draw on. Default: axes of a new figure.

    Returns:
        The axes.
    """
    if smooth < 1:
        raise ValueError(f"smooth must be at least 1, got {smooth}")
    named = histories if isinstance(histories, Mapping) else {None: histories}
    series = {name: _series(history, key) for name, history in named.items()}
    ax = get_axes(ax)
    from matplotlib.ticker import MaxNLocator

    for name, (epochs, values) in series.items():
        color = next_color(ax)
        if smooth > 1 and len(values) > smooth:
            ax.plot(epochs, values, color=color, alpha=0.25, linewidth=0.8)
            values = np.convolve(values, np.full(smooth, 1 / smooth), "valid")
            epochs = epochs[smooth - 1 :]
        ax.plot(epochs, values, color=color, linewidth=1.8, label=name)
    ax.set_yscale(scale)
    if scale == "log":  # 2 and 30 rather than powers of ten
        for axis in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
            axis(lambda value, _: f"{value:g}")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    style_axes(ax, xlabel="epoch", ylabel=ylabel or key.replace("_", " "))
    legend(ax)
    return ax


def _series(history: Any, key: str) -> tuple[Any, Any]:
    """Return epochs and values of the records with the key; epochs count over all fits."""
    records: Sequence[Mapping[str, float]] = getattr(history, "history", history)
    held = [(number, record[key]) for number, record in enumerate(records, 1) if key in record]
    if not held:
        known = sorted({name for record in records for name in record})
        raise KeyError(
            f"no record has the metric {key!r}; available: {', '.join(known) or 'no records'}"
        )
    epochs, values = zip(*held, strict=True)
    return np.array(epochs), np.array(values, dtype=float)


def pruning(
    curves: Mapping[str, Pairs] | Pairs,
    *,
    ylabel: str = "error rate",
    ax: Axes | None = None,
) -> Axes:
    """Plot a metric over the fraction of pruned weights.

    Args:
        curves: pruned fractions and values of the metric, or a dict of such pairs by the name of a
            model or layer.
        ylabel: name of the metric.
        ax: matplotlib axes to draw on. Default: axes of a new figure.

    Returns:
        The axes.
    """
    ax = _pairs(curves, ax, "o-")
    ax.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    return style_axes(ax, xlabel="weights pruned", ylabel=ylabel)


def robustness(
    curves: Mapping[str, Pairs] | Pairs,
    *,
    ylabel: str = "accuracy",
    ax: Axes | None = None,
) -> Axes:
    """Plot the accuracy under adversarial attacks over the size ε of the perturbation.

    Args:
        curves: sizes and accuracies, or a dict of such pairs by name.
        ylabel: name of the metric.
        ax: matplotlib axes to draw on. Default: axes of a new figure.

    Returns:
        The axes.
    """
    ax = _pairs(curves, ax, "o-")
    ax.set_ylim(bottom=0)
    return style_axes(ax, xlabel="perturbation ε", ylabel=ylabel)


def _pairs(curves: Mapping[str, Pairs] | Pairs, ax: Axes | None, style: str) -> Axes:
    named: Mapping[Any, Pairs] = curves if isinstance(curves, Mapping) else {None: curves}
    for name, (across, up) in named.items():
        if len(array(across)) != len(array(up)):
            raise ValueError(
                f"curve {name or ''} has {len(array(across))} x values and "
                f"{len(array(up))} y values"
            )
    ax = get_axes(ax)
    for name, (across, up) in named.items():
        ax.plot(
            array(across), array(up), style,
            color=next_color(ax), linewidth=1.8, markersize=4, label=name,
        )  # fmt: skip
    legend(ax)
    ax.tick_params(labelcolor=INK)
    return ax
