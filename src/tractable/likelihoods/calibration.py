"""The factor on the noise that maximizes the likelihood of held-out rows."""

from __future__ import annotations

import copy
import math
from functools import cache
from typing import Any

import torch
from torch import Tensor

from tractable.likelihoods.base import HeldOut, Likelihood, Traits, require_type

_MAX_LOG_SCALE = 5.0
_STEPS = (2.0, 1.0, 0.5, 0.25, 0.12, 0.06, 0.03)
_LOG_SCALES = torch.linspace(-5, 5, 101, dtype=torch.float64)


def calibrated_scale(held_out: list[HeldOut]) -> float:
    """Return the factor on the noise variance that maximizes the held-out likelihood.

    It is between e^-5 and e^5 and accurate to 3 %.

    A search in its logarithm from 0 with steps that halve; the likelihood is assumed to have one
    maximum.
    """
    copies = [HeldOut(copy.deepcopy(likelihood), *rows) for likelihood, *rows in held_out]

    @cache  # steps return to points that were evaluated before
    def total(log_scale: float) -> float:
        found = 0.0
        for likelihood, y, mean, variance in copies:
            with likelihood.holding({}):  # restores the noise afterwards
                likelihood.rescale(math.exp(log_scale))
                found += float(likelihood.held_out_log_prob(y, mean, variance).sum())
        return found

    at, best = 0.0, total(0.0)
    for step in _STEPS:
        for move in (step, -step):
            while abs(at + move) <= _MAX_LOG_SCALE and (there := total(at + move)) > best:
                at, best = at + move, there
    return math.exp(at)


class TemperatureScaled(Likelihood):
    """A likelihood of labels whose predictions have a factor on the noise of a decision.

    Several epochs over the same rows make a network more certain of their labels than of others
    like them.  The noise of a decision in a prediction is multiplied by ``noise_scale``: above 1
    it makes probabilities more even, below 1 more extreme.  For a softmax it is the square of the
    temperature of Guo et al., "On calibration of modern neural networks" (2017), with the variance
    of the outputs included.  Learning does not depend on it.
    """

    traits = Traits(has_labels=True, supports_calibration=True)
    noise_scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("noise_scale", torch.ones((), dtype=torch.float64))

    @property
    def noise(self) -> dict[str, Tensor]:
        """The factor on the noise of predictions."""
        return {"noise_scale": self.noise_scale}

    def held_out_scale(self, held_out: list[HeldOut], *, outliers: bool = False) -> float:
        """Return the factor of maximum held-out likelihood, of 101 between e^-5 and e^5.

        ``outliers`` has no effect: the loss of a wrong label is bounded by the largest predicted
        probability.
        """
        kind: Any = TemperatureScaled  # abstract: mypy expects a concrete class
        fits: list[TemperatureScaled] = [require_type(fit[0], kind) for fit in held_out]
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
        """Multiply the factor on the noise of predictions."""
        self.noise_scale = self.noise_scale * scale

    def check_buffers(self, values: dict[str, Tensor]) -> None:
        """Check also that the factor is positive."""
        super().check_buffers(values)
        if not float(values["noise_scale"]) > 0:
            raise ValueError(f"noise_scale must be positive, got {float(values['noise_scale'])}")
