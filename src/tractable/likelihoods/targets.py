"""Checks of targets that several likelihoods share."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tractable.errors import InvalidTarget
from tractable.gaussian import Gaussian


def refuse_gaussian_targets(y: Tensor) -> None:
    """Raise ``InvalidTarget`` if the targets are Gaussian, that is, have error bars."""
    if isinstance(y, Gaussian):
        raise InvalidTarget("only likelihoods.Normal takes Gaussian targets, with error bars")


def count_non_finite(values: Tensor) -> int:
    """Return the number of NaN or infinite values."""
    # A sum is finite if all its terms are, unless it overflows: then the terms are checked.
    if math.isfinite(float(values.sum())):
        return 0
    return int((~torch.isfinite(values)).sum())


def real_targets(y: Tensor, shape: torch.Size) -> Tensor:
    """Return finite real targets in the given shape; a flat vector fits a single column.

    Args:
        y: targets as the user gave them, ``[rows, ...]``.
        shape: expected shape.

    Raises:
        InvalidTarget: the shape does not fit, or a value is complex, NaN or infinite.
    """
    refuse_gaussian_targets(y)
    if y.is_complex():
        raise InvalidTarget(f"targets must be real numbers, got {y.dtype}")
    if y.shape != shape:
        fits = y.numel() == shape.numel() and y.shape[:1] == shape[:1]
        if not fits:
            raise InvalidTarget(
                f"targets of shape {tuple(y.shape)} do not fit outputs of shape {tuple(shape)}"
            )
        y = y.reshape(shape)
    if y.is_floating_point() and (bad := count_non_finite(y)):
        row = int(torch.nonzero(~torch.isfinite(y))[0, 0])
        raise InvalidTarget(f"targets have {bad} NaN or infinite values, the first in row {row}")
    return y


def count_targets(y: Tensor, shape: torch.Size) -> Tensor:
    """Return counts (integers from 0, as floating-point numbers) in the given shape.

    Raises:
        InvalidTarget: a value is negative or fractional; the message names the row.
    """
    y = real_targets(y, shape)
    bad = (y < 0) | (y != y.round()) if y.is_floating_point() else y < 0
    if bool(bad.any()):
        row, *_ = torch.nonzero(bad)[0].tolist()
        value = y[bad][0].item()
        raise InvalidTarget(
            f"counts must be whole numbers from 0, got {value:g} in row {row}"
            + (": give counts as they are, not standardized" if value < 0 else "")
        )
    return y.to(torch.get_default_dtype()) if not y.is_floating_point() else y


def class_targets(y: Tensor, n_classes: int, rows: int) -> Tensor:
    """Return integer labels ``0 .. n_classes - 1``, one per row.

    Raises:
        InvalidTarget: the shape is not ``[rows]``, or a value is no label.
    """
    refuse_gaussian_targets(y)
    y = y.reshape(-1) if y.numel() == rows else y
    if y.shape != (rows,):
        raise InvalidTarget(
            f"labels must be one integer per row: got shape {tuple(y.shape)} for {rows} rows"
        )
    # A copy: labels index memory, and another thread may change the caller's tensor.
    labels = y.to(torch.int64, copy=True)
    if y.is_floating_point() and bool((odd := labels != y).any()):
        row = int(torch.nonzero(odd)[0, 0])
        raise InvalidTarget(f"labels must be whole numbers, got {float(y[row]):g} in row {row}")
    if rows and not (int(labels.min()) >= 0 and int(labels.max()) < n_classes):
        row = int(torch.nonzero((labels < 0) | (labels >= n_classes))[0, 0])
        raise InvalidTarget(
            f"labels must lie in 0..{n_classes - 1}, got values from "
            f"{int(labels.min())} to {int(labels.max())}; the first bad one is in row {row}"
        )
    return labels
