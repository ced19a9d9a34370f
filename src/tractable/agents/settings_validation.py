"""Domains of settings, and the check of a dataclass of settings against them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Domain = tuple[str, Callable[[Any], bool]]
"""What a value must be (to be read after "must"), and whether a value is."""

COUNT: Domain = ("be at least 1", lambda value: value >= 1)
OPTIONAL_COUNT: Domain = ("be at least 1, or None", lambda value: value is None or value >= 1)
SIZE: Domain = ("not be negative", lambda value: value >= 0)
SHARE: Domain = ("lie between 0 and 1", lambda value: 0 <= value <= 1)
POSITIVE: Domain = ("be positive", lambda value: value > 0)
NON_NEGATIVE: Domain = ("be at least 0 and finite", lambda value: 0 <= value < math.inf)
MEMORY_ROWS: Domain = (
    "be a number of rows above 1, or None",
    lambda value: value is None or 1 < value < math.inf,
)
LAYER_SIZES: Domain = (
    "be numbers of units of at least 1",
    lambda value: min(value, default=1) >= 1,
)


def check_domains(settings: Any, domains: Mapping[Domain, tuple[str, ...]]) -> None:
    """Raise ``ValueError`` if a setting is outside its domain.

    Args:
        settings: dataclass of settings.
        domains: names of the settings in each domain.
    """
    for (requirement, is_valid), names in domains.items():
        for name in names:
            value = getattr(settings, name)
            if not is_valid(value):
                raise ValueError(f"{name} must {requirement}, got {value!r}")
