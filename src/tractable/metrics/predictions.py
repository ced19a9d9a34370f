"""Metrics of predictive distributions: errors, likelihood, calibration and width of intervals.

Every function takes a ``Predictive`` and the observed targets, and returns a number, for all
learners and likelihoods alike.
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
    "mean_interval_width",
]


def lppd(predictive: Predictive, y: Any) -> float:
    """Return the log pointwise predictive density: the mean log density of the targets.

    Eq. (20) of "Weight uncertainty in neural networks", a replication of Bayes by Backprop.

    Args:
        predictive: predictions.
        y: observed targets.
    """
    return float(predictive.log_prob(_targets(predictive, y)).mean())


def nll(predictive: Predictive, y: Any) -> float:
    """Return the negative log-likelihood per row, ``-lppd``.

    Args:
        predictive: predictions.
        y: observed targets.
    """
    return -lppd(predictive, y)


def rmse(predictive: Predictive, y: Any) -> float:
    """Return the root mean squared error of the predicted mean.

    Args:
        predictive: predictions.
        y: observed targets, of the shape of the predicted mean.
    """
    mean = predictive.mean
    return float((predictive.unwrapped(_same_shape(y, mean)) - mean).square().mean().sqrt())


def coverage(predictive: Predictive, y: Any, level: float = 0.9) -> float:
    """Return the share of targets inside the central prediction intervals.

    It is near ``level`` for calibrated predictions.

    Args:
        predictive: predictions.
        y: observed targets, of the shape of the predicted mean.
        level: probability of the intervals, between 0 and 1.
    """
    low, high = predictive.interval(level)
    targets = predictive.unwrapped(_same_shape(y, low))
    return float(((low <= targets) & (targets <= high)).double().mean())


def mean_interval_width(predictive: Predictive, level: float = 0.9) -> float:
    """Return the mean width of the central prediction intervals (sharpness).

    Of two predictions with the same coverage, the one with the smaller width is better.

    Args:
        predictive: predictions.
        level: probability of the intervals, between 0 and 1.
    """
    low, high = predictive.interval(level)
    return float((high - low).mean())


def error_rate(predictive: Predictive, y: Any) -> float:
    """Return the share of rows whose most probable class is not the observed one.

    Args:
        predictive: predictions of classes.
        y: observed classes, ``[rows]``.
    """
    return float((predictive.labels != _labels(predictive, y)).double().mean())


def accuracy(predictive: Predictive, y: Any) -> float:
    """Return the share of rows whose most probable class is the observed one.

    Args:
        predictive: predictions of classes.
        y: observed classes, ``[rows]``.
    """
    return 1 - error_rate(predictive, y)


def brier(predictive: Predictive, y: Any) -> float:
    """Return the Brier score: the mean squared distance of probabilities from one-hot labels.

    Args:
        predictive: predictions of classes.
        y: observed classes, ``[rows]``.
    """
    probs = predictive.probs
    labels = torch.nn.functional.one_hot(_labels(predictive, y), probs.shape[-1])
    return float((probs - labels).square().sum(-1).mean())


@dataclass(frozen=True)
class Reliability:
    """Accuracy by confidence, in bins of equal width.

    Attributes:
        edges: edges of the bins, from 0 to 1, ``[n_bins + 1]``.
        confidence: mean confidence in each bin; NaN for an empty bin, ``[n_bins]``.
        accuracy: share of correct classes in each bin; NaN for an empty bin, ``[n_bins]``.
        count: number of rows in each bin, ``[n_bins]``.
    """

    edges: Tensor
    confidence: Tensor
    accuracy: Tensor
    count: Tensor

    @property
    def ece(self) -> float:
        """Expected calibration error: mean of ``|accuracy - confidence|``, weighted by count."""
        gap = (self.accuracy - self.confidence).abs().nan_to_num()
        return float((gap * self.count).sum() / self.count.sum())


def reliability(predictive: Predictive, y: Any, n_bins: int = 15) -> Reliability:
    """Return the accuracy of the most probable class by its probability.

    Args:
        predictive: predictions of classes.
        y: observed classes, ``[rows]``.
        n_bins: number of bins of equal width.

    References:
        C. Guo, G. Pleiss, Y. Sun and K. Weinberger, "On calibration of modern neural networks",
        ICML 2017.
    """
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1, got {n_bins}")
    confidence, label = predictive.probs.double().max(-1)
    correct = (label == _labels(predictive, y)).double()
    edges = torch.linspace(0, 1, n_bins + 1, dtype=torch.float64, device=correct.device)
    # A bin contains its upper edge, as in Guo et al.
    place = (torch.bucketize(confidence, edges) - 1).clamp(0, n_bins - 1)
    count = torch.bincount(place, minlength=n_bins)
    total = count.double()  # 0 / 0 is NaN, for an empty bin
    return Reliability(
        edges,
        torch.bincount(place, confidence, minlength=n_bins) / total,
        torch.bincount(place, correct, minlength=n_bins) / total,
        count,
    )


def ece(predictive: Predictive, y: Any, n_bins: int = 15) -> float:
    """Return the expected calibration error: the mean difference of confidence and accuracy.

    Args:
        predictive: predictions of classes.
        y: observed classes, ``[rows]``.
        n_bins: number of bins of equal width.
    """
    return reliability(predictive, y, n_bins).ece


def _targets(predictive: Predictive, y: Any) -> Tensor:
    return torch.as_tensor(y, device=predictive.mean.device)


def _same_shape(y: Any, reference: Tensor) -> Tensor:
    """Return targets in the shape of the reference, without broadcasting.

    Broadcasting ``[n]`` against ``[n, 1]`` would compare every target with every prediction.
    """
    y = torch.as_tensor(y, dtype=reference.dtype, device=reference.device)
    if y.numel() != reference.numel() or y.shape[:1] != reference.shape[:1]:
        raise ValueError(
            f"targets have shape {tuple(y.shape)}, expected that of the predictions, "
            f"{tuple(reference.shape)}"
        )
    return y.reshape(reference.shape)


def _labels(predictive: Predictive, y: Any) -> Tensor:
    reference = predictive.labels
    y = torch.as_tensor(y, device=reference.device)
    if y.numel() != reference.numel():
        raise ValueError(f"got {y.numel()} labels for {reference.numel()} predictions")
    labels, classes = y.reshape(reference.shape).long(), predictive.probs.shape[-1]
    if labels.numel() and not (int(labels.min()) >= 0 and int(labels.max()) < classes):
        raise ValueError(
            f"labels must be integers from 0 to {classes - 1}, got values from "
            f"{int(labels.min())} to {int(labels.max())}"
        )
    return labels
