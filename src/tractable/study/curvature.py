"""The curvature of a loss: extreme eigenvalues of its Hessian, and the largest step that is stable.

A Hessian of a million parameters is never made: only its product with a vector is, by a second
backward pass, and Lanczos' iteration finds the extreme eigenvalues from such products (Golub & Van
Loan, "Matrix computations", section 10.1; all vectors are kept orthogonal).  Gradient descent near
a minimum is stable for steps below ``2 / (largest eigenvalue)``.

Exact: small Hessians, as a matrix.  Approximate: large ones, to the residual that is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tractable.learners.learner import Learner
from tractable.plots.canvas import COLORS, canvas, quiet
from tractable.study.result import Cell, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Loss = Callable[[Tensor], Tensor]
DENSE = 400
"""Parameters up to which the whole matrix is made."""
_FLAT = 1e-9  # of the largest eigenvalue: counts as none


@dataclass(frozen=True)
class Curvature(Result):
    """Eigenvalues of a Hessian.

    Attributes:
        parameters: numbers that the loss depends on.
        largest: the largest eigenvalue.
        smallest: the smallest one, negative where the loss is not convex.
        eigenvalues: those that were found, in order: all of a small matrix.
        residual: bound of the error of the extreme ones, 0 for a small matrix.
        rank: eigenvalues that are not zero to rounding; None where not all are known.
        trace: sum of all eigenvalues; None where not all are known.
        gradient: length of the gradient there.
        loss: the loss there.
    """

    parameters: int
    largest: float
    smallest: float
    eigenvalues: tuple[float, ...]
    residual: float
    rank: int | None
    trace: float | None
    gradient: float
    loss: float

    @property
    def stable_step(self) -> float:
        """The learning rate above which gradient descent diverges: 2 / largest eigenvalue."""
        return 2 / self.largest if self.largest > 0 else math.inf

    @property
    def convex(self) -> bool:
        """Whether no eigenvalue is negative, to rounding."""
        return self.smallest >= -max(_FLAT * abs(self.largest), self.residual)

    @property
    def condition(self) -> float:
        """Largest over smallest eigenvalue: how slowly the slowest direction is learnt."""
        if not self.convex or self.smallest <= _FLAT * self.largest:
            return math.inf
        return self.largest / self.smallest

    def header(self) -> list[str]:
        """See ``Result``."""
        return ["", "value"]

    def cells(self) -> list[list[Cell]]:
        """See ``Result``."""
        return [
            ["parameters", self.parameters],
            ["largest eigenvalue", self.largest],
            ["smallest eigenvalue", self.smallest],
            ["error of these", self.residual],
            ["rank", self.rank],
            ["largest stable step", self.stable_step],
            ["length of the gradient", self.gradient],
            ["loss", self.loss],
        ]

    def advice(self) -> str:
        """The step, and what kind of place this is."""
        words = f"Plain gradient descent is stable here for steps below {self.stable_step:.3g}"
        if self.rank is not None and self.rank < self.parameters:
            flat = self.parameters - self.rank
            words += f"; the Hessian has rank {self.rank} of {self.parameters}: {flat} directions "
            words += "of the weights make no difference (several solutions, unless a prior decides)"
        elif not self.convex:
            words += "; the loss curves downwards in some direction: this is no minimum"
        return f"{words}."

    def plot(self, ax: Axes | None = None) -> Axes:
        """The eigenvalues that were found, by size."""
        ax = canvas(ax)
        values = sorted(self.eigenvalues, reverse=True)
        ax.plot(range(1, len(values) + 1), values, "o", color=COLORS[0], markersize=4)
        ax.axhline(0, color="#999999", linewidth=0.8)
        ax.set_yscale("symlog", linthresh=max(1e-6 * self.largest, 1e-12))
        return quiet(ax, xlabel="rank of the eigenvalue", ylabel="eigenvalue")


def curvature(
    model: Learner | Loss,
    X: Any,
    y: Any = None,
    *,
    vectors: int = 60,
    seed: int = 0,
) -> Curvature:
    """The curvature of a model's loss at its mean weights, or of any function at a point.

    Args:
        model: a learner, whose loss is the mean over rows of the negative log-likelihood (a prior
            is left out); or a function from a vector to a number.
        X: inputs; for a function, the point.
        y: targets; nothing for a function.
        vectors: products with the Hessian that a large one may cost.
        seed: seed of the random number generator for the first vector.
    """
    if isinstance(model, Learner):
        loss, point = loss_of_weights(model, X, y)
    else:
        if y is not None:
            raise ValueError("a function has no targets: give curvature(function, point)")
        loss, point = model, torch.as_tensor(X).detach()
    if point.ndim != 1 or not point.is_floating_point():
        raise ValueError(f"the point must be a vector of numbers, got shape {tuple(point.shape)}")
    if vectors < 2:
        raise ValueError(f"vectors must be at least 2, got {vectors}")
    product = Products(loss, point)
    size = len(point)
    if size <= max(DENSE, vectors):
        basis = torch.eye(size, dtype=point.dtype)
        matrix = torch.stack([product(column) for column in basis]).double()
        found = torch.linalg.eigvalsh((matrix + matrix.T) / 2)
        residual, trace = 0.0, float(matrix.diagonal().sum())
        least = max(_FLAT, size * torch.finfo(point.dtype).eps)
        rank = int((found.abs() > least * found.abs().max().clamp_min(1e-300)).sum())
    else:
        found, residual = lanczos(product, size, vectors, seed, point)
        rank, trace = None, None
    values = tuple(float(v) for v in found)
    return Curvature(
        size, values[-1], values[0], values, residual, rank, trace,
        float(product.gradient.norm()), float(product.value),
    )  # fmt: skip


class Products:
    """Products of a Hessian with vectors, at one point.

    Args:
        loss: a function from a vector to a number, twice differentiable.
        point: where.
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
            raise ValueError("the gradient is not finite there")

    def __call__(self, vector: Tensor) -> Tensor:
        """The Hessian times a vector."""
        if not self.slope.requires_grad:  # a linear loss
            return torch.zeros_like(vector)
        (found,) = torch.autograd.grad(
            self.slope, self.leaf, vector.to(self.slope), retain_graph=True, materialize_grads=True
        )
        return found.detach()


