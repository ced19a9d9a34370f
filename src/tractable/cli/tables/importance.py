"""Permutation importance of columns, and slopes of the prediction.

The importance of a column is the increase of the error when its values are shuffled among the test
rows (Breiman 2001, section 10).  Slopes and their standard deviations are those of
``tractable.infer.derivatives``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tractable.cli.tables.columns import Column
from tractable.errors import UnsupportedLayer
from tractable.infer import derivatives
from tractable.learners import TAGI, Ensemble

Array = npt.NDArray[Any]

REPEATS = 5
_MOST_ROWS = 500


@dataclass(frozen=True)
class FeatureImportance:
    """Importance of a column.

    Attributes:
        name: name of the column.
        increase: increase of the mean absolute error, or of the log loss, by shuffling.
        std_error: standard error over repeated shuffling.
        slope: mean change of the prediction per unit, over the test rows; None for text, dates and
            learners without derivatives.
        slope_std: standard deviation of the slope at a row due to the uncertainty of the weights.
    """

    name: str
    increase: float
    std_error: float
    slope: float | None = None
    slope_std: float | None = None


def permutation_importance(
    estimator: Any, columns: Sequence[Column], x: Array, y: Array, seed: int
) -> list[FeatureImportance]:
    """Return the importance of the columns, the most important first."""
    x, y = x[:_MOST_ROWS], y[:_MOST_ROWS]
    generator = np.random.default_rng(seed)
    before, slopes = _loss(estimator, x, y), _slopes(estimator, x)
    found, at = [], 0
    for column in columns:
        own = slice(at, at + column.width)
        costs = []
        for _ in range(REPEATS):
            mixed = x.copy()
            mixed[:, own] = x[generator.permutation(len(x)), own]
            costs.append(_loss(estimator, mixed, y) - before)
        slope = slopes[at] if slopes is not None and column.kind == "numeric" else (None, None)
        error = float(np.std(costs) / REPEATS**0.5)
        found.append(FeatureImportance(column.name, float(np.mean(costs)), error, *slope))
        at += column.width
    return sorted(found, key=lambda found: -found.increase)


def _loss(estimator: Any, x: Array, y: Array) -> float:
    """Return the mean absolute error of numbers, or the log loss of labels."""
    if hasattr(estimator, "classes_"):
        return -float(estimator.log_prob(x, y).mean())
    return float(np.mean(np.abs(estimator.predict(x) - y)))


def _slopes(estimator: Any, x: Array) -> list[tuple[float, float]] | None:
    """Return mean slope and standard deviation for each input, in the units of the data."""
    learner = estimator.learner_
    networks = learner.members if isinstance(learner, Ensemble) else [learner]
    members = [member for member in networks if isinstance(member, TAGI)]
    plain = hasattr(estimator, "target_scaler_") and estimator.target_log_transform_ is None
    if not plain or len(members) != len(networks):
        return None
    complete = x[~np.isnan(x).any(1)]
    if not len(complete):
        return None
    rows = estimator.input_scaler_.transform(torch.as_tensor(complete)).to(learner.dtype)
    try:
        parts = [derivatives(member, rows) for member in members]
    except UnsupportedLayer:
        return None
    if parts[0].mean.shape[1] != 1:
        return None
    unit = float(estimator.target_scaler_.scale[0]) / estimator.input_scaler_.scale
    means = torch.stack([part.mean[:, 0].double() for part in parts])
    within = torch.stack([part.variance[:, 0].double() for part in parts])
    std = (within.mean(0) + means.var(0, correction=0)).mean(0).sqrt()
    mean = means.mean(dim=(0, 1))
    return list(zip((mean * unit).tolist(), (std * unit).tolist(), strict=True))
