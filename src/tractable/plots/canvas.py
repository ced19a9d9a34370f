"""What all figures share: where to draw, and a quiet look."""

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

#: Okabe and Ito's colours, told apart by colour-blind readers too; in order of use.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#555555")
INK = "#333333"
AXIS = "#999999"
GRID = "#e6e6e6"

_used: WeakKeyDictionary[Axes, int] = WeakKeyDictionary()  # colours taken on each axes


def canvas(ax: Axes | None, size: tuple[float, float] = (6.4, 4.0)) -> Axes:
    """The given axes, or new ones in a figure of their own."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MatplotlibMissing(
            "figures need matplotlib: pip install 'tractable[plots]'"
        ) from error
    if ax is None:
        _, ax = plt.subplots(figsize=size, layout="constrained", dpi=150)
    return ax


def quiet(ax: Axes, *, xlabel: str, ylabel: str, grid: bool = True) -> Axes:
    """Name the axes and take away what carries no data."""
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
    """A legend without a box, if anything has a name."""
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, labelcolor=INK, **options)


def next_color(ax: Axes, color: str | None = None) -> str:
    """The given colour, or the next of the palette on these axes."""
    if color is not None:
        return color
    rank = _used.get(ax, 0)
    _used[ax] = rank + 1
    return COLORS[rank % len(COLORS)]


def places(count: int, most: int = 2000) -> Array:
    """Indices of at most so many places along a curve, evenly spread, both ends included.

    >>> places(3).tolist(), places(10, 4).tolist()
    ([0, 1, 2], [0, 3, 6, 9])
    """
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).round().astype(int)


def array(values: Any) -> Array:
    """Anything array-like as a NumPy array."""
    if isinstance(values, Tensor):
        return values.detach().cpu().numpy()
    return np.asarray(values)


def vector(values: Any, what: str) -> Array:
    """One number per row; a single column counts as a vector."""
    values = array(values)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"{what} must be one number per row, got shape {values.shape}")
    return values
