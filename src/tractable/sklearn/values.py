"""Settings of estimators as Python values, whatever kind of number or sequence was passed."""

from __future__ import annotations

from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Return a NumPy scalar as a Python scalar, an array or range as a tuple; others as they are.

    >>> plain(np.float64(0.5)), plain(np.array([8, 4])), plain(np.array(8)), plain("tanh")
    (0.5, (8, 4), 8, 'tanh')
    """
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "tolist"):
        value = value.tolist()
    return tuple(value) if isinstance(value, list | range) else value
