"""The weights of a network: where they lie, and how sure each is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tractable.plots.canvas import INK, Array, array, canvas, legend, next_color, quiet
from tractable.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DB = 10 / np.log(10)
_FILLED = 3  # more areas than this would hide each other
_SEEN = 200_000  # entries that a histogram's range is taken from


def weights(
    posteriors: Any,
    *,
    kind: Literal["histogram", "density"] = "histogram",
    bins: int = 120,
    ax: Axes | None = None,
) -> Axes:
    """How the weights of one or more models are distributed.

    Args:
        posteriors: a posterior, an array of weights, or a dict of either by name.
        kind: ``"histogram"`` of the means, or ``"density"``: of one draw of a weight chosen at
            random, the average of all its Gaussians (weights of no variance, a spike, are left
            to the histogram).
        bins: of the histogram; places of the density.
        ax: where to draw.
    """
    if kind not in ("histogram", "density"):
        raise ValueError(f"kind must be 'histogram' or 'density', got {kind!r}")
    named = posteriors if _is_named(posteriors) else {None: posteriors}
    moments = {name: _moments(posterior) for name, posterior in named.items()}
    reach = max(_reach(loc, variance) for loc, variance in moments.values())
    edges = np.linspace(-reach, reach, bins + 1)
    ax = canvas(ax)
    for name, (loc, variance) in moments.items():
        color = next_color(ax)
        counts, _ = np.histogram(loc, edges)
        height = counts / (max(len(loc), 1) * np.diff(edges))
        if kind == "density" and (variance > 0).any():
            height = _density(edges, loc, variance)
        _steps(ax, height, edges, color, name, filled=len(moments) <= _FILLED)
    quiet(ax, xlabel="weight", ylabel="density")
    legend(ax)
    return ax


def snr(
    posteriors: Any,
    *,
    decibels: bool = True,
    mark: float | None = None,
    bins: int = 100,
    ax: Axes | None = None,
) -> Axes:
    """The signal-to-noise ratios ``|mean| / std`` of the weights, as a histogram.

    Args:
        posteriors: a posterior, or a dict of posteriors by name.
        decibels: show ``10 log10`` of the ratio.
        mark: a share of weights; a line is drawn at the ratio that prunes it.
        bins: of the histogram.
        ax: where to draw.
    """
    if mark is not None and not 0 < mark < 1:
        raise ValueError(f"mark must lie between 0 and 1, got {mark}")
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
    ax = canvas(ax)
    for name, ratio in ratios.items():
        color = next_color(ax)
        counts, _ = np.histogram(ratio, edges)
        height = counts / (len(ratio) * np.diff(edges))
        _steps(ax, height, edges, color, name, filled=len(ratios) <= _FILLED)
        if mark is not None:
            at = np.quantile(ratio, mark)
            ax.axvline(at, color=color if len(ratios) > 1 else INK, linestyle="--", linewidth=1)
            ax.annotate(
                f"{mark:.0%} lie below", (at, 1), (3, -2),
                xycoords=("data", "axes fraction"), textcoords="offset points",
                ha="left", va="top", color=INK, fontsize="small",
            )  # fmt: skip
    unit = " [dB]" if decibels else ""
    quiet(ax, xlabel=f"signal-to-noise ratio{unit}", ylabel="density")
    legend(ax, loc="upper left")
    return ax


def _steps(
    ax: Axes, height: Array, edges: Array, color: str, name: str | None, filled: bool
) -> None:
    if filled:
        ax.stairs(height, edges, fill=True, color=color, alpha=0.25)
    ax.stairs(height, edges, color=color, linewidth=1.6, label=name)


def _is_named(posteriors: Any) -> bool:
    """A dict of models; a posterior is a mapping too, of its parameters."""
    return isinstance(posteriors, Mapping) and not isinstance(posteriors, Posterior)


def _moments(posterior: Any) -> tuple[Array, Array]:
    if isinstance(posterior, Posterior):
        return array(posterior.loc).ravel(), array(posterior.variance).ravel()
    loc = array(posterior).ravel()
    return loc, np.zeros_like(loc)


def _reach(loc: Array, variance: Array) -> float:
    """Where all but two in a thousand of the weights lie, spread included."""
    step = max(len(loc) // _SEEN, 1)
    return float(np.quantile(np.abs(loc[::step]) + 2 * np.sqrt(variance[::step]), 0.998)) or 1.0


def _density(edges: Array, loc: Array, variance: Array) -> Array:
    """Mean of the weights' Gaussians at the middle of each bin, over at most 20,000 of them."""
    held = variance > 0
    step = max(int(held.sum()) // 20_000, 1)
    loc, std = loc[held][::step], np.sqrt(variance[held][::step])
    middle = (edges[1:] + edges[:-1]) / 2
    spread = np.sqrt(std**2 + (edges[1] - edges[0]) ** 2 / 12)  # no finer than a bin
    height: Array = np.array(
        [(np.exp(-0.5 * ((place - loc) / spread) ** 2) / spread).mean() for place in middle]
    )
    return height / np.sqrt(2 * np.pi)
