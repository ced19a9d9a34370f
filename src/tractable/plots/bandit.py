"""Plots of bandits: cumulative regret, rates of actions, and numbers of errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tractable.plots.style import (
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


def regret(
    runs: Mapping[str, Any],
    *,
    show_runs: bool = False,
    scale: str = "linear",
    ylabel: str = "cumulative regret",
    ax: Axes | None = None,
) -> Axes:
    """Plot the cumulative regret of agents: the mean and the range over runs.

    Args:
        runs: cumulative regret by name of the agent, ``[runs, steps]`` or ``[steps]``.
        show_runs: whether to draw every run instead of mean and range.
        scale: scale of the y axis: ``"linear"`` or ``"log"``.
        ylabel: label of the y axis.
        ax: matplotlib axes to draw on. Default: axes of a new figure.

    Returns:
        The axes.
    """
    rows = {name: _rows(name, values) for name, values in runs.items()}
    ax = get_axes(ax)
    for name, curves in rows.items():
        color, steps, shown = next_color(ax), curves.shape[1], thin_indices(curves.shape[1])
        at = np.arange(1, steps + 1)[shown]
        if show_runs:
            for number, curve in enumerate(curves):
                ax.plot(
                    at, curve[shown], color=color, linewidth=1.2, label=None if number else name
                )
            continue
        if len(curves) > 1:
            low, high = curves.min(0)[shown], curves.max(0)[shown]
            ax.fill_between(at, low, high, color=color, alpha=0.18, linewidth=0)
        ax.plot(at, curves.mean(0)[shown], color=color, linewidth=1.8, label=name)
    ax.set_yscale(scale)
    style_axes(ax, xlabel="step", ylabel=ylabel)
    legend(ax)
    return ax


def action_rate(
    runs: Mapping[str, Any],
    *,
    window: int = 500,
    best: float | None = None,
    ylabel: str = "share of steps",
    ax: Axes | None = None,
) -> Axes:
    """Plot how often an action is taken: running mean over steps, averaged over runs.

    Args:
        runs: 1 where the action was taken, else 0, by name of the agent, ``[runs, steps]``.
        window: number of steps of the running mean.
        best: rate of an oracle, drawn as a line.
        ylabel: label of the y axis.
        ax: matplotlib axes to draw on. Default: axes of a new figure.

    Returns:
        The axes.
    """
    if window < 1:
        raise ValueError(f"window must be at least 1, got {window}")
    rows = {name: _rows(name, values).mean(0) for name, values in runs.items()}
    for name, taken in rows.items():
        if len(taken) < window:
            raise ValueError(f"{name} has {len(taken)} steps, fewer than the window of {window}")
    ax = get_axes(ax)
    for name, taken in rows.items():
        total = np.concatenate([[0.0], np.cumsum(taken)])
        mean = (total[window:] - total[:-window]) / window
        shown = thin_indices(len(mean))
        at = np.arange(window, len(taken) + 1)[shown]
        ax.plot(at, mean[shown], color=next_color(ax), linewidth=1.5, label=name)
    if best is not None:
        ax.axhline(best, color=INK, linestyle="--", linewidth=1, label="oracle")
    ax.set_ylim(0, 1)
    style_axes(ax, xlabel="step", ylabel=ylabel)
    legend(ax)
    return ax


def error_counts(
    counts: Mapping[str, Sequence[float]],
    kinds: Sequence[str] = ("false positives", "false negatives"),
    *,
    ylabel: str = "count",
    ax: Axes | None = None,
) -> Axes:
    """Plot the numbers of errors of each kind, side by side for each agent.

    Args:
        counts: one number per kind, by name of the agent.
        kinds: names of the kinds of errors.
        ylabel: label of the y axis.
        ax: matplotlib axes to draw on. Default: axes of a new figure.

    Returns:
        The axes.
    """
    for name, values in counts.items():
        if len(values) != len(kinds):
            raise ValueError(f"{name} has {len(values)} counts for {len(kinds)} kinds")
    ax = get_axes(ax)
    width = 0.8 / len(kinds)
    at = np.arange(len(counts))
    for number, kind in enumerate(kinds):
        heights = [values[number] for values in counts.values()]
        offset = (number - (len(kinds) - 1) / 2) * width
        bars = ax.bar(at + offset, heights, width, color=next_color(ax), label=kind)
        ax.bar_label(bars, fmt="{:,.0f}", fontsize=8, color=INK)
    ax.set_xticks(at, list(counts))
    style_axes(ax, xlabel="agent", ylabel=ylabel)
    legend(ax)
    return ax


def _rows(name: str, values: Any) -> Array:
    rows = np.atleast_2d(array(values)).astype(float)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise ValueError(f"{name} must have one row per run, got shape {rows.shape}")
    return rows
