"""Table classification: the UCI Mushroom data.

Source: UCI Machine Learning Repository, Mushroom (1981), DOI 10.24432/C5959T. The contextual
bandit on it is that of C. Blundell et al., "Weight uncertainty in neural networks" (2015).
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tractable.data.store import locate

__all__ = ["Encoding", "TableData", "mushroom"]

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
        name: what the data set is called.
        classes: the names of the classes, in label order.
        columns: the name of each column of ``features``.
        features: ``[N, columns]``, float32.
        labels: ``[N]``, int64.
    """

    name: str
    classes: tuple[str, ...]
    columns: tuple[str, ...] = field(repr=False)
    features: Tensor = field(repr=False)
    labels: Tensor = field(repr=False)


def mushroom(encoding: Encoding = "one-hot") -> TableData:
    """UCI Mushroom: 8,124 mushrooms, edible (label 0) or poisonous (label 1).

    Each of the 22 features is a letter. The letters that occur, in alphabetical order, are its
    levels; the ``?`` of a missing stalk-root counts as a level.

    Args:
        encoding: ``"one-hot"``, one column for every level, 117 in all; ``"drop-first"``, the
            same without the first level of each feature, 117 - 22 = 95 columns, which is the
            number of inputs that the bandit experiments report; ``"codes"``, 22 columns with the
            number of the level.
    """
    if encoding not in get_args(Encoding):
        raise ValueError(f"unknown encoding {encoding!r}, wanted one of {get_args(Encoding)}")
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
    """The names and the values ``[N, k]`` of the columns for one feature."""
    levels = sorted(set(letters))
    codes = torch.tensor([levels.index(letter) for letter in letters])
    if encoding == "codes":
        return [name], codes[:, None]
    first = 1 if encoding == "drop-first" else 0
    names = [f"{name}={level}" for level in levels[first:]]
    return names, one_hot(codes, len(levels))[:, first:]
