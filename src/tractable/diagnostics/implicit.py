"""Implicit regularization: the modified losses that gradient descent with finite steps minimizes.

A step of gradient descent of length ``alpha`` follows the gradient flow of a modified loss,
"Understanding Deep Learning" eqs. 9.8 to 9.10 and 9.14 to 9.20:

    descent on all rows      L + alpha/4 |dL|^2
    on batches (SGD)         L + alpha/4 |dL|^2 + alpha/4 mean_b |dL_b - dL|^2

with L the mean over batches: points where the gradient is small, and the same in all batches, are
preferred.  Since the mean of squares is the square of the mean plus the mean squared deviation, the
two penalties of SGD sum to ``alpha/4 mean_b |dL_b|^2``.

Exact: to second order in the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tractable.diagnostics.curvature import Loss, loss_of_weights
from tractable.diagnostics.result import Cell, DiagnosticResult
from tractable.learners.learner import Learner
from tractable.plots.style import COLORS, get_axes, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class ImplicitRegularization(DiagnosticResult):
    """Loss and the terms that finite steps add to it.

    Attributes:
        loss: mean loss over batches.
        step_penalty: term added by gradient descent, ``alpha/4 |dL|^2``.
        batch_penalty: term added by batches, ``alpha/4 mean_b |dL_b - dL|^2``.
        lr: step size ``alpha``.
        n_batches: number of batches.
    """

    loss: float
    step_penalty: float
    batch_penalty: float
    lr: float
    n_batches: int

    @property
    def descent_loss(self) -> float:
        """Modified loss of gradient descent on all rows."""
        return self.loss + self.step_penalty

    @property
    def sgd_loss(self) -> float:
        """Modified loss of gradient descent on batches."""
        return self.loss + self.step_penalty + self.batch_penalty

    def table_header(self) -> list[str]:
        """Return the names of the table's columns."""
        return ["", "value"]

    def table_rows(self) -> list[list[Cell]]:
        """Return the rows of the table."""
        return [
            ["loss", self.loss],
            ["added by descent", self.step_penalty],
            ["added by batches", self.batch_penalty],
            ["modified loss of descent", self.descent_loss],
            ["modified loss of SGD", self.sgd_loss],
        ]

    def recommendation(self) -> str:
        """Return the size of the implicit regularization relative to the loss."""
        share = (self.step_penalty + self.batch_penalty) / abs(self.loss) if self.loss else math.inf
        who = "batches" if self.batch_penalty > self.step_penalty else "step size"
        return f"Steps of {self.lr:g} add {100 * share:.2g} % to the loss, mostly due to the {who}."

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw bars of the added terms."""
        ax = get_axes(ax)
        ax.bar([0, 1], [self.step_penalty, self.batch_penalty], 0.5, color=[COLORS[0], COLORS[1]])
        ax.set_xticks([0, 1], ["by descent", "by batches"])
        return style_axes(ax, xlabel="", ylabel="added to the loss")


def modified_loss(losses: Loss | Sequence[Loss], lr: float) -> Loss:
    """Return the modified loss of steps of length ``lr``, as a differentiable function.

    Args:
        losses: a loss of all rows (eq. 9.8), or one for each batch (eqs. 9.9, 9.10).
        lr: learning rate.

    >>> descent_loss = modified_loss(lambda w: 0.5 * w @ w, lr=0.1)
    >>> descent_loss(torch.tensor([1.0]))  # 1/2 + 0.1/4
    tensor(0.5250)
    """
    if not (math.isfinite(lr) and lr > 0):
        raise ValueError(f"lr must be a positive number, got {lr}")
    parts: list[Loss] = [losses] if callable(losses) else list(losses)
    if not parts:
        raise ValueError("losses is empty: pass at least one function")

    def loss(point: Tensor) -> Tensor:
        again = point.requires_grad
        leaf = point if again else point.detach().requires_grad_()
        with torch.enable_grad():
            values = [part(leaf) for part in parts]
            slopes = [torch.autograd.grad(v, leaf, create_graph=True)[0] for v in values]
            total = torch.stack(values).mean()
            added = torch.stack([slope.square().sum() for slope in slopes]).mean()
            found: Tensor = total + lr / 4 * added
        return found if again else found.detach()

    return loss


def implicit_regularization(
    model: Learner | Sequence[Callable[[Tensor], Tensor]],
    X: Any,
    y: Any = None,
    *,
    lr: float,
    batch_size: int = 32,
    seed: int = 0,
) -> ImplicitRegularization:
    """Compute the terms that steps on batches add to the loss, at a model's mean weights.

    Args:
        model: a learner, whose loss is the mean negative log-likelihood; or functions from a
            vector to a number, one for each batch.
        X: inputs; for functions, the point.
        y: targets; None for functions.
        lr: learning rate.
        batch_size: rows in a batch, drawn at random; an incomplete last batch is dropped.
        seed: random seed of the order of the rows.

    Returns:
        The loss and the added terms.
    """
    if not (math.isfinite(lr) and lr > 0):
        raise ValueError(f"lr must be a positive number, got {lr}")
    if isinstance(model, Learner):
        if y is None:
            raise ValueError("a learner's loss needs targets: pass y")
        rows, targets = torch.as_tensor(X), torch.as_tensor(y)
        if not 1 <= batch_size <= len(rows):
            raise ValueError(f"batch_size must be from 1 to {len(rows)} rows, got {batch_size}")
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
        number = len(rows) // batch_size
        parts = order[: number * batch_size].reshape(number, batch_size)
        pairs = [loss_of_weights(model, rows[part], targets[part]) for part in parts]
        losses, point = [loss for loss, _ in pairs], pairs[0][1]
    else:
        losses, point = list(model), torch.as_tensor(X)
    if not losses:
        raise ValueError("there are no batches: pass at least one function")
    leaf = point.detach().clone().requires_grad_()
    values, slopes = [], []
    for loss in losses:
        with torch.enable_grad():
            value = loss(leaf)
        slopes.append(torch.autograd.grad(value, leaf)[0].double())
        values.append(float(value.detach()))
    mean = torch.stack(slopes).mean(0)
    scatter = torch.stack([(slope - mean).square().sum() for slope in slopes]).mean()
    return ImplicitRegularization(
        sum(values) / len(values),
        lr / 4 * float(mean.square().sum()),
        lr / 4 * float(scatter),
        lr,
        len(losses),
    )
