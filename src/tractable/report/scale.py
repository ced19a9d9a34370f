"""Axes of a chart: where a value stands, and the round values that are marked."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """A range of values on a range of places.

    Args:
        low: value at ``start``.
        high: value at ``end``.
        start: place of ``low``, in units of the drawing.
        end: place of ``high``.
        log: whether equal distances are equal ratios.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @classmethod
    def over(
        cls,
        values: Iterable[float | None],
        start: float,
        end: float,
        log: bool = False,
        margin: float = 0.0,
    ) -> Axis:
        """An axis that holds these values; gaps, and for ``log`` values up to 0, do not count.

        ``margin`` is the share of the range that is left free at both ends.
        """
        held = [v for v in values if v is not None and math.isfinite(v) and (v > 0 or not log)]
        low, high = (min(held), max(held)) if held else (1.0, 10.0) if log else (0.0, 1.0)
        if low == high:
            low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
        if margin and log:
            ratio = (high / low) ** margin
            low, high = low / ratio, high * ratio
        elif margin:
            wider = margin * (high - low)
            low, high = low - wider, high + wider
        return cls(low, high, start, end, log)

    def place(self, value: float | None) -> float | None:
        """Where a value is drawn; None if it cannot be."""
        if value is None or not math.isfinite(value) or (self.log and value <= 0):
            return None
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def marks(self, most: int = 6, whole: bool = False) -> list[float]:
        """Round values inside the range, at most about ``most``; ``whole`` numbers if asked.

        >>> Axis(0, 20, 0, 1).marks()
        [0.0, 5.0, 10.0, 15.0, 20.0]
        >>> Axis(0.5, 30, 0, 1, log=True).marks()
        [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
        >>> Axis(1, 2, 0, 1).marks(whole=True)
        [1.0, 2.0]
        """
        if self.log and self.high / self.low > 5:
            return self._log_marks(most)
        step = _round_step((self.high - self.low) / (most - 1))
        if whole and step < 5:
            step = max(1.0, float(math.ceil(step)))  # not 2.5
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        # Digits that a multiple of the step has, so that 0.3 is not 0.30000000000000004.
        digits = max(0, 2 - math.floor(math.log10(step)))
        return [round(number * step, digits) + 0.0 for number in range(first, last + 1)]

    def _log_marks(self, most: int) -> list[float]:
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for parts in ((1, 2, 5), (1, 3), (1,)):
            marks = [part * 10.0**power for power in powers for part in parts]
            inside = [m for m in marks if self.low * (1 - 1e-9) <= m <= self.high * (1 + 1e-9)]
            if len(inside) <= most:
                return inside
        return inside[:: math.ceil(len(inside) / most)]


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 2.5 and 5 times a power of ten that is at least this."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * part for part in (1, 2, 2.5, 5, 10) if power * part >= least * (1 - 1e-9))
