"""Numbers and times as a reader likes them."""

from __future__ import annotations

import math
from typing import Any


def number(value: Any) -> str:
    """A number for a reader: four digits, a true minus sign.

    >>> number(-0.123456), number(12000.0), number(None)
    ('−0.1235', '12000', '–')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if isinstance(value, float) and value != 0 and 1e4 <= abs(value) < 1e6:
        return f"{value:.0f}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−") if isinstance(value, float) else str(value)


def signed(value: float | None) -> str:
    """A difference, with its sign."""
    return number(value) if value is None or value <= 0 else f"+{number(value)}"


def duration(seconds: float) -> str:
    """A time for a reader.

    >>> duration(4.23), duration(75), duration(7500)
    ('4.2 s', '1 min 15 s', '2 h 5 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
