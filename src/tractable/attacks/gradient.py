"""Adversarial attacks by gradients, for all learners.

``fgsm`` is the fast gradient sign method, eq. (21): ``x + eps sign(dJ/dx)`` with J the negative log
predictive density of the true targets.  ``pgd`` repeats it in small steps (Madry et al., "Towards
deep learning models resistant to adversarial attacks", 2018), within a box or a Euclidean ball
around the input.  Both use the gradient of the *prediction*, so that a Bayesian
learner is attacked with all its weight samples at once.  An attack on a single sample would
overestimate its robustness.  For TAGI the gradient is the message of the evidence to the input:
exact through the means, without the effect of the input on the variances.

The attack libraries (torchattacks, foolbox, ART) are not used, because they need a module that
returns logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tractable.attacks.budget import (
    Norm,
    check_norm,
    lengths,
    per_row,
    shortened,
    valid_range,
)
from tractable.learners import Learner
from tractable.training.inputs import single_input

Bounds = tuple[float, float] | None


def fgsm(
    learner: Learner,
    X: Any,
    y: Any,
    epsilon: float | Tensor,
    *,
    targeted: bool = False,
    bounds: Bounds = None,
    batch_size: int = 500,
    **options: Any,
) -> Tensor:
    """Return inputs moved by ``epsilon`` along the sign of the gradient of the loss, eq. (21).

    Args:
        learner: whose prediction is attacked.
        X: inputs.
        y: their true targets; with ``targeted`` those that are to be predicted.
        epsilon: largest change of an entry; a number, or one for each row.
        targeted: whether to move towards ``y`` instead of away from it.
        bounds: lowest and highest valid entry, for example ``(0.0, 1.0)`` for images: results
            are clamped to it. Default: None, no clamping.
        batch_size: rows at once.
        options: arguments of the learner's ``predict``, for example ``n_weight_samples=10``.

    Raises:
        InvalidInput: an entry of ``X`` lies outside ``bounds``.
    """
    x, targets = _checked(learner, X, y)
    size, limits = _size(epsilon, x), valid_range(bounds, x, "bounds")
    gradient = _uphill(learner, x, targets, targeted, batch_size, **options)
    return _clamped(x + size * gradient.sign(), limits)


def pgd(
    learner: Learner,
    X: Any,
    y: Any,
    epsilon: float | Tensor,
    *,
    norm: Norm = "inf",
    targeted: bool = False,
    steps: int = 10,
    step_size: float | None = None,
    bounds: Bounds = None,
    batch_size: int = 500,
    generator: torch.Generator | None = None,
    **options: Any,
) -> Tensor:
    """Return inputs after ``steps`` gradient steps, each projected to within ``epsilon`` of the
    input.

    Args:
        learner: whose prediction is attacked.
        X: inputs.
        y: their true targets; with ``targeted`` those that are to be predicted.
        epsilon: largest distance from the input; a number, or one for each row.
        norm: what a distance is: ``"inf"``, the largest change of an entry, each move along the
            sign of the gradient; or ``"2"``, the Euclidean norm, each along the gradient.
        targeted: whether to move towards ``y`` instead of away from it.
        steps: number of moves.
        step_size: length of a move; by default ``2.5 epsilon / steps``.
        bounds: lowest and highest valid entry, for example ``(0.0, 1.0)`` for images: every
            move is clamped to it. Default: None, no clamping.
        batch_size: rows at once.
        generator: for a random start within ``epsilon``; without it the start is the input.
        options: arguments of the learner's ``predict``.

    Raises:
        InvalidInput: an entry of ``X`` lies outside ``bounds``.
    """
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    check_norm(norm)
    x, targets = _checked(learner, X, y)
    size, limits = _size(epsilon, x), valid_range(bounds, x, "bounds")
    step = 2.5 * size / steps if step_size is None else step_size
    at = x.clone()
    if generator is not None:
        at = _clamped(at + size * _within_one(x, norm, generator), limits)
    for _ in range(steps):
        gradient = _uphill(learner, at, targets, targeted, batch_size, **options)
        at = _projected(at + step * _direction(gradient, norm), x, size, norm)
        at = _clamped(at, limits)  # no farther from x, which lies inside
    return at


def robustness(
    learner: Learner,
    X: Any,
    y: Any,
    epsilons: Sequence[float],
    *,
    bounds: Bounds = None,
    **options: Any,
) -> list[float]:
    """Return the accuracy under ``fgsm`` for each size; the gradient is computed once.

    Args:
        learner: the learner to attack and to evaluate.
        X: inputs.
        y: their classes.
        epsilons: sizes of the perturbation, in the units of ``X``.
        bounds: lowest and highest valid entry, for example ``(0.0, 1.0)`` for images: perturbed
            inputs are clamped to it. Default: None, no clamping.
        options: arguments of the learner's ``predict``.

    Raises:
        InvalidInput: an entry of ``X`` lies outside ``bounds``.
    """
    x, targets = _checked(learner, X, y)
    limits = valid_range(bounds, x, "bounds")
    sizes = [_size(epsilon, x) for epsilon in epsilons]
    direction = loss_gradient(learner, x, targets, **options).sign()
    accuracies = []
    for size in sizes:
        labels = learner.predict(_clamped(x + size * direction, limits), **options).labels
        accuracies.append(float((labels == targets.reshape(labels.shape)).double().mean()))
    return accuracies


def _checked(learner: Learner, X: Any, y: Any) -> tuple[Tensor, Tensor]:
    x, targets = learner.checks.data(X, y)
    return single_input(x, "an attack"), targets


def loss_gradient(
    learner: Learner, x: Tensor, y: Tensor, batch_size: int = 500, **options: Any
) -> Tensor:
    """Return minus ``learner.log_prob_gradient``; for TAGI the variances of the units are held
    fixed.

    Args:
        learner: the attacked learner.
        x: checked inputs, ``[n, ...]``.
        y: checked targets, ``[n, ...]``.
        batch_size: rows computed at once.
        **options: options of ``log_prob_gradient``.
    """
    parts = []
    for rows, targets in zip(x.split(batch_size), y.split(batch_size), strict=True):
        parts.append(-learner.log_prob_gradient(rows, targets, **options))
    return torch.cat(parts)


def _uphill(
    learner: Learner, x: Tensor, y: Tensor, targeted: bool, batch_size: int, **options: Any
) -> Tensor:
    gradient = loss_gradient(learner, x, y, batch_size, **options)
    return -gradient if targeted else gradient


def _direction(gradient: Tensor, norm: Norm) -> Tensor:
    """Return the step of length one that increases the loss most."""
    return gradient.sign() if norm == "inf" else gradient / per_row(lengths(gradient), gradient)


def _clamped(at: Tensor, limits: tuple[Tensor, Tensor] | None) -> Tensor:
    return at if limits is None else at.clamp(*limits)


def _projected(at: Tensor, x: Tensor, size: float | Tensor, norm: Norm) -> Tensor:
    """Return the nearest points within ``size`` of ``x``."""
    if norm == "inf":
        return torch.minimum(torch.maximum(at, x - size), x + size)
    return x + shortened(at - x, size.flatten() if isinstance(size, Tensor) else size)


def _within_one(x: Tensor, norm: Norm, generator: torch.Generator) -> Tensor:
    """Return a perturbation of each row, drawn uniformly from the box or ball of size one."""
    uniform = torch.rand(x.shape, generator=generator, dtype=x.dtype).to(x.device)
    if norm == "inf":
        return 2 * uniform - 1
    normal = torch.randn(x.shape, generator=generator, dtype=x.dtype).to(x.device)
    radius = uniform.flatten(1)[:, 0] ** (1 / x[0].numel())
    return _direction(normal, norm) * per_row(radius, x)


def _size(epsilon: float | Tensor, x: Tensor) -> float | Tensor:
    """Return the size of a perturbation: a number, or one per row in a shape that broadcasts."""
    given = torch.as_tensor(epsilon, dtype=torch.float64)
    if not bool((torch.isfinite(given) & (given >= 0)).all()):
        raise ValueError(f"epsilon must not be negative, got {epsilon}")
    if given.ndim == 0:
        return float(epsilon)
    if given.shape != (len(x),):
        raise ValueError(
            f"epsilon must be a number or one for each of {len(x)} rows, got shape "
            f"{tuple(given.shape)}"
        )
    return per_row(given.to(x), x)