def lanczos(
    product: Callable[[Tensor], Tensor], size: int, steps: int, seed: int, like: Tensor
) -> tuple[Tensor, float]:
    """Eigenvalues of the projection on a Krylov space, and the residual of the extreme ones."""
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(size, generator=generator, dtype=torch.float64)
    basis = [q / q.norm()]
    diagonal: list[float] = []
    beside: list[float] = []
    for _ in range(min(steps, size)):
        w = product(basis[-1].to(like)).double().cpu()
        diagonal.append(float(w @ basis[-1]))
        for _ in range(2):  # twice is enough
            known = torch.stack(basis)
            w = w - known.T @ (known @ w)
        beside.append(float(w.norm()))
        if beside[-1] < 1e-12 * max(map(abs, diagonal)):
            break
        basis.append(w / beside[-1])
    inner = torch.tensor(beside[: len(diagonal) - 1], dtype=torch.float64)
    matrix = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    matrix = matrix + torch.diag(inner, 1) + torch.diag(inner, -1)
    values, vectors = torch.linalg.eigh(matrix)
    ends = vectors[-1, [0, -1]].abs().max()
    return values, float(beside[-1] * ends)


def loss_of_weights(model: Learner, X: Any, y: Any) -> tuple[Loss, Tensor]:
    """The mean negative log-likelihood of rows as a function of the flat weights, and the means.

    Args:
        model: any learner of one network.
        X: inputs.
        y: targets.
    """
    if y is None:
        raise ValueError("a learner's loss needs targets: give y")
    x, targets = model.checked(X, y)
    network, likelihood = model.method.network, model.likelihood
    point = model.posterior.loc.detach().clone()

    def loss(flat: Tensor) -> Tensor:
        weights = network.with_flat(flat)
        z = network({**weights, **model.buffers}, x)
        return -likelihood.log_prob(targets, z).sum() / len(targets)

    return loss, point
