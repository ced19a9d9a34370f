"""Which columns matter: how much worse predictions get when one is shuffled, and slopes.

A column's values are exchanged between the test rows, so that they say nothing of the row they
stand in (Breiman 2001, section 10); what that costs is the column's importance.  Slopes are those
of ``tractable.infer.derivatives``, with the doubt that the weights leave.
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
    """How much a column matters.

    Attributes:
        name: the column.
        cost: what shuffling it adds to the mean absolute error, or to the log loss.
        error: standard error over the times it was shuffled.
        slope: mean change of the prediction for one more unit, over the test rows; None where it
            has none (text, dates, other learners).
        doubt: standard deviation of the slope at a row, from not knowing the weights.
    """

    name: str
    cost: float
    error: float
    slope: float | None = None
    doubt: float | None = None


def permutation_importance(
    estimator: Any, columns: Sequence[Column], x: Array, y: Array, seed: int
) -> list[FeatureImportance]:
    """The columns, the most important first."""
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
    return sorted(found, key=lambda matters: -matters.cost)


def _loss(estimator: Any, x: Array, y: Array) -> float:
    """Mean absolute error of numbers, log loss of labels."""
    if hasattr(estimator, "classes_"):
        return -float(estimator.log_prob(x, y).mean())
    return float(np.mean(np.abs(estimator.predict(x) - y)))


def _slopes(estimator: Any, x: Array) -> list[tuple[float, float]] | None:
    """Mean slope along each input over rows, and its deviation at a row, in the data's units."""
    learner = estimator.learner_
    parts_of = learner.members if isinstance(learner, Ensemble) else [learner]
    members = [member for member in parts_of if isinstance(member, TAGI)]
    plain = hasattr(estimator, "target_scaler_") and estimator.target_log_transform_ is None
    if not plain or len(members) != len(parts_of):
        return None
    whole = x[~np.isnan(x).any(1)]
    if not len(whole):
        return None
    rows = estimator.input_scaler_.transform(torch.as_tensor(whole)).to(learner.dtype)
    try:
        parts = [derivatives(member, rows) for member in members]
    except UnsupportedLayer:
        return None
    if parts[0].mean.shape[1] != 1:
        return None
    unit = float(estimator.target_scaler_.scale[0]) / estimator.input_scaler_.scale
    means = torch.stack([part.mean[:, 0].double() for part in parts])
    inside = torch.stack([part.variance[:, 0].double() for part in parts])
    doubt = (inside.mean(0) + means.var(0, correction=0)).mean(0).sqrt()
    mean = means.mean(dim=(0, 1))
    return list(zip((mean * unit).tolist(), (doubt * unit).tolist(), strict=True))
