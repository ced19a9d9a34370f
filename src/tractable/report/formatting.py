"""Numbers and durations as text."""

from __future__ import annotations

import math
from typing import Any


def format_number(value: Any) -> str:
    """Return a number with four significant digits and a minus sign.

    >>> format_number(-0.123456), format_number(12000.0), format_number(None)
    ('−0.1235', '12000', '–')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if isinstance(value, float) and value != 0 and 1e4 <= abs(value) < 1e6:
        return f"{value:.0f}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−") if isinstance(value, float) else str(value)


def format_signed(value: float | None) -> str:
    """Return a difference with its sign."""
    return format_number(value) if value is None or value <= 0 else f"+{format_number(value)}"


def format_duration(seconds: float) -> str:
    """Return a duration as text.

    >>> format_duration(4.23), format_duration(75), format_duration(7500)
    ('4.2 s', '1 min 15 s', '2 h 5 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
