"""Plots of the weights of networks: their distribution and their signal-to-noise ratio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tractable.plots.style import INK, Array, array, get_axes, legend, next_color, style_axes
from tractable.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DB = 10 / np.log(10)
_MAX_FILLED = 3  # filled areas; more would hide each other
_MAX_WEIGHTS = 200_000  # from which the range of a histogram is computed


def weights(
    posteriors: Any,
    *,
    kind: Literal["histogram", "density"] = "histogram",
    bins: int = 120,
    ax: Axes | None = None,
) -> Axes:
    """Plot the distribution of the weights of one or more models.

    Args:
        posteriors: a posterior, an array of weights, or a dict of either by name.
        kind: ``"histogram"`` of the means, or ``"density"``, the average of the Gaussian densities
            of all weights with a positive variance.
        bins: number of bins of the histogram, or of points of the density.
        ax: matplotlib axes to draw on. Default: axes of a new figure.

    Returns:
        The axes.
    """
    if kind not in ("histogram", "density"):
        raise ValueError(f"kind must be 'histogram' or 'density', got {kind!r}")
    named = posteriors if _is_named(posteriors) else {None: posteriors}
    moments = {name: _moments(posterior) for name, posterior in named.items()}
    reach = max(_reach(loc, variance) for loc, variance in moments.values())
    edges = np.linspace(-reach, reach, bins + 1)
    ax = get_axes(ax)
    for name, (loc, variance) in moments.items():
        color = next_color(ax)
        counts, _ = np.histogram(loc, edges)
        height = counts / (max(len(loc), 1) * np.diff(edges))
        if kind == "density" and (variance > 0).any():
            height = _density(edges, loc, variance)
        _steps(ax, height, edges, color, name, filled=len(moments) <= _MAX_FILLED)
    style_axes(ax, xlabel="weight", ylabel="density")
    legend(ax)
    return ax


def snr(
    posteriors: Any,
    *,
    decibels: bool = True,
    prune_fraction: float | None = None,
    bins: int = 100,
    ax: Axes | None = None,
) -> Axes:
    """Plot a histogram of the signal-to-noise ratios ``|mean| / std`` of the weights.

    Args:
        posteriors: a posterior, or a dict of posteriors by name.
        decibels: whether to show ``10 log10`` of the ratio.
        prune_fraction: fraction of the weights below a ratio that is marked by a line.
        bins: number of bins.
        ax: matplotlib axes to draw on. Default: axes of a new figure.

    Returns:
        The axes.
    """
    if prune_fraction is not None and not 0 < prune_fraction < 1:
        raise ValueError(f"prune_fraction must lie between 0 and 1, got {prune_fraction}")
    named = posteriors if _is_named(posteriors) else {None: posteriors}
    ratios = {}
    for name, posterior in named.items():
        ratio = np.concatenate([array(part).ravel() for part in posterior.snr().values()])
        ratio = ratio[np.isfinite(ratio) & (ratio > 0)]
        if not len(ratio):
            raise ValueError("no weight has a finite signal-to-noise ratio")
        ratios[name] = _DB * np.log(ratio) if decibels else ratio
    low = min(np.quantile(ratio, 0.002) for ratio in ratios.values())
    high = max(ratio.max() for ratio in ratios.values())
    edges = np.linspace(low if decibels else 0, high, bins + 1)
    ax = get_axes(ax)
    for name, ratio in ratios.items():
        color = next_color(ax)
        counts, _ = np.histogram(ratio, edges)
        height = counts / (len(ratio) * np.diff(edges))
        _steps(ax, height, edges, color, name, filled=len(ratios) <= _MAX_FILLED)
        if prune_fraction is not None:
            at = np.quantile(ratio, prune_fraction)
            ax.axvline(at, color=color if len(ratios) > 1 else INK, linestyle="--", linewidth=1)
            ax.annotate(
                f"{prune_fraction:.0%} lie below", (at, 1), (3, -2),
                xycoords=("data", "axes fraction"), textcoords="offset points",
                ha="left", va="top", color=INK, fontsize="small",
            )  # fmt: skip
    unit = " [dB]" if decibels else ""
    style_axes(ax, xlabel=f"signal-to-noise ratio{unit}", ylabel="density")
    legend(ax, loc="upper left")
    return ax


def _steps(
    ax: Axes, height: Array, edges: Array, color: str, name: str | None, filled: bool
) -> None:
    if filled:
        ax.stairs(height, edges, fill=True, color=color, alpha=0.25)
    ax.stairs(height, edges, color=color, linewidth=1.6, label=name)


def _is_named(posteriors: Any) -> bool:
    """Return whether this is a dict of models; a posterior is a mapping of its parameters."""
    return isinstance(posteriors, Mapping) and not isinstance(posteriors, Posterior)


def _moments(posterior: Any) -> tuple[Array, Array]:
    if isinstance(posterior, Posterior):
        return array(posterior.loc).ravel(), array(posterior.variance).ravel()
    loc = array(posterior).ravel()
    return loc, np.zeros_like(loc)


def _reach(loc: Array, variance: Array) -> float:
    """Return the 99.8 % quantile of the absolute weights plus two standard deviations."""
    step = max(len(loc) // _MAX_WEIGHTS, 1)
    return float(np.quantile(np.abs(loc[::step]) + 2 * np.sqrt(variance[::step]), 0.998)) or 1.0


def _density(edges: Array, loc: Array, variance: Array) -> Array:
    """Return the mean Gaussian density at the middle of each bin, of at most 20,000 weights."""
    held = variance > 0
    step = max(int(held.sum()) // 20_000, 1)
    loc, std = loc[held][::step], np.sqrt(variance[held][::step])
    middle = (edges[1:] + edges[:-1]) / 2
    spread = np.sqrt(std**2 + (edges[1] - edges[0]) ** 2 / 12)  # at least the width of a bin
    height: Array = np.array(
        [(np.exp(-0.5 * ((place - loc) / spread) ** 2) / spread).mean() for place in middle]
    )
    return height / np.sqrt(2 * np.pi)
