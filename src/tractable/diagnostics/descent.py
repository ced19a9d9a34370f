"""Optimizers of the book, and their trajectories on a loss.

PyTorch provides plain gradient descent and Adam.  Its momentum and Nesterov steps differ from the
book's from the first step on ("Understanding Deep Learning", eqs. 6.11 and 6.12: the gradient is
weighted by ``1 - beta`` and the momentum starts at zero).  This module provides those and the
normalized step (eqs. 6.13, 6.14) as ``torch.optim.Optimizer``, so that learners accept them:
``Backprop(..., optimizer=Momentum)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from tractable.diagnostics.curvature import Loss
from tractable.diagnostics.result import Cell, DiagnosticResult
from tractable.plots.style import COLORS, get_axes, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Momentum(Optimizer):
    """Momentum: ``m <- beta m + (1 - beta) g``, ``w <- w - lr m``, with m = 0 initially (eq. 6.11).

    With ``nesterov``, the gradient is evaluated at ``w - lr beta m``, the point that the momentum
    alone would reach (eq. 6.12).  ``step`` then requires a closure that computes the loss.

    Args:
        params: parameters to optimize.
        lr: learning rate.
        beta: decay factor of the momentum.
        nesterov: whether to use Nesterov momentum; ``step`` then requires a closure.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        beta: float = 0.9,
        nesterov: bool = False,
    ) -> None:
        _positive("lr", lr)
        if not 0 <= beta < 1:
            raise ValueError(f"beta must lie in [0, 1), got {beta}")
        super().__init__(params, {"lr": lr, "beta": beta, "nesterov": nesterov})

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Make one step; with ``nesterov``, the closure is called at the look-ahead point.

        Args:
            closure: function that computes the loss and its gradients, and returns the loss.
                Required with ``nesterov``. Default: the gradients are used as they are.
        """
        ahead = any(group["nesterov"] for group in self.param_groups)
        if ahead and closure is None:
            raise ValueError(
                "Nesterov's step needs a closure, which computes the gradient at another point: "
                "pass one to step()"
            )
        with torch.no_grad():
            moved = [(w, w.clone()) for group, w in self._all() if group["nesterov"]]
            for group, w in self._all():
                m = self.state[w].setdefault("momentum", torch.zeros_like(w))
                if group["nesterov"]:
                    w.sub_(m, alpha=group["lr"] * group["beta"])
        loss = None
        try:
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
        finally:  # restore the weights, even if the closure raised
            with torch.no_grad():
                for w, before in moved:
                    w.copy_(before)
        with torch.no_grad():
            for group, w in self._all():
                if w.grad is None:
                    continue
                m = self.state[w]["momentum"]
                m.mul_(group["beta"]).add_(w.grad, alpha=1 - group["beta"])
                w.sub_(m, alpha=group["lr"])
        return loss

    def _all(self) -> list[tuple[dict[str, Any], Tensor]]:
        return [(group, w) for group in self.param_groups for w in group["params"]]


class NormalizedStep(Optimizer):
    """Normalized step: ``w <- w - lr g / (|g| + eps)``, elementwise (eqs. 6.13, 6.14).

    Args:
        params: parameters to optimize.
        lr: length of a step, the same in every direction.
        eps: steps are shorter where the gradient is smaller than this.
    """

    def __init__(self, params: Iterable[Tensor], lr: float = 1e-3, eps: float = 1e-8) -> None:
        _positive("lr", lr)
        _positive("eps", eps)
        super().__init__(params, {"lr": lr, "eps": eps})

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Make one step.

        Args:
            closure: function that computes the loss and its gradients, and returns the loss.
                Default: the gradients are used as they are.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            for group in self.param_groups:
                for w in group["params"]:
                    if w.grad is not None:
                        size = w.grad.square().sqrt_().add_(group["eps"])
                        w.addcdiv_(w.grad, size, value=-group["lr"])
        return loss


def nesterov(params: Iterable[Tensor], lr: float = 1e-3, beta: float = 0.9) -> Momentum:
    """Return ``Momentum`` with Nesterov steps, which require a closure."""
    return Momentum(params, lr, beta, nesterov=True)


METHODS: dict[str, Callable[..., Optimizer]] = {
    "gradient": torch.optim.SGD,
    "momentum": Momentum,
    "nesterov": nesterov,
    "normalized": NormalizedStep,
    "adam": torch.optim.Adam,
}


@dataclass(frozen=True)
class Descent(DiagnosticResult):
    """Trajectory of an optimizer.

    Attributes:
        method: name of the optimizer.
        points: weights at the start and after each step, ``[steps + 1, weights]``.
        losses: loss at each point.
        lr: learning rate.
    """

    method: str
    points: tuple[tuple[float, ...], ...]
    losses: tuple[float, ...]
    lr: float
    function: Loss | None = None

    @property
    def diverged(self) -> bool:
        """Whether the last loss is larger than the first or not finite."""
        last = self.losses[-1]
        return not math.isfinite(last) or last > self.losses[0]

    def to_dict(self) -> dict[str, Any]:
        """Return all fields but the function as plain values."""
        return {k: value for k, value in super().to_dict().items() if k != "function"}

    def table_header(self) -> list[str]:
        """Return the names of the table's columns."""
        return ["step", "loss", *(f"w{i}" for i in range(min(len(self.points[0]), 4)))]

    def table_rows(self) -> list[list[Cell]]:
        """Return the rows of the table: about ten steps of the trajectory."""
        every = max(1, len(self.losses) // 10)
        places = sorted({*range(0, len(self.losses), every), len(self.losses) - 1})
        return [[i, self.losses[i], *self.points[i][:4]] for i in places]

    def recommendation(self) -> str:
        """Return whether the loss decreased."""
        if self.diverged:
            return f"Steps of {self.lr:g} are too long: the loss went up."
        return f"The loss decreased from {self.losses[0]:.4g} to {self.losses[-1]:.4g}."

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the trajectory over contours of a loss of two weights; else the loss by step."""
        ax = get_axes(ax)
        if len(self.points[0]) != 2 or self.function is None:
            ax.plot(range(len(self.losses)), self.losses, color=COLORS[0], label=self.method)
            return style_axes(ax, xlabel="step", ylabel="loss")
        path = torch.tensor(self.points, dtype=torch.float64)
        if not ax.collections:
            low, high = path.amin(0), path.amax(0)
            margin = 0.25 * (high - low).clamp_min(1e-3) + 0.05
            grid = [torch.linspace(float(low[i] - margin[i]), float(high[i] + margin[i]), 60,
                                   dtype=torch.float64) for i in (0, 1)]  # fmt: skip
            mesh = torch.meshgrid(*grid, indexing="xy")
            flat = torch.stack([part.flatten() for part in mesh], 1)
            heights = torch.stack([self.function(p).detach() for p in flat]).reshape(60, 60)
            ax.contour(*grid, heights.sqrt() if bool((heights >= 0).all()) else heights, 12,
                       colors="#bbbbbb", linewidths=0.8)  # fmt: skip
        color = COLORS[sum(1 for line in ax.lines) % len(COLORS)]
        ax.plot(path[:, 0], path[:, 1], "o-", color=color, markersize=2.5, linewidth=1.2,
                label=self.method)  # fmt: skip
        return style_axes(ax, xlabel="first weight", ylabel="second weight", grid=False)


def descent(
    loss: Loss,
    start: Any,
    method: str | Callable[..., Optimizer] = "gradient",
    *,
    lr: float,
    n_steps: int = 100,
    **optimizer_kwargs: Any,
) -> Descent:
    """Compute the trajectory of an optimizer on a loss.

    Args:
        loss: function from a vector to a number.
        start: initial vector.
        method: ``"gradient"``, ``"momentum"``, ``"nesterov"``, ``"normalized"``, ``"adam"``, or
            a function that returns a ``torch.optim.Optimizer``.
        lr: learning rate.
        n_steps: number of steps.
        optimizer_kwargs: arguments of the optimizer, such as ``beta=0.9``.

    Returns:
        The trajectory.
    """
    if isinstance(method, str) and method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
    if n_steps < 1:
        raise ValueError(f"n_steps must be at least 1, got {n_steps}")
    _positive("lr", lr)
    w = torch.as_tensor(start).detach().clone()
    if w.ndim != 1 or not w.is_floating_point():
        raise ValueError(f"start must be a vector of numbers, got {tuple(w.shape)}, {w.dtype}")
    w.requires_grad_()
    optimizer_factory = METHODS[method] if isinstance(method, str) else method
    optimizer = optimizer_factory([w], lr=lr, **optimizer_kwargs)
    points, losses = [], []

    def closure() -> float:
        optimizer.zero_grad()
        value = loss(w)
        value.backward()
        return float(value.detach())

    for _ in range(n_steps):
        points.append(tuple(w.detach().tolist()))
        losses.append(float(loss(w.detach())))
        if not math.isfinite(losses[-1]):
            break
        optimizer.step(closure)
    else:
        points.append(tuple(w.detach().tolist()))
        losses.append(float(loss(w.detach())))
    name = method if isinstance(method, str) else getattr(method, "__name__", "an optimizer")
    return Descent(name, tuple(points), tuple(losses), lr, loss)


def _positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number, got {value}")
