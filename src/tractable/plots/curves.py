"""One figure against another: over epochs, over the share pruned, over the size of an attack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tractable.plots.canvas import INK, array, canvas, legend, next_color, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Pairs = tuple[Any, Any]


def learning_curves(
    histories: Any,
    key: str = "validation_nll",
    *,
    scale: str = "linear",
    smooth: int = 1,
    ylabel: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """A figure of the training record over epochs.

    Args:
        histories: a learner, its ``history``, or a dict of either by name.
        key: of the record, for example ``"elbo"`` or ``"validation_nll"``.
        scale: of the vertical axis: ``"linear"``, ``"log"`` or ``"symlog"``.
        smooth: epochs of a running mean; the raw curve stays behind it, faintly.
        ylabel: by default the key in words.
        ax: where to draw.
    """
    if smooth < 1:
        raise ValueError(f"smooth must be at least 1, got {smooth}")
    named = histories if isinstance(histories, Mapping) else {None: histories}
    series = {name: _series(history, key) for name, history in named.items()}
    ax = canvas(ax)
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
    quiet(ax, xlabel="epoch", ylabel=ylabel or key.replace("_", " "))
    legend(ax)
    return ax


def _series(history: Any, key: str) -> tuple[Any, Any]:
    """The records that have the key; epochs are numbered on over several fits."""
    records: Sequence[Mapping[str, float]] = getattr(history, "history", history)
    held = [(number, record[key]) for number, record in enumerate(records, 1) if key in record]
    if not held:
        known = sorted({name for record in records for name in record})
        raise KeyError(f"no record has {key!r}; there are {', '.join(known) or 'no records'}")
    epochs, values = zip(*held, strict=True)
    return np.array(epochs), np.array(values, dtype=float)


def pruning(
    curves: Mapping[str, Pairs] | Pairs,
    *,
    ylabel: str = "error rate",
    ax: Axes | None = None,
) -> Axes:
    """What pruning costs, for the whole network or for one layer at a time.

    Args:
        curves: fractions pruned and the figure reached, or a dict of such pairs by name (of a
            model, or of a layer).
        ylabel: what the figure is.
        ax: where to draw.
    """
    ax = _pairs(curves, ax, "o-")
    ax.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    return quiet(ax, xlabel="weights pruned", ylabel=ylabel)


def robustness(
    curves: Mapping[str, Pairs] | Pairs,
    *,
    ylabel: str = "accuracy",
    ax: Axes | None = None,
) -> Axes:
    """Accuracy under attack, against the size ε of the perturbation."""
    ax = _pairs(curves, ax, "o-")
    ax.set_ylim(bottom=0)
    return quiet(ax, xlabel="perturbation ε", ylabel=ylabel)


def _pairs(curves: Mapping[str, Pairs] | Pairs, ax: Axes | None, style: str) -> Axes:
    named: Mapping[Any, Pairs] = curves if isinstance(curves, Mapping) else {None: curves}
    for name, (across, up) in named.items():
        if len(array(across)) != len(array(up)):
            raise ValueError(
                f"curve {name or ''} has {len(array(across))} places and {len(array(up))} values"
            )
    ax = canvas(ax)
    for name, (across, up) in named.items():
        ax.plot(
            array(across), array(up), style,
            color=next_color(ax), linewidth=1.8, markersize=4, label=name,
        )  # fmt: skip
    legend(ax)
    ax.tick_params(labelcolor=INK)
    return ax
