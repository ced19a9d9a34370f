"""Axes, colors and the style that all plots share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from torch import Tensor

from tractable.errors import MatplotlibMissing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[Any]

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#555555")
"""The colors of Okabe and Ito, distinguishable by color-blind readers, in order of use."""
INK = "#333333"
AXIS = "#999999"
GRID = "#e6e6e6"

_used: WeakKeyDictionary[Axes, int] = WeakKeyDictionary()  # number of colors used on each axes


def get_axes(ax: Axes | None, size: tuple[float, float] = (6.4, 4.0)) -> Axes:
    """Return the given axes, or those of a new figure.

    Args:
        ax: axes, or None.
        size: width and height of a new figure, in inches.

    Raises:
        MatplotlibMissing: matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MatplotlibMissing("plots need matplotlib: pip install 'tractable[plots]'") from error
    if ax is None:
        _, ax = plt.subplots(figsize=size, layout="constrained", dpi=150)
    return ax


def style_axes(ax: Axes, *, xlabel: str, ylabel: str, grid: bool = True) -> Axes:
    """Label the axes, unless they have labels, and remove the upper and right spines."""
    ax.spines[["top", "right"]].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(AXIS)
    ax.tick_params(color=AXIS, labelcolor=INK)
    if grid:
        ax.grid(True, color=GRID, linewidth=0.8)
        ax.set_axisbelow(True)
    if not ax.get_xlabel():
        ax.set_xlabel(xlabel, color=INK)
    if not ax.get_ylabel():
        ax.set_ylabel(ylabel, color=INK)
    return ax


def legend(ax: Axes, **options: Any) -> None:
    """Add a legend without a frame, if any artist has a label."""
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, labelcolor=INK, **options)


def next_color(ax: Axes, color: str | None = None) -> str:
    """Return the given color, or the next one of ``COLORS`` on these axes."""
    if color is not None:
        return color
    rank = _used.get(ax, 0)
    _used[ax] = rank + 1
    return COLORS[rank % len(COLORS)]


def thin_indices(count: int, max_points: int = 2000) -> Array:
    """Return evenly spread indices of at most ``max_points`` points of a curve, ends included.

    >>> thin_indices(3).tolist(), thin_indices(10, 4).tolist()
    ([0, 1, 2], [0, 3, 6, 9])
    """
    if count <= max_points:
        return np.arange(count)
    return np.linspace(0, count - 1, max_points).round().astype(int)


def array(values: Any) -> Array:
    """Return a tensor or array-like as a NumPy array."""
    if isinstance(values, Tensor):
        return values.detach().cpu().numpy()
    return np.asarray(values)


def vector(values: Any, what: str) -> Array:
    """Return one number per row, ``[rows]``; a single column is a vector.

    Args:
        values: tensor or array-like.
        what: name of the values, for the error message.
    """
    values = array(values)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"{what} must have one number per row, got shape {values.shape}")
    return values
