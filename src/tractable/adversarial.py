"""Adversarial examples: inputs changed a little, so as to be misjudged.

``fgsm`` is the fast gradient sign method, eq. (21): ``x + eps sign(dJ/dx)`` with J the negative log
predictive density of the true targets.  ``pgd`` repeats it in small steps (Madry et al., "Towards
deep learning models resistant to adversarial attacks", 2018).  Both attack any learner through the
gradient of what it *predicts*, so a Bayesian learner is attacked with all its draws at once;
attacking one draw alone would flatter it.  For TAGI the gradient is the message that the evidence
sends to the input: exact through the means, without what the input does to the variances.

Written here because the attack libraries (torchattacks, foolbox, ART) want a module that returns
logits, which a sampled or a closed-form predictive is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tractable.learners import Learner

Bounds = tuple[float, float] | None


def fgsm(
    learner: Learner,
    X: Any,
    y: Any,
    epsilon: float,
    *,
    bounds: Bounds = (0.0, 1.0),
    batch_size: int = 500,
    **options: Any,
) -> Tensor:
    """Inputs moved by ``epsilon`` along the sign of the gradient of the loss, eq. (21).

    Args:
        learner: whose prediction is attacked.
        X: inputs.
        y: their true targets.
        epsilon: largest change of an entry.
        bounds: entries are kept inside, for images; None for no bounds.
        batch_size: rows at once.
        options: of the learner's ``predict``, for example ``draws=10``.
    """
    x, targets = _checked(learner, X, y, epsilon)
    moved = x + epsilon * loss_gradient(learner, x, targets, batch_size, **options).sign()
    return moved if bounds is None else moved.clamp(*bounds)


def pgd(
    learner: Learner,
    X: Any,
    y: Any,
    epsilon: float,
    *,
    steps: int = 10,
    step_size: float | None = None,
    bounds: Bounds = (0.0, 1.0),
    batch_size: int = 500,
    generator: torch.Generator | None = None,
    **options: Any,
) -> Tensor:
    """Projected gradient: ``steps`` small moves, each kept within ``epsilon`` of the input.

    Args:
        learner: whose prediction is attacked.
        X: inputs.
        y: their true targets.
        epsilon: largest change of an entry.
        steps: number of moves.
        step_size: of a move; by default ``2.5 epsilon / steps``.
        bounds: entries are kept inside, for images; None for no bounds.
        batch_size: rows at once.
        generator: for a random start within ``epsilon``; without it the start is the input.
        options: of the learner's ``predict``.
    """
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    x, targets = _checked(learner, X, y, epsilon)
    size = 2.5 * epsilon / steps if step_size is None else step_size
    at = x.clone()
    if generator is not None:
        start = torch.rand(x.shape, generator=generator, dtype=x.dtype).to(x.device)
        at += epsilon * (2 * start - 1)
    for _ in range(steps):
        at = at + size * loss_gradient(learner, at, targets, batch_size, **options).sign()
        at = torch.minimum(torch.maximum(at, x - epsilon), x + epsilon)
        if bounds is not None:
            at = at.clamp(*bounds)
    return at


def robustness(
    learner: Learner, X: Any, y: Any, epsilons: Sequence[float], **options: Any
) -> list[float]:
    """Accuracy under ``fgsm`` for each size of the perturbation; the gradient is taken once.

    Args:
        learner: which is attacked and judged.
        X: inputs, entries in [0, 1].
        y: their classes.
        epsilons: sizes.
        options: of the learner's ``predict``.
    """
    x, targets = _checked(learner, X, y, max(epsilons, default=0.0))
    direction = loss_gradient(learner, x, targets, 500, **options).sign()
    accuracies = []
    for epsilon in epsilons:
        labels = learner.predict((x + epsilon * direction).clamp(0, 1), **options).labels
        accuracies.append(float((labels == targets.reshape(labels.shape)).double().mean()))
    return accuracies


def loss_gradient(
    learner: Learner, x: Tensor, y: Tensor, batch_size: int = 500, **options: Any
) -> Tensor:
    """Derivative of each row's negative log predictive density in its input."""
    parts = []
    for rows, seen in zip(x.split(batch_size), y.split(batch_size), strict=True):
        parts.append(-learner.input_gradient(rows, seen, **options))
    return torch.cat(parts)


def _checked(learner: Learner, X: Any, y: Any, epsilon: float) -> tuple[Tensor, Tensor]:
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise ValueError(f"epsilon must not be negative, got {epsilon}")
    return learner.checked(X, y)
