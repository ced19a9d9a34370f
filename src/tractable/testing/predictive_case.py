"""A prediction under test, and comparisons with messages that name it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from tractable.predictive import Predictive

Density = Callable[[Tensor], Tensor]
Found = TypeVar("Found")

STANDARD_ERRORS = 5
SHARES = (0.01, 0.05, *(k / 20 for k in range(2, 19)), 0.95, 0.99)
"""Shares of the probability at which quantiles are checked."""
_DECLINES = re.compile(r"cannot|\bno\b|does not|whole rows only")


class PredictiveCase:
    """A prediction, in double precision if possible, and the tolerances of the checks."""

    def __init__(
        self, given: Predictive, tolerance: float, n_samples: int, seed: int, check_mode: bool
    ) -> None:
        self.given, self.tolerance = given, tolerance
        self.n_samples, self.seed, self.check_mode = n_samples, seed, check_mode
        exact = result_or_none(given.double)
        self.p = given if exact is None else exact

    def of(self, predictive: Predictive) -> PredictiveCase:
        """Return the same case for another prediction."""
        return PredictiveCase(
            predictive, self.tolerance, self.n_samples, self.seed, self.check_mode
        )

    @property
    def single(self) -> bool:
        """Whether a row is one number."""
        return self.p.mean[0].numel() == 1

    @property
    def name(self) -> str:
        """Class of the prediction, for messages."""
        return type(self.p).__name__

    def density(self) -> Density | None:
        """Return the log density of every number by itself, or None if there is none."""
        if self.single:
            return lambda y: self.p.log_prob(y).reshape(self.p.mean.shape)
        return (
            self.p.elementwise_log_prob
            if is_supported(self.p.elementwise_log_prob, self.p.mean)
            else None
        )

    def sample(self, predictive: Predictive) -> Tensor:
        """Return samples; angles are within half a turn of the mean."""
        generator = torch.Generator().manual_seed(self.seed)
        drawn: Tensor = self.p.unwrapped(predictive.sample(self.n_samples, generator)).double()
        return drawn


def result_or_none(ask: Callable[..., Found], *arguments: object) -> Found | None:
    """Return the result of a member, or None if it does not apply."""
    try:
        return ask(*arguments)
    except TypeError as error:
        if _DECLINES.search(str(error)):
            return None
        raise


def is_supported(ask: Callable[..., Tensor], *arguments: object) -> bool:
    """Return whether a member applies to the prediction."""
    return result_or_none(ask, *arguments) is not None


def compare(
    case: PredictiveCase,
    what: str,
    got: Tensor,
    want: Tensor,
    allowed: Tensor | float,
    note: str = "",
) -> None:
    """Raise unless two tensors differ by at most ``allowed``."""
    got, want = torch.broadcast_tensors(got.double(), want.double())
    allowed = torch.as_tensor(allowed, dtype=torch.float64).expand_as(got)
    wrong = ~(((got - want).abs() <= allowed) | (got == want) | (got.isnan() & want.isnan()))
    if bool(wrong.any()):
        at = tuple(int(k) for k in torch.nonzero(wrong)[0])
        values = (float(got[at]), float(want[at]), float(allowed[at]))
        raise AssertionError(
            f"{case.name}: {what}: {values[0]:.8g} but expected {values[1]:.8g} within "
            f"{values[2]:.2g}, at {at}{note} ({int(wrong.sum())} of {wrong.numel()} differ)"
        )


def is_angle(p: Predictive) -> bool:
    """Whether a full turn changes nothing."""
    turned: Tensor = p.unwrapped(p.mean + 2 * math.pi)
    return bool(torch.isclose(turned, p.mean, atol=1e-5).all())
