"""Named curves that share their axes, with gaps where a value is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tractable.plots.canvas import COLORS, Array, canvas, legend, next_color, places, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curves = Mapping[str, tuple[Sequence[float | None], Sequence[float | None]]]

#: After as many curves as there are colours, the next ones are dashed.
DASHES = ("-", "--", ":", "-.")
_DOTTED = 25  # curves of at most as many points show each
_LARGEST = 1e100  # farther out, an axis cannot be computed


def lines(
    curves: Curves,
    *,
    xlabel: str = "x",
    ylabel: str = "y",
    scale: str = "linear",
    most: int = 2000,
    names: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Curves by name; None, or a value that is not finite, is a gap.

    Args:
        curves: name of each curve to its places and its values.
        xlabel: what the places are.
        ylabel: what the values are.
        scale: of the vertical axis: ``"linear"`` or ``"log"``, where 0 and less are gaps.
        most: points that a longer curve is thinned to, ends included.
        names: show a legend.
        ax: where to draw.
    """
    if scale not in ("linear", "log"):
        raise ValueError(f"scale must be 'linear' or 'log', got {scale!r}")
    log = scale == "log"
    drawn = {name: points(name, x, y, most, log) for name, (x, y) in curves.items()}
    ax = canvas(ax)
    from tractable.plots.ticks import round_ticks

    seen = [x[np.isfinite(y)] for x, y in drawn.values() if np.isfinite(y).any()]
    if log:
        ax.set_yscale("log")
    if not seen:  # a range of nothing is still a range
        ax.set_ylim(1, 10)
    draw(ax, drawn)
    ax.margins(x=0.02)
    ax.autoscale_view()
    round_ticks(ax.xaxis, whole=bool(seen) and all((x == x.round()).all() for x in seen))
    round_ticks(ax.yaxis, log=log)
    quiet(ax, xlabel=xlabel, ylabel=ylabel)
    if names:
        legend(ax)
    return ax


def draw(ax: Axes, curves: Mapping[str, tuple[Array, Array]]) -> None:
    """Draw each in the next colour; short ones show their points."""
    for rank, (name, (x, y)) in enumerate(curves.items()):
        ax.plot(
            x, y, DASHES[rank // len(COLORS) % len(DASHES)],
            marker="o" if np.isfinite(y).sum() <= _DOTTED else None, markersize=3.5,
            color=next_color(ax), linewidth=1.6, label=name, clip_on=False,
        )  # fmt: skip


def points(name: str, x: Any, y: Any, most: int = 2000, log: bool = False) -> tuple[Array, Array]:
    """Places and values as numbers, thinned to so many; NaN in both where there is a gap."""
    if len(x) != len(y):
        raise ValueError(f"curve {name!r} has {len(x)} places and {len(y)} values")
    held = places(len(x), most)
    across, up = (np.array(values, dtype=float)[held] for values in (x, y))
    with np.errstate(invalid="ignore"):
        gap = ~((np.abs(across) < _LARGEST) & (np.abs(up) < _LARGEST))
        if log:
            gap |= ~(up > 1 / _LARGEST)
    across[gap] = up[gap] = np.nan
    return across, up
