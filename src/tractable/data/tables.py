"""Tables for regression and classification: UCI regression data sets, UCI Mushroom."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tractable.data import download
from tractable.data.download import locate
from tractable.errors import did_you_mean

__all__ = ["UCI_NAMES", "Encoding", "RegressionData", "Split", "TableData", "mushroom", "uci"]

_UCI_FOLDERS = {
    "boston": "bostonHousing",
    "concrete": "concrete",
    "energy": "energy",
    "kin8nm": "kin8nm",
    "naval": "naval-propulsion-plant",
    "protein": "protein-tertiary-structure",
    "wine": "wine-quality-red",
}

UCI_NAMES = tuple(_UCI_FOLDERS)
"""Names of the data sets of ``uci``."""


class Split(NamedTuple):
    """The rows of one training and test set."""

    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor


@dataclass(frozen=True, eq=False)
class RegressionData:
    """A regression table and its train/test splits, in original units.

    Attributes:
        name: name of the data set.
        features: ``[N, columns]``.
        targets: ``[N, 1]``.
        train_rows: row numbers of the training set of each split.
        test_rows: row numbers of the test set of each split.
    """

    name: str
    features: Tensor = field(repr=False)
    targets: Tensor = field(repr=False)
    train_rows: tuple[Tensor, ...] = field(repr=False)
    test_rows: tuple[Tensor, ...] = field(repr=False)

    @property
    def n_splits(self) -> int:
        """Number of splits."""
        return len(self.train_rows)

    def split(self, k: int) -> Split:
        """Return split ``k``, from 0, in original units.

        Standardize with the mean and scale of its training rows only.
        """
        if not 0 <= k < self.n_splits:
            raise IndexError(f"{self.name} has no split {k}, expected 0 to {self.n_splits - 1}")
        train, test = self.train_rows[k], self.test_rows[k]
        return Split(
            self.features[train], self.targets[train], self.features[test], self.targets[test]
        )

    def splits(self) -> Iterator[Split]:
        """Return an iterator over all splits."""
        return (self.split(k) for k in range(self.n_splits))


def uci(name: str, *, dtype: torch.dtype = torch.float32) -> RegressionData:
    """Return a regression table of the UCI repository with the published train/test splits.

    Splits and files are those of Y. Gal. Results are comparable with published ones on these splits
    only.

    Args:
        name: ``"boston"``, ``"concrete"``, ``"energy"``, ``"kin8nm"``, ``"naval"``, ``"protein"``
            or ``"wine"``, or the name of the folder, for example ``"bostonHousing"``.
        dtype: precision of features and targets.

    Raises:
        ValueError: the name is unknown.

    References:
        J. M. Hernandez-Lobato and R. P. Adams, "Probabilistic backpropagation for scalable learning
        of Bayesian neural networks" (2015).
        Y. Gal and Z. Ghahramani, "Dropout as a Bayesian approximation" (2016).
    """
    short = _short_name(name)
    folder = f"uci/{_UCI_FOLDERS[short]}"
    table = np.loadtxt(locate(f"{folder}/data.txt"), ndmin=2)
    columns = _indices(f"{folder}/index_features.txt")
    target = _indices(f"{folder}/index_target.txt")
    n_splits = sum(file.startswith(f"{folder}/index_train_") for file in download.SHA256)
    return RegressionData(
        name=short,
        features=torch.from_numpy(table)[:, columns].to(dtype),
        targets=torch.from_numpy(table)[:, target].to(dtype),
        train_rows=tuple(_indices(f"{folder}/index_train_{k}.txt") for k in range(n_splits)),
        test_rows=tuple(_indices(f"{folder}/index_test_{k}.txt") for k in range(n_splits)),
    )


def _short_name(name: str) -> str:
    """Return the name in ``UCI_NAMES`` for this name or name of a folder."""
    names = {known: known for known in _UCI_FOLDERS} | {long: s for s, long in _UCI_FOLDERS.items()}
    if name in names:
        return names[name]
    raise ValueError(
        f"unknown UCI data set {name!r}.{did_you_mean(name, names)} Known: "
        f"{', '.join(f'{s} ({long})' if s != long else s for s, long in _UCI_FOLDERS.items())}."
    )


def _indices(name: str) -> Tensor:
    """Return the row or column numbers in an index file."""
    return torch.from_numpy(np.loadtxt(locate(name), dtype=np.int64, ndmin=1))


# --- classification ----------------------------------------------------------------------------

Encoding = Literal["one-hot", "drop-first", "codes"]

_MUSHROOM_COLUMNS = (
    "cap-shape cap-surface cap-color bruises odor gill-attachment gill-spacing gill-size "
    "gill-color stalk-shape stalk-root stalk-surface-above-ring stalk-surface-below-ring "
    "stalk-color-above-ring stalk-color-below-ring veil-type veil-color ring-number ring-type "
    "spore-print-color population habitat"
).split()


@dataclass(frozen=True, eq=False)
class TableData:
    """A table of encoded features and the class of each row.

    Attributes:
        name: name of the data set.
        classes: names of the classes, in the order of the labels.
        columns: names of the columns of ``features``.
        features: ``[N, columns]``, float32.
        labels: ``[N]``, int64.
    """

    name: str
    classes: tuple[str, ...]
    columns: tuple[str, ...] = field(repr=False)
    features: Tensor = field(repr=False)
    labels: Tensor = field(repr=False)


def mushroom(encoding: Encoding = "one-hot") -> TableData:
    """Return UCI Mushroom: 8,124 mushrooms, edible (label 0) or poisonous (label 1).

    Each of the 22 features is a letter. Its levels are the letters in alphabetical order; the ``?``
    of a missing stalk-root is a level.

    Args:
        encoding: ``"one-hot"``, one column for each level, 117 in total; ``"drop-first"``, the same
            without the first level of each feature, 117 - 22 = 95 columns, as in the published
            bandit experiments; ``"codes"``, 22 columns with the number of the level.

    References:
        UCI Machine Learning Repository, Mushroom (1981), DOI 10.24432/C5959T.
        C. Blundell et al., "Weight uncertainty in neural networks" (2015): the bandit.
    """
    if encoding not in get_args(Encoding):
        raise ValueError(f"encoding must be one of {get_args(Encoding)}, got {encoding!r}")
    with locate("mushroom/agaricus-lepiota.data").open(newline="") as stream:
        rows = [row for row in csv.reader(stream) if row]
    label, *features = zip(*rows, strict=True)
    encoded = [
        _encode(name, letters, encoding)
        for name, letters in zip(_MUSHROOM_COLUMNS, features, strict=True)
    ]
    return TableData(
        name="mushroom",
        classes=("edible", "poisonous"),
        columns=tuple(name for names, _ in encoded for name in names),
        features=torch.cat([columns for _, columns in encoded], dim=1).float(),
        labels=torch.tensor(["ep".index(letter) for letter in label]),
    )


def _encode(name: str, letters: Sequence[str], encoding: Encoding) -> tuple[list[str], Tensor]:
    """Return the names and values, ``[N, k]``, of the columns of one feature."""
    levels = sorted(set(letters))
    codes = torch.tensor([levels.index(letter) for letter in letters])
    if encoding == "codes":
        return [name], codes[:, None]
    first = 1 if encoding == "drop-first" else 0
    names = [f"{name}={level}" for level in levels[first:]]
    return names, one_hot(codes, len(levels))[:, first:]
