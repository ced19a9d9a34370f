"""Quantiles of samples, for predictions without a distribution function."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tractable.predictive.base import Predictive

_DRAWS = 4096
_CACHE = "_sorted_samples"


class SampledQuantiles(Predictive):
    """A prediction that can give quantiles of 4,096 samples, which are always the same.

    The samples are drawn once and kept, so that both ends of an interval come from the same ones;
    they are not part of a copy by ``pickle``.
    """

    def sampled_quantile(self, q: float) -> Tensor:
        """Return a quantile of the samples, by linear interpolation."""
        ordered: Tensor | None = self.__dict__.get(_CACHE)
        if ordered is None:
            ordered = self.sample(_DRAWS, torch.Generator().manual_seed(0)).sort(0).values
            object.__setattr__(self, _CACHE, ordered)
        place = q * (len(ordered) - 1)
        below = min(int(place), len(ordered) - 2)
        low, high = ordered[below].double(), ordered[below + 1].double()
        return (low + (place - below) * (high - low)).to(ordered.dtype)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != _CACHE}
