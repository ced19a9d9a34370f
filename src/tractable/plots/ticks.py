"""Tick marks at few round values, formatted briefly: 20k and 1.5M, without powers of ten."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from matplotlib.ticker import Formatter, Locator, LogLocator, MaxNLocator, NullLocator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axis import Axis


_STEPS = [1, 2, 2.5, 5, 10]  # distances between ticks, up to a power of ten


def short(value: float) -> str:
    """Return a number as a short string, with a typographic minus sign.

    >>> short(-1500000.0), short(20000.0), short(0.25), short(-0.0)
    ('−1.5M', '20k', '0.25', '0')
    """
    value += 0.0  # no negative zero
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if unit * (10 if letter == "k" else 1) <= abs(value) < 1e13:
            return f"{value / unit:.4g}{letter}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−")


class ShortFormatter(Formatter):
    """A formatter with short labels, or longer ones if two short labels were equal."""

    def __call__(self, value: float, pos: int | None = None) -> str:
        """Return the label of one value."""
        return short(value)

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """Return the labels of all values of an axis."""
        texts = [short(value) for value in values]
        if len(set(texts)) < len(texts):  # the range is narrow and far from zero
            texts = [f"{value:.12g}".replace("-", "−") for value in values]
        return texts


def round_ticks(axis: Axis, *, integer: bool = False, log: bool = False) -> None:
    """Set about five ticks at round values on an axis whose limits are set.

    Args:
        axis: x or y axis.
        integer: whether ticks are integers only, as for epochs.
        log: whether the axis is logarithmic; ticks are powers of ten, and values between them if
            there are few.
    """
    linear = MaxNLocator(5, steps=_STEPS, integer=integer)
    axis.set_major_locator(_log_locator(axis) if log else linear)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(ShortFormatter())


def _log_locator(axis: Axis) -> Locator:
    low, high = sorted(axis.get_view_interval())
    decades = math.log10(high / low)
    if decades < 0.8:
        return MaxNLocator(7, steps=_STEPS)
    return LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2.2 else (1.0,), numticks=7)
