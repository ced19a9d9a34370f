"""Regression tables of the UCI repository with the published train/test splits.

Layout and splits of J. M. Hernandez-Lobato and R. P. Adams, "Probabilistic backpropagation for
scalable learning of Bayesian neural networks" (2015), as kept by Y. Gal for "Dropout as a Bayesian
approximation" (2016). Results are comparable with published ones only on these splits.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tractable.data import sources
from tractable.data.store import locate
from tractable.errors import did_you_mean

__all__ = ["UCI_NAMES", "RegressionData", "Split", "uci"]

_FOLDERS = {
    "boston": "bostonHousing",
    "concrete": "concrete",
    "energy": "energy",
    "kin8nm": "kin8nm",
    "naval": "naval-propulsion-plant",
    "protein": "protein-tertiary-structure",
    "wine": "wine-quality-red",
}

#: The short names that :func:`uci` takes.
UCI_NAMES = tuple(_FOLDERS)


class Split(NamedTuple):
    """The rows of one train/test split."""

    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor


@dataclass(frozen=True, eq=False)
class RegressionData:
    """A regression table and its train/test splits, in original units.

    Attributes:
        name: the short name of the data set.
        features: ``[N, columns]``.
        targets: ``[N, 1]``.
        train_rows: for each split, the rows to learn from.
        test_rows: for each split, the rows to test on.
    """

    name: str
    features: Tensor = field(repr=False)
    targets: Tensor = field(repr=False)
    train_rows: tuple[Tensor, ...] = field(repr=False)
    test_rows: tuple[Tensor, ...] = field(repr=False)

    @property
    def n_splits(self) -> int:
        """How many splits there are."""
        return len(self.train_rows)

    def split(self, k: int) -> Split:
        """Split ``k``, from 0. Standardise with the statistics of its training rows only."""
        if not 0 <= k < self.n_splits:
            raise IndexError(f"{self.name} has no split {k}, wanted 0 to {self.n_splits - 1}")
        train, test = self.train_rows[k], self.test_rows[k]
        return Split(
            self.features[train], self.targets[train], self.features[test], self.targets[test]
        )

    def splits(self) -> Iterator[Split]:
        """All splits, in order."""
        return (self.split(k) for k in range(self.n_splits))


def uci(name: str, *, dtype: torch.dtype = torch.float32) -> RegressionData:
    """A UCI regression table: boston, concrete, energy, kin8nm, naval, protein or wine.

    Args:
        name: the short name, or the name of the folder, for example ``"bostonHousing"``.
        dtype: precision of features and targets.
    """
    short = _short_name(name)
    folder = f"uci/{_FOLDERS[short]}"
    table = np.loadtxt(locate(f"{folder}/data.txt"), ndmin=2)
    columns = _indices(f"{folder}/index_features.txt")
    target = _indices(f"{folder}/index_target.txt")
    count = sum(file.startswith(f"{folder}/index_train_") for file in sources.SHA256)
    return RegressionData(
        name=short,
        features=torch.from_numpy(table)[:, columns].to(dtype),
        targets=torch.from_numpy(table)[:, target].to(dtype),
        train_rows=tuple(_indices(f"{folder}/index_train_{k}.txt") for k in range(count)),
        test_rows=tuple(_indices(f"{folder}/index_test_{k}.txt") for k in range(count)),
    )


def _short_name(name: str) -> str:
    """The short name of a data set given by either of its names."""
    names = {known: known for known in _FOLDERS} | {long: s for s, long in _FOLDERS.items()}
    if name in names:
        return names[name]
    raise ValueError(
        f"unknown UCI data set {name!r}.{did_you_mean(name, names)} Known: "
        f"{', '.join(f'{s} ({long})' if s != long else s for s, long in _FOLDERS.items())}."
    )


def _indices(name: str) -> Tensor:
    """The row or column numbers in an index file."""
    return torch.from_numpy(np.loadtxt(locate(name), dtype=np.int64, ndmin=1))
