"""Rules of ``sum`` and ``mean``.

Exact: for independent entries.
Approximate: covariances between entries, where there are any, are dropped.
"""

from __future__ import annotations

from typing import Any

from tractable.gaussian import Gaussian, moment_rule, spellings


@moment_rule(*spellings("sum"))
def total(input: Gaussian, *args: Any, **kwargs: Any) -> Gaussian:
    """Means add, variances add."""
    return Gaussian.wrap(input.loc.sum(*args, **kwargs), input.variance.sum(*args, **kwargs))


@moment_rule(*spellings("mean"))
def average(input: Gaussian, *args: Any, **kwargs: Any) -> Gaussian:
    """The sum over n entries, divided by n: the variance by n squared."""
    loc = input.loc.mean(*args, **kwargs)
    entries = input.numel() / max(loc.numel(), 1)
    return Gaussian.wrap(loc, input.variance.mean(*args, **kwargs) / entries)
