"""Labels by decisions with a noise: what predictions make of it is fitted to held-out rows.

Rows seen many times make a network surer of their labels than of others like them.  With the
outputs ``N(mean, variance)`` as they are, the noise of a decision in a prediction is multiplied by
one factor: above 1 it takes every probability nearer to a toss, below 1 nearer to 0 or 1.  For a
softmax it is the square of the temperature of Guo et al., "On calibration of modern neural
networks" (2017), with the variance of the outputs counted.  Learning does not depend on it.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from tractable.likelihoods.base import HeldOut, Likelihood, require_type

_LOG_SCALES = torch.linspace(-5, 5, 101, dtype=torch.float64)


class TemperatureScaled(Likelihood):
    """A likelihood of labels whose predictions have a factor on the noise of a decision."""

    noise_scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("noise_scale", torch.ones((), dtype=torch.float64))

    @property
    def can_doubt(self) -> bool:
        """See ``Likelihood``."""
        return True

    def held_out_scale(self, held_out: list[HeldOut], *, outliers: bool = False) -> float:
        """The factor of greatest held-out likelihood, of 101 between e^-5 and e^5.

        One wrong label costs at most what the surest prediction gives it: there is nothing to
        guard against.
        """
        kind: Any = (
            TemperatureScaled  # abstract, as the classes of likelihoods of labels are below it
        )
        fits: list[TemperatureScaled] = [
            require_type(likelihood, kind) for likelihood, *_ in held_out
        ]
        copies = [copy.deepcopy(likelihood) for likelihood in fits]
        found = []
        for scale in _LOG_SCALES.exp().tolist():
            total = 0.0
            for scaled, fit, (_, y, mean, variance) in zip(copies, fits, held_out, strict=True):
                scaled.noise_scale = fit.noise_scale * scale
                total += float(scaled.predictive(mean, variance).log_prob(y).double().sum())
            found.append(total)
        return float(_LOG_SCALES[int(torch.tensor(found).argmax())].exp())

    def rescale(self, scale: float) -> None:
        """See ``Likelihood``."""
        self.noise_scale = self.noise_scale * scale

    def check_buffers(self, values: dict[str, Tensor]) -> None:
        """A factor is positive."""
        super().check_buffers(values)
        if not float(values["noise_scale"]) > 0:
            raise ValueError(f"noise_scale must be positive, got {float(values['noise_scale'])}")
