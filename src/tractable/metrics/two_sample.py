"""Classifier two-sample test: do two samples have the same distribution?

A classifier is trained to distinguish the rows of the samples, like the discriminator of a GAN (UDL
E 15.8). With the loss ``L`` of the optimal discriminator, the Jensen-Shannon divergence is
``log 2 - L / 2``. Any other discriminator has a larger loss on new rows, so that it gives a lower
bound.

The rows are split into folds, and the rows of a fold are scored by a classifier that was trained on
the other folds. If the distributions are equal, the area under the ROC curve in a fold is 1/2 on
average, no matter how well the classifier is trained. This gives the test.

Reference: D. Lopez-Paz and M. Oquab, "Revisiting classifier two-sample tests", ICLR 2017.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tractable.learners import TAGI, Learner
from tractable.likelihoods import Bernoulli
from tractable.metrics.sample_distances import pair_of
from tractable.nn import mlp
from tractable.training.progress import Progress
from tractable.training.standardizer import Standardizer

ClassifierFactory = Callable[[int, int], Learner]
"""Returns an untrained binary classifier for a number of columns and a seed."""


@dataclass(frozen=True)
class TwoSampleResult:
    """How well held-out rows of two samples are distinguished.

    Attributes:
        auroc: area under the ROC curve: 0.5 if the samples cannot be distinguished, 1 if all rows
            can.
        auroc_std: its standard error.
        js: lower bound of the Jensen-Shannon divergence in nats, from 0 to log 2; the estimate can
            be negative by chance.
        js_std: its standard error.
        accuracy: balanced accuracy, the mean over both samples of the share of correct rows.
        p_value: probability of this area under the curve or a larger one if the distributions are
            equal.
        score_a: log odds that each row of ``a`` belongs to ``a``, with equal weights of the
            samples: an estimate of ``log p_a(x) / p_b(x)``, ``[rows of a]``.
        score_b: the same for the rows of ``b``, ``[rows of b]``.
    """

    auroc: float
    auroc_std: float
    js: float
    js_std: float
    accuracy: float
    p_value: float
    score_a: Tensor
    score_b: Tensor

    def interval(self, level: float = 0.9) -> tuple[float, float]:
        """Return a confidence interval of the lower bound of the divergence, in nats.

        Args:
            level: confidence, between 0 and 1.
        """
        return self._around(self.js, self.js_std, level, 0.0, math.log(2))

    def auroc_interval(self, level: float = 0.9) -> tuple[float, float]:
        """Return a confidence interval of the area under the ROC curve.

        Args:
            level: confidence, between 0 and 1.
        """
        return self._around(self.auroc, self.auroc_std, level, 0.0, 1.0)

    def differs(self, level: float = 0.95) -> bool:
        """Return whether the distributions differ, with an error probability of ``1 - level``."""
        return self.p_value < 1 - level

    @staticmethod
    def _around(
        middle: float, std: float, level: float, low: float, high: float
    ) -> tuple[float, float]:
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level}")
        width = std * float(torch.special.ndtri(torch.tensor((1 + level) / 2, dtype=torch.float64)))
        return min(max(middle - width, low), high), min(max(middle + width, low), high)


def two_sample(
    a: Any,
    b: Any,
    *,
    factory: ClassifierFactory | None = None,
    n_folds: int = 5,
    epochs: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> TwoSampleResult:
    """Test whether two samples have the same distribution, and estimate how much they differ.

    Exact: the level of the test for independent rows, for any classifier. Approximate: the standard
    errors, which treat the folds as independent; the divergence is a lower bound.

    Args:
        a: first sample, ``[rows, columns]``, for example data.
        b: second sample, ``[rows, columns]``, for example generated rows.
        factory: returns an untrained classifier for a number of columns and a seed, with one output
            and a likelihood of two labels. Its inputs are standardized. Default: ``TAGI`` with two
            hidden layers of 64 units.
        n_folds: number of folds.
        epochs: number of passes of each classifier over its rows. Default: about 30,000 rows in
            total, but at least 4 and at most 40 epochs.
        seed: seed of the folds and of the classifiers.
        progress: whether to show a progress bar. Default: on a terminal only.

    Raises:
        ValueError: the samples have different columns, or too few rows for the folds.

    >>> same = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    >>> found = two_sample(same[:100], same[100:] + 2.0, epochs=10)
    >>> found.differs(), found.auroc > 0.9
    (True, True)
    """
    first, second = pair_of(a, b)
    if not 2 <= n_folds <= min(len(first), len(second)):
        raise ValueError(
            f"n_folds must lie between 2 and the rows of the smaller sample, got {n_folds} for "
            f"{len(first)} and {len(second)} rows"
        )
    rows = torch.cat([first, second])
    label = torch.cat([torch.ones(len(first)), torch.zeros(len(second))]).double()
    generator = torch.Generator().manual_seed(seed)
    fold = torch.cat([_random_folds(len(part), n_folds, generator) for part in (first, second)])
    n_epochs = min(max(30_000 // len(rows), 4), 40) if epochs is None else epochs
    make_classifier = _tagi if factory is None else factory
    score = torch.empty_like(label)
    with Progress(n_folds, "two_sample", progress) as bar:
        for k in range(n_folds):
            kept = fold != k
            model = make_classifier(rows.shape[1], seed + k)
            score[~kept] = _log_odds(model, rows[kept], label[kept], rows[~kept], n_epochs)
            bar.advance(1)
    odds = _calibrated(score, label, fold)
    return _summary(score, odds, label.bool(), fold, n_folds)


def _tagi(columns: int, seed: int) -> Learner:
    return TAGI(mlp(columns, (64, 64), 1), Bernoulli(), gain=0.1, seed=seed)


def _random_folds(n_rows: int, n_folds: int, generator: torch.Generator) -> Tensor:
    """Return the fold of each row; the folds have nearly the same size."""
    return (torch.arange(n_rows) % n_folds)[torch.randperm(n_rows, generator=generator)]


def _log_odds(model: Learner, x: Tensor, label: Tensor, new: Tensor, epochs: int) -> Tensor:
    """Return the predicted log odds that new rows belong to ``a``."""
    scaler = Standardizer.fit(x)
    dtype = model.checks.format.dtype
    model.fit(scaler.transform(x).to(dtype), label.long(), epochs=epochs, distance_aware=False,
              progress=False)  # fmt: skip
    probs = model.predict(scaler.transform(new).to(dtype)).probs.double()
    if probs.shape != (len(new), 2):
        raise ValueError(
            f"the classifier must have two classes, got probabilities of shape {probs.shape}"
        )
    return torch.logit(probs[:, 1].clamp(1e-12, 1 - 1e-12))


def _calibrated(score: Tensor, label: Tensor, fold: Tensor) -> Tensor:
    """Return calibrated log odds: scaled and shifted by logistic regression on the other folds.

    Both samples have the same total weight.
    """
    share = label.mean()
    weight = torch.where(label == 1, 0.5 / share, 0.5 / (1 - share))
    odds = torch.empty_like(score)
    for k in fold.unique():
        others = fold != k
        slope, shift = _logistic(score[others], label[others], weight[others])
        odds[~others] = slope * score[~others] + shift
    return odds


def _logistic(score: Tensor, label: Tensor, weight: Tensor) -> tuple[float, float]:
    """Return slope (not negative) and intercept of a weighted logistic regression on one score.

    By Newton's method, with a weak normal prior of the slope, so that it is finite for separable
    samples.
    """
    unit = score.std().clamp_min(1e-12)
    design = torch.stack([score / unit, torch.ones_like(score)], 1)
    prior = torch.tensor([1.0, 1e-6], dtype=torch.float64) / 10
    w = torch.zeros(2, dtype=torch.float64)
    for _ in range(50):
        p = torch.sigmoid(design @ w)
        slope = design.T @ (weight * (label - p)) - prior * w
        bend = (design * (weight * p * (1 - p)).unsqueeze(1)).T @ design + torch.diag(prior)
        step = torch.linalg.solve(bend, slope)
        w = w + step / max(float(step.abs().max()), 1.0)
        if float(step.abs().max()) < 1e-10:
            break
    if w[0] < 0:  # worse than random: constant odds
        return 0.0, 0.0
    return float(w[0] / unit), float(w[1])


def _summary(
    score: Tensor, odds: Tensor, of_a: Tensor, fold: Tensor, n_folds: int
) -> TwoSampleResult:
    a, b = odds[of_a], odds[~of_a]
    gain_a = math.log(2) + torch.nn.functional.logsigmoid(a)
    gain_b = math.log(2) + torch.nn.functional.logsigmoid(-b)
    js = float(gain_a.mean() + gain_b.mean()) / 2
    js_variance = (float(gain_a.var()) / len(a) + float(gain_b.var()) / len(b)) / 4
    parts = [(score[of_a & (fold == k)], score[~of_a & (fold == k)]) for k in range(n_folds)]
    weight = torch.tensor([float(len(p) + len(q)) for p, q in parts]).double()
    weight = weight / weight.sum()
    found = [area_under_roc(p, q) for p, q in parts]
    auroc = float(sum(w * float(value) for w, (value, _, _) in zip(weight, found, strict=True)))
    variance, null = (
        sum(float(w) ** 2 * part[i] for w, part in zip(weight, found, strict=True)) for i in (1, 2)
    )
    z = (auroc - 0.5) / math.sqrt(null)
    p_value = float(torch.special.ndtr(torch.tensor(-z, dtype=torch.float64)))
    accuracy = ((a > 0).double() + 0.5 * (a == 0)).mean() + (
        (b < 0).double() + 0.5 * (b == 0)
    ).mean()
    return TwoSampleResult(
        auroc, math.sqrt(variance), js, math.sqrt(js_variance), float(accuracy) / 2, p_value, a, b
    )


def area_under_roc(a: Tensor, b: Tensor) -> tuple[float, float, float]:
    """Return the area under the ROC curve, its variance, and its variance for equal distributions.

    The first variance is that of DeLong, DeLong & Clarke-Pearson (1988), the second one that of the
    Mann-Whitney statistic.

    Args:
        a: scores of the rows of ``a``.
        b: scores of the rows of ``b``.
    """
    rank_in_b = partial(torch.searchsorted, b.sort().values)
    above = (rank_in_b(a).double() + rank_in_b(a, right=True).double()) / (2 * len(b))
    below = torch.searchsorted(a.sort().values, b)
    upto = torch.searchsorted(a.sort().values, b, right=True)
    over = 1 - (below.double() + upto.double()) / (2 * len(a))
    variances = [float(v.var()) / len(v) if len(v) > 1 else 0.25 for v in (above, over)]
    null = (len(a) + len(b) + 1) / (12 * len(a) * len(b))
    return float(above.mean()), sum(variances), null
