"""Classes that are levels: their order, and where each label stands in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tractable.likelihoods import Likelihood, Ordinal

Array = npt.NDArray[Any]
Ordered = bool | Sequence[Any]
"""False; True where sorting gives the order; or all labels, from the lowest."""
Kind = TypeVar("Kind", bound=Likelihood)


def ordered_classes(seen: Array, ordered: Ordered) -> Array:
    """All classes in their order.

    Args:
        seen: labels of the data, sorted.
        ordered: as the user states it.

    Raises:
        ValueError: the order says nothing of a label, or names one twice.
    """
    if isinstance(ordered, bool | np.bool_):
        return seen
    if isinstance(ordered, str):
        raise ValueError(f"ordered must be True, False or a list of all labels, got {ordered!r}")
    stated = np.asarray(list(ordered), dtype=None if seen.dtype.kind != "O" else object)
    if len(np.unique(stated)) != len(stated):
        raise ValueError(f"ordered={stated.tolist()} names a label twice")
    strange = np.setdiff1d(seen, stated)
    if len(strange):
        raise ValueError(
            f"y has labels {strange.tolist()[:10]} that are not in ordered={stated.tolist()}"
        )
    return stated


def likelihood_of_classes(classes: int, ordered: Ordered, other: Kind) -> Ordinal | Kind:
    """Levels, if they have an order; else the other likelihood."""
    plain = isinstance(ordered, bool | np.bool_) and not ordered
    return other if plain else Ordinal(classes)


def positions(labels: Array, classes: Array) -> Array:
    """Position of each label in ``classes``.

    Raises:
        ValueError: a label is not among them.
    """
    strange = np.setdiff1d(labels, classes)
    if len(strange):
        raise ValueError(
            f"y has labels {strange.tolist()[:10]} that are not among the classes "
            f"{classes.tolist()}"
        )
    order = np.argsort(classes)
    found: Array = order[np.searchsorted(classes[order], labels)]
    return found
