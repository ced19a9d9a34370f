"""Curvature of a loss: extreme eigenvalues of its Hessian, and the largest stable step size.

The Hessian of a large model is never formed.  Its products with vectors are computed by a second
backward pass, and the Lanczos iteration finds the extreme eigenvalues from them (Golub & Van Loan,
"Matrix computations", section 10.1; with full reorthogonalization).  Gradient descent near a
minimum is stable for steps below ``2 / (largest eigenvalue)``.

Exact: small Hessians, as a matrix.  Approximate: large ones, up to the reported residual.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tractable.diagnostics.result import Cell, DiagnosticResult
from tractable.learners.learner import Learner
from tractable.plots.style import COLORS, get_axes, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Loss = Callable[[Tensor], Tensor]
MAX_DENSE_PARAMETERS = 400
"""Number of parameters up to which the whole matrix is computed."""
_FLAT = 1e-9  # eigenvalues below this fraction of the largest count as zero


@dataclass(frozen=True)
class Curvature(DiagnosticResult):
    """Eigenvalues of a Hessian.

    Attributes:
        n_parameters: number of parameters.
        largest: largest eigenvalue.
        smallest: smallest eigenvalue, negative where the loss is not convex.
        eigenvalues: computed eigenvalues in increasing order; all of them for a small matrix.
        residual: bound of the error of the extreme eigenvalues, 0 for a small matrix.
        rank: number of eigenvalues that are not zero to rounding; None if not all are known.
        trace: sum of all eigenvalues; None if not all are known.
        gradient_norm: norm of the gradient.
        loss: value of the loss.
    """

    n_parameters: int
    largest: float
    smallest: float
    eigenvalues: tuple[float, ...]
    residual: float
    rank: int | None
    trace: float | None
    gradient_norm: float
    loss: float

    @property
    def max_stable_lr(self) -> float:
        """Learning rate above which gradient descent diverges: 2 / largest eigenvalue."""
        return 2 / self.largest if self.largest > 0 else math.inf

    @property
    def is_convex(self) -> bool:
        """Whether no eigenvalue is negative, up to rounding."""
        return self.smallest >= -max(_FLAT * abs(self.largest), self.residual)

    @property
    def condition_number(self) -> float:
        """Condition number: ratio of the largest to the smallest eigenvalue."""
        if not self.is_convex or self.smallest <= _FLAT * self.largest:
            return math.inf
        return self.largest / self.smallest

    def table_header(self) -> list[str]:
        """Return the names of the table's columns."""
        return ["", "value"]

    def table_rows(self) -> list[list[Cell]]:
        """Return the rows of the table."""
        return [
            ["parameters", self.n_parameters],
            ["largest eigenvalue", self.largest],
            ["smallest eigenvalue", self.smallest],
            ["error bound", self.residual],
            ["rank", self.rank],
            ["largest stable step", self.max_stable_lr],
            ["norm of the gradient", self.gradient_norm],
            ["loss", self.loss],
        ]

    def recommendation(self) -> str:
        """Return the largest stable step, and whether the point is a unique minimum."""
        words = f"Plain gradient descent is stable here for steps below {self.max_stable_lr:.3g}"
        if self.rank is not None and self.rank < self.n_parameters:
            flat = self.n_parameters - self.rank
            words += (
                f"; the Hessian has rank {self.rank} of {self.n_parameters}: {flat} directions "
            )
            words += "of the weights do not change the loss (no unique minimum without a prior)"
        elif not self.is_convex:
            words += "; the curvature is negative in some direction: this is no minimum"
        return f"{words}."

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the computed eigenvalues in decreasing order."""
        ax = get_axes(ax)
        values = sorted(self.eigenvalues, reverse=True)
        ax.plot(range(1, len(values) + 1), values, "o", color=COLORS[0], markersize=4)
        ax.axhline(0, color="#999999", linewidth=0.8)
        ax.set_yscale("symlog", linthresh=max(1e-6 * self.largest, 1e-12))
        return style_axes(ax, xlabel="rank of the eigenvalue", ylabel="eigenvalue")


def curvature(
    model: Learner | Loss,
    X: Any,
    y: Any = None,
    *,
    max_products: int = 60,
    seed: int = 0,
) -> Curvature:
    """Compute the curvature of a model's loss at its mean weights, or of a function at a point.

    Args:
        model: a learner, whose loss is the mean negative log-likelihood over rows (without the
            prior); or a function from a vector to a number.
        X: inputs; for a function, the point.
        y: targets; None for a function.
        max_products: maximum number of Hessian-vector products for a large Hessian.
        seed: random seed of the first Lanczos vector.

    Returns:
        The eigenvalues and derived quantities.
    """
    if isinstance(model, Learner):
        loss, point = loss_of_weights(model, X, y)
    else:
        if y is not None:
            raise ValueError("a function has no targets: call curvature(function, point)")
        loss, point = model, torch.as_tensor(X).detach()
    if point.ndim != 1 or not point.is_floating_point():
        raise ValueError(f"the point must be a vector of numbers, got shape {tuple(point.shape)}")
    if max_products < 2:
        raise ValueError(f"max_products must be at least 2, got {max_products}")
    product = HessianProducts(loss, point)
    size = len(point)
    if size <= max(MAX_DENSE_PARAMETERS, max_products):
        basis = torch.eye(size, dtype=point.dtype)
        matrix = torch.stack([product(column) for column in basis]).double()
        found = torch.linalg.eigvalsh((matrix + matrix.T) / 2)
        residual, trace = 0.0, float(matrix.diagonal().sum())
        tolerance = max(_FLAT, size * torch.finfo(point.dtype).eps)
        rank = int((found.abs() > tolerance * found.abs().max().clamp_min(1e-300)).sum())
    else:
        found, residual = lanczos(product, size, max_products, seed, point)
        rank, trace = None, None
    values = tuple(float(v) for v in found)
    return Curvature(
        size, values[-1], values[0], values, residual, rank, trace,
        float(product.gradient.norm()), float(product.value),
    )  # fmt: skip


class HessianProducts:
    """Products of a Hessian with vectors, at one point.

    Args:
        loss: twice differentiable function from a vector to a number.
        point: point at which the Hessian is taken.
    """

    def __init__(self, loss: Loss, point: Tensor) -> None:
        self.leaf = point.detach().clone().requires_grad_()
        with torch.enable_grad():
            value = loss(self.leaf)
            if value.numel() != 1:
                raise ValueError(f"the loss must be one number, got shape {tuple(value.shape)}")
            (slope,) = torch.autograd.grad(value.reshape(()), self.leaf, create_graph=True)
        self.value, self.slope = value.detach(), slope
        self.gradient = slope.detach()
        if not bool(torch.isfinite(self.gradient).all()):
            raise ValueError("the gradient at the point is not finite there: choose another point")

    def __call__(self, vector: Tensor) -> Tensor:
        """Return the product of the Hessian and a vector."""
        if not self.slope.requires_grad:  # a linear loss
            return torch.zeros_like(vector)
        (found,) = torch.autograd.grad(
            self.slope, self.leaf, vector.to(self.slope), retain_graph=True, materialize_grads=True
        )
        return found.detach()


def lanczos(
    product: Callable[[Tensor], Tensor], size: int, steps: int, seed: int, like: Tensor
) -> tuple[Tensor, float]:
    """Return eigenvalues of the projection on a Krylov space, and the extreme ones' residual."""
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(size, generator=generator, dtype=torch.float64)
    basis = [q / q.norm()]
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    for _ in range(min(steps, size)):
        w = product(basis[-1].to(like)).double().cpu()
        diagonal.append(float(w @ basis[-1]))
        for _ in range(2):  # orthogonalizing twice suffices in floating point
            known = torch.stack(basis)
            w = w - known.T @ (known @ w)
        off_diagonal.append(float(w.norm()))
        if off_diagonal[-1] < 1e-12 * max(map(abs, diagonal)):
            break
        basis.append(w / off_diagonal[-1])
    inner = torch.tensor(off_diagonal[: len(diagonal) - 1], dtype=torch.float64)
    matrix = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    matrix = matrix + torch.diag(inner, 1) + torch.diag(inner, -1)
    values, vectors = torch.linalg.eigh(matrix)
    ends = vectors[-1, [0, -1]].abs().max()
    return values, float(off_diagonal[-1] * ends)


def loss_of_weights(model: Learner, X: Any, y: Any) -> tuple[Loss, Tensor]:
    """Return the mean negative log-likelihood as a function of flat weights, and the mean weights.

    Args:
        model: any learner with one network.
        X: inputs.
        y: targets.
    """
    if y is None:
        raise ValueError("a learner's loss needs targets: pass y")
    x, targets = model.checks.data(X, y)
    network, likelihood = model.method.network, model.likelihood
    point = model.posterior.loc.detach().clone()

    def loss(flat: Tensor) -> Tensor:
        weights = network.with_flat(flat)
        z = network({**weights, **model.state.buffers}, x)
        return -likelihood.log_prob(targets, z).sum() / len(targets)

    return loss, point
