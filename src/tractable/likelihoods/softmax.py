"""Several classes by the softmax, with one output per class.

For the gradient learners this is the usual classifier.  For the closed-form learner the integral
of a softmax over Gaussian outputs has no closed form; it is taken as

    p_k = softmax(mean_k / sqrt(1 + pi variance_k / 8))

(the probit approximation of MacKay, "The evidence framework applied to classification networks",
1992, output by output as in Gibbs, 1997), and the messages are its derivatives.
For that learner ``Categorical``, whose evidence is exact, is usually the better choice.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, distributions
from typing_extensions import override

from tractable.likelihoods.calibration import TemperatureScaled
from tractable.likelihoods.targets import class_targets
from tractable.predictive import CategoricalPredictive

_DRAWS = 256
"""Draws for the expected entropy; a power of two, so that they fill the space evenly."""


class Softmax(TemperatureScaled):
    """``P(y = k | z) = softmax(z)_k``; the network has one output per class.

    Exact: ``log_prob``, and all else at zero variance.
    Approximate: the evidence, by the probit approximation above; and the expected entropy of a
    prediction, which is the mean over 256 quasi-random draws of the outputs, always the same.
    The mutual information is what the entropy of the approximate probabilities exceeds it by,
    zero where it does not.

    Predictions divide the outputs by a temperature, 1 until it is fitted to held-out rows
    (``fit(calibrate=True)``).

    Args:
        classes: number of classes, at least two.
        smoothing: share of every label that is spread evenly over the *other* classes while the
            weights are learned, against overconfidence: a label counts as ``1 - smoothing``, each
            other class as ``smoothing / (classes - 1)``.  ``torch.nn.CrossEntropyLoss`` spreads
            over all classes: its ``label_smoothing`` is this times ``classes / (classes - 1)``.
            Predictions are not smoothed.
    """

    def __init__(self, classes: int, smoothing: float = 0.0) -> None:
        super().__init__()
        if classes < 2:
            raise ValueError(f"classes must be at least 2, got {classes}")
        if not 0 <= smoothing < 1:
            raise ValueError(f"smoothing must lie in [0, 1), got {smoothing}")
        self.classes = classes
        self.smoothing = float(smoothing)

    @property
    def outputs(self) -> int:
        """Number of outputs the network must have."""
        return self.classes

    @override
    def check_targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        if tuple(outputs[1:]) != (self.classes,):
            raise ValueError(
                f"a softmax over {self.classes} classes needs {self.classes} outputs per row, the "
                f"network gives {tuple(outputs[1:])}"
            )
        return class_targets(y, self.classes, outputs[0])

    @override
    def conditional(self, z: Tensor) -> distributions.Categorical:
        logits = z * self.noise_scale.rsqrt().to(z)
        return distributions.Categorical(logits=logits, validate_args=False)

    @override
    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        spread = self.smoothing * self.classes / (self.classes - 1)
        return -torch.nn.functional.cross_entropy(
            z, y, reduction="none", label_smoothing=min(spread, 1.0)
        )

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the log-softmax of the means, each multiplied by its ``shrinkage``."""
        return self.log_prob(y, mean * shrinkage(variance))

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Return the derivatives of ``log_evidence``: ``s (1[y=k] - p)`` and ``-s^2 p (1 - p)``."""
        s = shrinkage(variance)
        p = (mean * s).softmax(-1)
        label = torch.nn.functional.one_hot(y, self.classes).to(p.dtype)
        if self.smoothing:
            others = self.smoothing / (self.classes - 1)
            label = label * (1 - self.smoothing - others) + others
        return s * (label - p), -s * s * p * (1 - p)

    @override
    def predictive(self, mean: Tensor, variance: Tensor) -> CategoricalPredictive:
        mean, variance = (
            mean * self.noise_scale.rsqrt().to(mean),
            variance / self.noise_scale.to(mean),
        )
        probs = (mean * shrinkage(variance)).softmax(-1)
        return CategoricalPredictive(
            probs, expected_entropy=partial(_expected_entropy, mean, variance)
        )

    @override
    def config(self) -> dict[str, Any]:
        config: dict[str, Any] = {"classes": self.classes}
        return {**config, "smoothing": self.smoothing} if self.smoothing else config


def shrinkage(variance: Tensor) -> Tensor:
    """Return the factor on the mean of a logit that accounts for its variance."""
    return torch.rsqrt(1 + math.pi / 8 * variance)


def _expected_entropy(mean: Tensor, variance: Tensor) -> Tensor:
    """Mean over ``z ~ N(mean, variance)`` of the entropy of ``softmax(z)``, in nats."""
    if not bool(variance.any()):
        return _entropy(mean)
    engine = torch.quasirandom.SobolEngine(mean.shape[-1], scramble=True, seed=0)
    shares = engine.draw(_DRAWS, dtype=torch.float64).clamp(1e-9, 1 - 1e-9)
    std = variance.sqrt()
    total = torch.zeros_like(mean[..., 0])
    for noise in torch.special.ndtri(shares).to(mean):  # one at a time, for memory
        total = total + _entropy(mean + std * noise)
    return total / _DRAWS


def _entropy(z: Tensor) -> Tensor:
    return torch.special.entr(z.softmax(-1)).sum(-1)
