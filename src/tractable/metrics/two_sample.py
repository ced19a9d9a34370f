"""Do two samples come from the same distribution?  A classifier is asked to tell them apart.

The discriminator of a GAN (UDL E 15.8) turned into a tool, after Lopez-Paz & Oquab, "Revisiting
classifier two-sample tests" (2017).  If the best discriminator says that a row is of ``a`` with
probability ``D``, the Jensen–Shannon divergence is ``log 2 - L / 2`` with its loss ``L``; any other
discriminator has a greater loss on rows that it has not seen, so what it finds is a lower bound.

Rows are dealt into folds; each fold is judged by classifiers that have not seen it.  Within a
fold the classifier is fixed and the rows are new, so the area under its ROC curve is one half on
average if the distributions are equal, however badly it was trained: that is the test.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tractable.data import Standardizer
from tractable.learners import TAGI, Learner
from tractable.likelihoods import Bernoulli
from tractable.metrics.distances import pair_of
from tractable.nn import mlp
from tractable.training.progress import Progress

MakeLearner = Callable[[int, int], Learner]
"""From the number of columns and a seed to a learner of labels 0 and 1 by one output."""


@dataclass(frozen=True)
class TwoSample:
    """How well rows of two samples can be told apart, by rows that no classifier had seen.

    Attributes:
        auroc: probability that a row of ``a`` looks more like one of ``a`` than a row of ``b``
            does: 0.5 where nothing can be told, 1 where everything can.
        auroc_std: its standard error.
        js: Jensen–Shannon divergence in nats (from 0 to log 2), at least: what this classifier
            finds.  May come out below 0 by chance where there is nothing to find.
        js_std: its standard error.
        accuracy: share of rows assigned rightly, both samples counting equally.
        p_value: probability of such an area under the curve, or a greater one, if the
            distributions are equal.
        score_a: for each row of ``a``, the log odds that it is of ``a``, both samples counting
            equally: an estimate of ``log p_a(x) / p_b(x)``.
        score_b: the same for each row of ``b``.
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
        """The interval of the Jensen–Shannon divergence that this classifier finds, in nats."""
        return self._around(self.js, self.js_std, level, 0.0, math.log(2))

    def auroc_interval(self, level: float = 0.9) -> tuple[float, float]:
        """The interval of the area under the ROC curve."""
        return self._around(self.auroc, self.auroc_std, level, 0.0, 1.0)

    def differs(self, level: float = 0.95) -> bool:
        """Whether equal distributions look as different less often than ``1 - level``."""
        return self.p_value < 1 - level

    @staticmethod
    def _around(
        middle: float, std: float, level: float, least: float, most: float
    ) -> tuple[float, float]:
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level}")
        wide = std * float(torch.special.ndtri(torch.tensor((1 + level) / 2, dtype=torch.float64)))
        return min(max(middle - wide, least), most), min(max(middle + wide, least), most)


