"""Means over folds, and mean ranks over tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

from tractable_studies.tables.kept import Fold

Means = dict[str, dict[str, dict[str, float]]]
"""The mean of every score over the folds, by table and method."""


def mean(folds: Sequence[Fold]) -> dict[str, float]:
    """Return means over the folds of one table."""
    return {k: float(f"{np.mean([fold[k] for fold in folds]):.4g}") for k in folds[0]}


def everywhere(means: Means, tables: Sequence[str]) -> list[str]:
    """Return the methods with results on all of these tables, in the order of the first."""
    if not tables:
        return []
    first = means.get(tables[0], {})
    return [method for method in first if all(method in means.get(t, {}) for t in tables)]


def mean_ranks(
    means: Means, tables: Sequence[str], methods: Sequence[str], score: str
) -> dict[str, float]:
    """Return the mean rank of each method by a score to minimize; ties share their ranks."""
    ranks = [rankdata([means[table][m][score] for m in methods]) for table in tables]
    columns = np.mean(ranks, axis=0)
    return {m: round(float(r), 3) for m, r in zip(methods, columns, strict=True)}


def mean_scores(
    means: Means, tables: Sequence[str], methods: Sequence[str], score: str
) -> dict[str, float]:
    """Return the mean of a score."""
    return {m: float(f"{np.mean([means[t][m][score] for t in tables]):.4g}") for m in methods}
