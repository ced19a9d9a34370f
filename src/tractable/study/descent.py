"""The optimisers of the book, and the way each takes on a loss.

torch has plain descent and Adam; its momentum and its Nesterov step are others than the book's,
from the first step on ("Understanding Deep Learning", eqs. 6.11 and 6.12: the gradient is weighted
by ``1 - beta`` and the momentum begins at zero).  Those, and the normalised step (eqs. 6.13, 6.14),
are here as ``torch.optim.Optimizer``, so that learners take them:
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

from tractable.plots.canvas import COLORS, canvas, quiet
from tractable.study.curvature import Loss
from tractable.study.result import Cell, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Momentum(Optimizer):
    """``m <- beta m + (1 - beta) g``, ``w <- w - lr m``, with m = 0 at first (eq. 6.11).

    With ``nesterov`` the gradient is that of the place where the momentum alone would lead,
    ``w - lr beta m`` (eq. 6.12).  A closure is then needed, which computes the loss anew.

    Args:
        params: what to optimise.
        lr: length of a step.
        beta: share of the momentum that is kept.
        nesterov: look ahead; ``step`` then wants a closure.
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
        """One step; with ``nesterov`` the closure is called at the place ahead."""
        ahead = any(group["nesterov"] for group in self.param_groups)
        if ahead and closure is None:
            raise ValueError(
                "Nesterov's step needs a closure: the gradient is that of a place ahead"
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
        finally:  # back from the place ahead, whatever the closure met there
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
    """``w <- w - lr g / (|g| + eps)``, entry by entry: only the sign counts (eqs. 6.13, 6.14).

    Args:
        params: what to optimise.
        lr: length of a step, the same in every direction.
        eps: where the gradient is smaller, steps are too.
    """

    def __init__(self, params: Iterable[Tensor], lr: float = 1e-3, eps: float = 1e-8) -> None:
        _positive("lr", lr)
        _positive("eps", eps)
        super().__init__(params, {"lr": lr, "eps": eps})

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step."""
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
    """``Momentum`` that looks ahead; its steps want a closure."""
    return Momentum(params, lr, beta, nesterov=True)


METHODS: dict[str, Callable[..., Optimizer]] = {
    "gradient": torch.optim.SGD,
    "momentum": Momentum,
    "nesterov": nesterov,
    "normalized": NormalizedStep,
    "adam": torch.optim.Adam,
}


@dataclass(frozen=True)
class Descent(Result):
    """The way an optimiser took.

    Attributes:
        method: its name.
        points: where it was, from the start, ``[steps + 1, numbers]``.
        losses: the loss at each.
        lr: length of a step.
    """

    method: str
    points: tuple[tuple[float, ...], ...]
    losses: tuple[float, ...]
    lr: float
    function: Loss | None = None

    @property
    def diverged(self) -> bool:
        """Whether it ended higher than it began, or nowhere."""
        last = self.losses[-1]
        return not math.isfinite(last) or last > self.losses[0]

    def to_dict(self) -> dict[str, Any]:
        """See ``Result``; without the function."""
        return {k: value for k, value in super().to_dict().items() if k != "function"}

    def header(self) -> list[str]:
        """See ``Result``."""
        return ["step", "loss", *(f"w{i}" for i in range(min(len(self.points[0]), 4)))]

    def cells(self) -> list[list[Cell]]:
        """See ``Result``; about ten steps of the way."""
        every = max(1, len(self.losses) // 10)
        places = sorted({*range(0, len(self.losses), every), len(self.losses) - 1})
        return [[i, self.losses[i], *self.points[i][:4]] for i in places]

    def advice(self) -> str:
        """Whether it came down."""
        if self.diverged:
            return f"Steps of {self.lr:g} are too long: the loss went up."
        return f"The loss came down from {self.losses[0]:.4g} to {self.losses[-1]:.4g}."

    def plot(self, ax: Axes | None = None) -> Axes:
        """The way over the contours of the loss, in two dimensions; else the loss by step."""
        ax = canvas(ax)
        if len(self.points[0]) != 2 or self.function is None:
            ax.plot(range(len(self.losses)), self.losses, color=COLORS[0], label=self.method)
            return quiet(ax, xlabel="step", ylabel="loss")
        way = torch.tensor(self.points, dtype=torch.float64)
        if not ax.collections:
            low, high = way.amin(0), way.amax(0)
            room = 0.25 * (high - low).clamp_min(1e-3) + 0.05
            grid = [torch.linspace(float(low[i] - room[i]), float(high[i] + room[i]), 60,
                                   dtype=torch.float64) for i in (0, 1)]  # fmt: skip
            mesh = torch.meshgrid(*grid, indexing="xy")
            flat = torch.stack([part.flatten() for part in mesh], 1)
            heights = torch.stack([self.function(p).detach() for p in flat]).reshape(60, 60)
            ax.contour(*grid, heights.sqrt() if bool((heights >= 0).all()) else heights, 12,
                       colors="#bbbbbb", linewidths=0.8)  # fmt: skip
        color = COLORS[sum(1 for line in ax.lines) % len(COLORS)]
        ax.plot(way[:, 0], way[:, 1], "o-", color=color, markersize=2.5, linewidth=1.2,
                label=self.method)  # fmt: skip
        return quiet(ax, xlabel="first weight", ylabel="second weight", grid=False)


def descent(
    loss: Loss,
    start: Any,
    method: str | Callable[..., Optimizer] = "gradient",
    *,
    lr: float,
    steps: int = 100,
    **options: Any,
) -> Descent:
    """The way that an optimiser takes on a loss.

    Args:
        loss: a function from a vector to a number.
        start: where to begin.
        method: ``"gradient"``, ``"momentum"``, ``"nesterov"``, ``"normalized"``, ``"adam"``, or
            what makes a ``torch.optim.Optimizer``.
        lr: length of a step.
        steps: how many.
        options: arguments of the optimiser, such as ``beta=0.9``.
    """
    if isinstance(method, str) and method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    _positive("lr", lr)
    w = torch.as_tensor(start).detach().clone()
    if w.ndim != 1 or not w.is_floating_point():
        raise ValueError(f"start must be a vector of numbers, got {tuple(w.shape)}, {w.dtype}")
    w.requires_grad_()
    maker = METHODS[method] if isinstance(method, str) else method
    optimizer = maker([w], lr=lr, **options)
    points, losses = [], []

    def closure() -> float:
        optimizer.zero_grad()
        value = loss(w)
        value.backward()
        return float(value.detach())

    for _ in range(steps):
        points.append(tuple(w.detach().tolist()))
        losses.append(float(loss(w.detach())))
        if not math.isfinite(losses[-1]):
            break
        optimizer.step(closure)
    else:
        points.append(tuple(w.detach().tolist()))
        losses.append(float(loss(w.detach())))
    name = method if isinstance(method, str) else getattr(method, "__name__", "an optimiser")
    return Descent(name, tuple(points), tuple(losses), lr, loss)


def _positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number, got {value}")
