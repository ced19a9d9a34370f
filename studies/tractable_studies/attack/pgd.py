"""Gradient attacks on a network of point weights, for comparison with inference.

Fast gradient sign (Goodfellow et al. 2015) and projected gradient descent (Madry et al. 2018)
on the log-probability of a label, within a ball around the image.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

LogProb = Callable[[Tensor, Tensor], Tensor]
"""Images and labels to the log-probability of each label."""


def fgsm(log_prob: LogProb, x: Tensor, label: Tensor, size: Tensor, targeted: bool) -> Tensor:
    """One step of length ``size`` (a number per image) in every pixel."""
    return x + _rows(size, x) * _direction(log_prob, x, label, targeted).sign()


def pgd(
    log_prob: LogProb,
    x: Tensor,
    label: Tensor,
    size: Tensor,
    targeted: bool,
    steps: int = 100,
    clip: tuple[float, float] | None = None,
) -> Tensor:
    """Steps along the gradient, within the Euclidean ball of radius ``size`` around each image.

    The length of a step is 2.5 times the radius over the number of steps.
    """
    rate = _rows(2.5 * size / steps, x)
    moved = x.clone()
    for _ in range(steps):
        gradient = _direction(log_prob, moved, label, targeted)
        change = moved + rate * gradient / _length(gradient) - x
        moved = x + change * (_rows(size, x) / _length(change)).clamp(max=1)
        if clip is not None:
            moved = moved.clamp(*clip)
    return moved


def _direction(log_prob: LogProb, x: Tensor, label: Tensor, targeted: bool) -> Tensor:
    leaf = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(log_prob(leaf, label).sum(), leaf)
    return gradient if targeted else -gradient


def _length(change: Tensor) -> Tensor:
    norm = change.flatten(1).norm(dim=1)
    return _rows(norm.clamp_min(torch.finfo(change.dtype).tiny), change)


def _rows(per_row: Tensor, like: Tensor) -> Tensor:
    return per_row.reshape(-1, *[1] * (like.ndim - 1))