def two_sample(
    a: Any,
    b: Any,
    *,
    learner: MakeLearner | None = None,
    folds: int = 5,
    epochs: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> TwoSample:
    """How different the distributions of two samples are, with an interval.

    Exact: that the test is right however the classifier was trained, for rows that are
    independent of each other.  Approximate: the standard errors, which treat the folds as
    independent; and the divergence is a lower bound.

    Args:
        a: rows of the first sample: data, say, or last month's table.
        b: rows of the second: what a model makes of them, or this month's.
        learner: makes the classifier of a number of columns and a seed, with a likelihood of two
            labels by one output; by default ``TAGI`` with two hidden layers of 64.  It sees
            columns standardised by the rows it learns from.
        folds: how many parts rows are dealt into.
        epochs: passes of each classifier over its rows; by default enough for 30,000 rows.
        seed: seed of the dealing and of the classifiers.
        progress: show a progress bar; by default on a terminal only.

    >>> same = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    >>> found = two_sample(same[:100], same[100:] + 2.0, epochs=10)
    >>> found.differs(), found.auroc > 0.9
    (True, True)
    """
    first, second = pair_of(a, b)
    if not 2 <= folds <= min(len(first), len(second)):
        raise ValueError(
            f"folds must be from 2 to the rows of the smaller sample, got {folds} for "
            f"{len(first)} and {len(second)} rows"
        )
    rows = torch.cat([first, second])
    label = torch.cat([torch.ones(len(first)), torch.zeros(len(second))]).double()
    generator = torch.Generator().manual_seed(seed)
    fold = torch.cat([_dealt(len(part), folds, generator) for part in (first, second)])
    passes = min(max(30_000 // len(rows), 4), 40) if epochs is None else epochs
    make = _tagi if learner is None else learner
    score = torch.empty_like(label)
    with Progress(folds, "two_sample", progress) as bar:
        for k in range(folds):
            kept = fold != k
            model = make(rows.shape[1], seed + k)
            score[~kept] = _judged(model, rows[kept], label[kept], rows[~kept], passes)
            bar.advance(1)
    odds = _calibrated(score, label, fold)
    return _summary(score, odds, label.bool(), fold, folds)


def _tagi(columns: int, seed: int) -> Learner:
    return TAGI(mlp(columns, (64, 64), 1), Bernoulli(), gain=0.1, seed=seed)


def _dealt(rows: int, folds: int, generator: torch.Generator) -> Tensor:
    """The fold of each row, all of nearly the same size."""
    return (torch.arange(rows) % folds)[torch.randperm(rows, generator=generator)]


def _judged(model: Learner, x: Tensor, label: Tensor, new: Tensor, epochs: int) -> Tensor:
    """Log odds that new rows are of ``a``, as the classifier says."""
    units = Standardizer.fit(x)
    dtype = model.format.dtype
    model.fit(units.transform(x).to(dtype), label.long(), epochs=epochs, distance_aware=False,
              progress=False)  # fmt: skip
    probs = model.predict(units.transform(new).to(dtype)).probs.double()
    if probs.shape != (len(new), 2):
        raise ValueError(f"the learner must tell two labels apart, its probs are {probs.shape}")
    return torch.logit(probs[:, 1].clamp(1e-12, 1 - 1e-12))


def _calibrated(score: Tensor, label: Tensor, fold: Tensor) -> Tensor:
    """Log odds scaled and shifted to be calibrated, each fold by the rows of the others.

    Both samples count equally, whatever their sizes.
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
    """Slope (never negative) and shift of the weighted logistic regression on one number.

    By Newton's steps; with one row's worth of belief in a slope of zero, so that separable
    samples have a finite one.
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
    if w[0] < 0:  # worse than a toss: no opinion
        return 0.0, 0.0
    return float(w[0] / unit), float(w[1])


def _summary(score: Tensor, odds: Tensor, of_a: Tensor, fold: Tensor, folds: int) -> TwoSample:
    a, b = odds[of_a], odds[~of_a]
    gain_a = math.log(2) + torch.nn.functional.logsigmoid(a)
    gain_b = math.log(2) + torch.nn.functional.logsigmoid(-b)
    js = float(gain_a.mean() + gain_b.mean()) / 2
    js_variance = (float(gain_a.var()) / len(a) + float(gain_b.var()) / len(b)) / 4
    parts = [(score[of_a & (fold == k)], score[~of_a & (fold == k)]) for k in range(folds)]
    weight = torch.tensor([float(len(p) + len(q)) for p, q in parts]).double()
    weight = weight / weight.sum()
    found = [area(p, q) for p, q in parts]
    auroc = float(sum(w * float(value) for w, (value, _, _) in zip(weight, found, strict=True)))
    variance, null = (
        sum(float(w) ** 2 * part[i] for w, part in zip(weight, found, strict=True)) for i in (1, 2)
    )
    z = (auroc - 0.5) / math.sqrt(null)
    p_value = float(torch.special.ndtr(torch.tensor(-z, dtype=torch.float64)))
    right = ((a > 0).double() + 0.5 * (a == 0)).mean() + ((b < 0).double() + 0.5 * (b == 0)).mean()
    return TwoSample(
        auroc, math.sqrt(variance), js, math.sqrt(js_variance), float(right) / 2, p_value, a, b
    )


def area(a: Tensor, b: Tensor) -> tuple[float, float, float]:
    """Area under the ROC curve of scores, its variance, and that if both were alike.

    The variance is of DeLong, DeLong & Clarke-Pearson (1988); the other one Mann & Whitney's.
    """
    wins = partial(torch.searchsorted, b.sort().values)
    above = (wins(a).double() + wins(a, right=True).double()) / (2 * len(b))
    below = torch.searchsorted(a.sort().values, b)
    upto = torch.searchsorted(a.sort().values, b, right=True)
    over = 1 - (below.double() + upto.double()) / (2 * len(a))
    spread = [float(v.var()) / len(v) if len(v) > 1 else 0.25 for v in (above, over)]
    null = (len(a) + len(b) + 1) / (12 * len(a) * len(b))
    return float(above.mean()), sum(spread), null
