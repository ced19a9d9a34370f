"""How good a prediction is: sharp, calibrated, right.

Every function takes a ``Predictive`` and the observed targets, and gives a plain number, so that
learners of any kind are compared by the same rule.  ``lppd`` is eq. (20) of "Weight uncertainty in
neural networks" (a replication of Bayes by Backprop); calibration follows Guo, Pleiss, Sun &
Weinberger, "On calibration of modern neural networks" (2017).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tractable.predictive import Predictive

__all__ = [
    "Reliability",
    "accuracy",
    "brier",
    "coverage",
    "ece",
    "error_rate",
    "lppd",
    "nll",
    "reliability",
    "rmse",
    "sharpness",
]


def lppd(predictive: Predictive, y: Any) -> float:
    """Log pointwise predictive density: mean log density of the observed rows, eq. (20)."""
    return float(predictive.log_prob(_targets(predictive, y)).mean())


def nll(predictive: Predictive, y: Any) -> float:
    """Negative log-likelihood per row: ``-lppd``."""
    return -lppd(predictive, y)


def rmse(predictive: Predictive, y: Any) -> float:
    """Root mean squared error of the predicted mean."""
    mean = predictive.mean
    return float((predictive.unwrapped(_same_shape(y, mean)) - mean).square().mean().sqrt())


def coverage(predictive: Predictive, y: Any, level: float = 0.9) -> float:
    """Share of observed values inside the central interval; calibrated means near ``level``."""
    low, high = predictive.interval(level)
    seen = predictive.unwrapped(_same_shape(y, low))
    return float(((low <= seen) & (seen <= high)).double().mean())


def sharpness(predictive: Predictive, level: float = 0.9) -> float:
    """Mean width of the central interval: less is better at equal coverage."""
    low, high = predictive.interval(level)
    return float((high - low).mean())


def error_rate(predictive: Predictive, y: Any) -> float:
    """Share of rows whose most probable class is not the observed one."""
    return float((predictive.labels != _labels(predictive, y)).double().mean())


def accuracy(predictive: Predictive, y: Any) -> float:
    """Share of rows whose most probable class is the observed one."""
    return 1 - error_rate(predictive, y)


def brier(predictive: Predictive, y: Any) -> float:
    """Brier score: squared distance of the probabilities from the one-hot code, mean over rows."""
    probs = predictive.probs
    seen = torch.nn.functional.one_hot(_labels(predictive, y), probs.shape[-1])
    return float((probs - seen).square().sum(-1).mean())


@dataclass(frozen=True)
class Reliability:
    """Confidence against accuracy, in bins of equal width.

    Attributes:
        edges: edges of the bins, from 0 to 1.
        confidence: mean confidence in each bin; NaN where it is empty.
        accuracy: share of right answers in each bin; NaN where it is empty.
        count: rows in each bin.
    """

    edges: Tensor
    confidence: Tensor
    accuracy: Tensor
    count: Tensor

    @property
    def ece(self) -> float:
        """Expected calibration error: mean gap, bins weighted by their rows."""
        gap = (self.accuracy - self.confidence).abs().nan_to_num()
        return float((gap * self.count).sum() / self.count.sum())


def reliability(predictive: Predictive, y: Any, bins: int = 15) -> Reliability:
    """The reliability curve of the most probable class."""
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    confidence, label = predictive.probs.double().max(-1)
    right = (label == _labels(predictive, y)).double()
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64, device=right.device)
    # A bin holds its upper edge, as in Guo et al.
    place = (torch.bucketize(confidence, edges) - 1).clamp(0, bins - 1)
    count = torch.bincount(place, minlength=bins)
    total = count.double()  # 0 / 0 is NaN: an empty bin has no accuracy
    return Reliability(
        edges,
        torch.bincount(place, confidence, minlength=bins) / total,
        torch.bincount(place, right, minlength=bins) / total,
        count,
    )


def ece(predictive: Predictive, y: Any, bins: int = 15) -> float:
    """Expected calibration error: how far confidence is from accuracy, on average."""
    return reliability(predictive, y, bins).ece


def _targets(predictive: Predictive, y: Any) -> Tensor:
    return torch.as_tensor(y, device=predictive.mean.device)


def _same_shape(y: Any, reference: Tensor) -> Tensor:
    """Targets as the reference has them; never broadcast, which would compare all with all."""
    y = torch.as_tensor(y, dtype=reference.dtype, device=reference.device)
    if y.numel() != reference.numel() or y.shape[:1] != reference.shape[:1]:
        raise ValueError(
            f"targets of shape {tuple(y.shape)} do not fit predictions of shape "
            f"{tuple(reference.shape)}"
        )
    return y.reshape(reference.shape)


def _labels(predictive: Predictive, y: Any) -> Tensor:
    reference = predictive.labels
    y = torch.as_tensor(y, device=reference.device)
    if y.numel() != reference.numel():
        raise ValueError(f"{y.numel()} labels do not fit {reference.numel()} predictions")
    labels, classes = y.reshape(reference.shape).long(), predictive.probs.shape[-1]
    if labels.numel() and not (int(labels.min()) >= 0 and int(labels.max()) < classes):
        raise ValueError(
            f"labels must lie in 0..{classes - 1}, got values from {int(labels.min())} to "
            f"{int(labels.max())}"
        )
    return labels
