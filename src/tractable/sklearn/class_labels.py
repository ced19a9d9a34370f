"""Class labels: their order, their indices, and their weights in predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import compute_sample_weight
from torch import Tensor

from tractable.likelihoods import Likelihood, Ordinal
from tractable.predictive import CategoricalPredictive

Array = npt.NDArray[Any]
Ordered = bool | Sequence[Any]
"""False; True if sorting gives the order of the classes; or a list of all classes in order."""
L = TypeVar("L", bound=Likelihood)


def ordered_classes(labels: Array, ordered: Ordered) -> Array:
    """Return all classes in their order.

    Args:
        labels: the distinct labels of the data, sorted.
        ordered: the parameter of the estimator.

    Raises:
        ValueError: ``ordered`` is not a boolean or a list of all labels without repetitions.
    """
    if isinstance(ordered, bool | np.bool_):
        return labels
    if isinstance(ordered, str):
        raise ValueError(f"ordered must be True, False or a list of all labels, got {ordered!r}")
    given = np.asarray(list(ordered), dtype=None if labels.dtype.kind != "O" else object)
    if len(np.unique(given)) != len(given):
        raise ValueError(f"ordered={given.tolist()} contains a label more than once")
    unknown = np.setdiff1d(labels, given)
    if len(unknown):
        raise ValueError(
            f"y has labels {unknown.tolist()[:10]} that are not in ordered={given.tolist()}"
        )
    return given


def class_likelihood(n_classes: int, ordered: Ordered, unordered: L) -> Ordinal | L:
    """Return an ordinal likelihood if the classes are ordered, otherwise the given one."""
    has_no_order = isinstance(ordered, bool | np.bool_) and not ordered
    return unordered if has_no_order else Ordinal(n_classes)


def class_indices(labels: Array, classes: Array) -> Array:
    """Return the index of each label in ``classes``.

    Raises:
        ValueError: a label is not among the classes.
    """
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise ValueError(
            f"y has labels {unknown.tolist()[:10]} that are not among the classes "
            f"{classes.tolist()}"
        )
    order = np.argsort(classes)
    found: Array = order[np.searchsorted(classes[order], labels)]
    return found


# --- class weights -----------------------------------------------------------------------------


def class_weights(class_weight: Any, labels: Array, classes: Array) -> Tensor:
    """Return the factor on the probability of each class, ``(n_classes,)``.

    Class weights are a change of the prior: the rows are learned unweighted, and predicted
    probabilities are multiplied by the weights and normalized. This is exact for a correct model,
    and no row is repeated or held out more often because its class is rare.

    Args:
        class_weight: None; ``"balanced"`` for weights inversely proportional to the class
            frequencies; or a dict from labels to weights, with 1 for labels that are not in it.
        labels: labels of the rows.
        classes: all classes.

    >>> class_weights("balanced", np.array(["a", "a", "a", "b"]), np.array(["a", "b"])).tolist()
    [0.6666666666666666, 2.0]
    """
    found = np.ones(len(classes))
    if class_weight is None:
        return torch.from_numpy(found)
    if isinstance(class_weight, dict):
        found = np.array([class_weight.get(label, 1.0) for label in classes.tolist()], dtype=float)
    found[class_indices(labels, classes)] = compute_sample_weight(class_weight, labels)
    if not np.isfinite(found).all() or (found < 0).any() or not found.any():
        raise ValueError(
            f"class_weight must be finite, not negative and not 0 for all classes; got "
            f"{class_weight!r}"
        )
    return torch.from_numpy(found)


def check_streaming_weight(class_weight: Any) -> None:
    """Raise if class weights depend on all rows, which ``partial_fit`` does not have."""
    if class_weight is not None and not isinstance(class_weight, dict):
        raise ValueError(
            f"class_weight={class_weight!r} depends on all rows: for partial_fit, pass a dict from "
            f"labels to weights"
        )


def reweighted(
    predictive: CategoricalPredictive, weights: Tensor, counts: Tensor
) -> CategoricalPredictive:
    """Return probabilities multiplied by class weights, and never zero because of rounding.

    With n rows, K classes and the class frequencies s = (n_k + 1) / (n + K),

        p <- (1 - e) p + e s,    e = 1 / (n + 2),    then    p <- w p / sum(w p).

    Approximate: the mutual information between label and weights is kept, as far as the entropy of
    the label permits.

    Args:
        predictive: probabilities under the class frequencies of the training rows.
        weights: weights of the classes, ``(n_classes,)``.
        counts: number of training rows of each class, ``(n_classes,)``.
    """
    n_rows = counts.sum()
    frequencies, minimum = (counts + 1) / (n_rows + len(counts)), 1 / (n_rows + 2)
    probs = weights * ((1 - minimum) * predictive.probabilities + minimum * frequencies)
    probs = probs / probs.sum(-1, keepdim=True)
    expected_entropy = partial(_remaining_entropy, probs, predictive)
    return replace(predictive, probabilities=probs, expected_entropy=expected_entropy)


def _remaining_entropy(probs: Tensor, before: CategoricalPredictive) -> Tensor:
    entropy = torch.special.entr(probs).sum(-1)
    return (entropy - before.epistemic).clamp_min(0)
