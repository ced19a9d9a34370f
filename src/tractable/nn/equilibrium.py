"""Deep equilibrium layers: the fixed point ``z = f(z, x)`` of a recurrent network as a layer.

Gradients come from the adjoint fixed point, recurrent backpropagation (Almeida, 1987; Pineda, 1987;
"Backprop for recurrent networks", slides 2 to 7): with ``J = df/dz`` at the fixed point and ``g``
the gradient of a loss in ``z``, ``u = g + J^T u`` is solved like ``z``, and ``u`` is propagated
through one step of ``f``.  For ``f = phi(W z + b)`` with slopes ``D`` this is
``(D^-1 - W^T) s = g`` and ``dW = s z^T``.

With Gaussians, ``z*`` is the fixed point of the means.  One step with Gaussian weights and inputs
at the constant ``z*`` has variance ``q``, and

    z ~ N(z*, (M . M) q),    M = (I - J)^-1,    messages M^T d_mu and (M . M)^T d_var

because a small change of ``f`` moves its fixed point by M times as much.

Exact: the gradients, up to the tolerance; the variance in the limit of small variances.
Approximate: linearized about the fixed point of the means; hidden units are treated as independent.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from tractable.errors import ConvergenceError, InvalidInput
from tractable.gaussian import Gaussian, require_messages

_N_MIXED = 6
"""Iterates that Anderson acceleration combines."""
_N_DECREASING = 3
"""Steps in a row with decreasing change before acceleration starts."""
_MAX_CHANGE = 0.03
"""Relative change of a step below which acceleration may start."""


@dataclass(frozen=True)
class FixedPoint:
    """Result of a fixed-point iteration.

    Attributes:
        value: the last iterate.
        n_steps: number of evaluations of the function.
        change: largest change of a row in the last step, relative to the row.
        converged: whether the change is within the tolerance.
    """

    value: Tensor
    n_steps: int
    change: float
    converged: bool


def solve_fixed_point(
    f: Callable[[Tensor], Tensor], z: Tensor, *, tolerance: float, max_steps: int
) -> FixedPoint:
    """Return the fixed point ``z = f(z)`` that plain iteration from ``z`` converges to.

    If there are several fixed points, the result depends on the start, and an unstable one is never
    reached.  Therefore acceleration (Anderson, "Iterative procedures for nonlinear integral
    equations", 1965) starts only when the change of a step is small and has been decreasing.

    Args:
        f: the function, of ``[rows, ...]``.
        z: the start, ``[rows, ...]``.
        tolerance: relative change at which the iteration stops.
        max_steps: maximum number of steps.

    >>> found = solve_fixed_point(torch.cos, torch.zeros(1, 1), tolerance=1e-6, max_steps=100)
    >>> round(float(found.value), 4), found.converged
    (0.7391, True)
    """
    history: list[tuple[Tensor, Tensor]] = []
    before, n_decreasing, change = torch.inf, 0, torch.inf
    for step in range(1, max_steps + 1):
        after = f(z)
        change = _relative_change(z, after)
        if change <= tolerance:
            return FixedPoint(after, step, change, converged=True)
        if not change < torch.inf:
            return FixedPoint(after, step, change, converged=False)
        n_decreasing = n_decreasing + 1 if change < before else 0
        if change > 10 * before:
            history = []  # acceleration diverged: start it again
        before = change
        if history or (n_decreasing >= _N_DECREASING and change < _MAX_CHANGE):
            history = [*history, (z, after)][-_N_MIXED:]
            z = _anderson_step(history)
        else:
            z = after
    return FixedPoint(z, max_steps, change, converged=False)


def _relative_change(z: Tensor, after: Tensor) -> float:
    if not z.numel():
        return 0.0
    # Row by row: a row with large values must not hide the changes of the others.
    rows = [part.reshape(len(part), -1).abs().amax(1) for part in (after - z, after)]
    return float((rows[0] / (1 + rows[1])).amax())


def _anderson_step(history: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the combination of the last iterates with the smallest residual, row by row."""
    after = history[-1][1]
    if len(history) == 1:
        return after
    states = torch.stack([z.flatten(1) for z, _ in history], -1)
    images = torch.stack([after.flatten(1) for _, after in history], -1)
    residuals = images - states
    steps, residual = residuals.diff(dim=-1), residuals[..., -1:]
    square = steps.mT @ steps
    ridge = 1e-14 * square.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None] + 1e-300
    eye = torch.eye(square.shape[-1], dtype=square.dtype, device=square.device)
    weights = torch.linalg.solve(square + ridge.clamp_min(1e-37) * eye, steps.mT @ residual)
    moved = images[..., -1:] - images.diff(dim=-1) @ weights
    found = moved.reshape(after.shape)
    return torch.where(found.isfinite(), found, after)


class DeepEquilibrium(nn.Module):
    """A layer that returns the fixed point of a recurrent cell.

    Args:
        cell: module called as ``cell(z, x)`` that returns the next ``z``, or a recurrent cell of
            torch (called as ``cell(x, z)``).
        hidden_size: size of ``z``.  Default: that of a cell of torch, otherwise that of ``x``.
        tolerance: relative change at which the iteration stops.  Default: 100 times the machine
            epsilon of the dtype.
        max_steps: maximum number of steps.
        on_failure: what happens if the iteration does not converge: ``"raise"`` a
            ``ConvergenceError``, or ``"warn"`` and use the last iterate.

    Attributes:
        solve_info: result of the iteration in the last forward pass.

    >>> cell = nn.RNNCell(2, 3)
    >>> x, layer = torch.ones(1, 2), DeepEquilibrium(cell)
    >>> z = layer(x)
    >>> torch.allclose(cell(x, z), z, atol=1e-5)
    True
    """

    solve_info: FixedPoint | None = None

    def __init__(
        self,
        cell: nn.Module,
        *,
        hidden_size: int | None = None,
        tolerance: float | None = None,
        max_steps: int = 500,
        on_failure: Literal["raise", "warn"] = "raise",
    ) -> None:
        super().__init__()
        if on_failure not in ("raise", "warn"):
            raise ValueError(f"on_failure must be 'raise' or 'warn', got {on_failure!r}")
        if isinstance(cell, nn.LSTMCell):
            raise TypeError("an LSTM cell has two states: pass a module whose state is one tensor")
        if max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {max_steps}")
        self.cell, self.hidden_size = cell, hidden_size
        self.tolerance, self.max_steps, self.on_failure = tolerance, max_steps, on_failure

    def forward(self, x: Tensor, start: Tensor | None = None) -> Tensor:
        """Return the fixed point for each row, ``[rows, hidden_size]``.

        Args:
            x: inputs, ``[rows, inputs]``.
            start: first iterate, ``[rows, hidden_size]``.  Default: zeros.
        """
        z = self._zeros(x) if start is None else start.detach()
        if z.shape[0] != x.shape[0]:
            raise InvalidInput(
                f"start must have one row for each row of the inputs: got {z.shape[0]} rows for "
                f"inputs of {x.shape[0]}"
            )
        with torch.no_grad(), require_messages(required=False):
            self.solve_info = self._solve(lambda z: _mean(self._step(z, x)), z, "the network")
        z = self.solve_info.value.detach()
        with torch.enable_grad():
            leaf = z.clone().requires_grad_()
            inner = self._step(leaf, x)
        if isinstance(inner, Gaussian):
            return self._gaussian(inner, leaf)
        if not torch.is_grad_enabled():
            return inner.detach()
        adjoint: Tensor = AdjointFunction.apply(self._step(z, x), self, inner, leaf)
        return adjoint

    def adjoint(self, inner: Tensor, leaf: Tensor, gradient: Tensor) -> Tensor:
        """Return the solution of ``u = g + J^T u``.

        Args:
            inner: one step of the cell at the fixed point.
            leaf: the fixed point, which ``inner`` was computed from.
            gradient: ``g``.
        """

        def step(u: Tensor) -> Tensor:
            pulled = torch.autograd.grad(inner, leaf, u, retain_graph=True)[0]
            return gradient + pulled

        return self._solve(step, gradient, "the adjoint").value

    def _gaussian(self, step: Gaussian, leaf: Tensor) -> Gaussian:
        """Return the Gaussian about the fixed point, from that of one step at it."""
        jacobian = _jacobian(step, leaf)
        eye = torch.eye(jacobian.shape[-1], dtype=leaf.dtype, device=leaf.device)
        m = torch.linalg.inv(eye - jacobian)
        rows = Gaussian.wrap(step.loc.flatten(0, -2), step.variance.flatten(0, -2))
        # The value is z*; the messages to the step are those of M times it.
        loc = torch.einsum("rij,rj->ri", m, rows.loc)
        loc = loc + (leaf.detach().flatten(0, -2) - loc).detach()
        variance = torch.einsum("rij,rj->ri", m * m, rows.variance)
        return Gaussian.wrap(loc.reshape(step.shape), variance.reshape(step.shape))

    def _solve(self, f: Callable[[Tensor], Tensor], z: Tensor, subject: str) -> FixedPoint:
        tolerance = self.tolerance
        if tolerance is None:
            tolerance = 100 * torch.finfo(z.dtype).eps
        found = solve_fixed_point(f, z, tolerance=tolerance, max_steps=self.max_steps)
        if not found.converged:
            message = (
                f"{subject} did not converge in {found.n_steps} steps: the last relative change is "
                f"{found.change:.2g}, expected at most {tolerance:.2g}. Likely causes: "
                f"(a) the weights are so large that there is no stable fixed point: reduce them, "
                f"(b) max_steps is too small, (c) tolerance is below the precision of the dtype, "
                f"or (d) the cell is random, for example with dropout or estimator='local'"
            )
            if self.on_failure == "raise":
                raise ConvergenceError(message)
            warnings.warn(message, RuntimeWarning, stacklevel=4)
        return found

    def _step(self, z: Tensor, x: Tensor) -> Any:
        return self.cell(x, z) if isinstance(self.cell, nn.RNNCellBase) else self.cell(z, x)

    def _zeros(self, x: Tensor) -> Tensor:
        size = self.hidden_size
        if size is None:
            cell = self.cell
            size = cell.hidden_size if isinstance(cell, nn.RNNCellBase) else x.shape[-1]
        return torch.zeros(*x.shape[:-1], size, dtype=x.dtype, device=x.device)


class AdjointFunction(torch.autograd.Function):
    """The identity, whose gradient is replaced by the solution of the adjoint fixed point."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, layer: DeepEquilibrium, inner: Tensor, leaf: Tensor) -> Tensor:
        """Return ``z``."""
        ctx.solve = lambda gradient: layer.adjoint(inner, leaf, gradient)
        return z.view_as(z)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """Return the solution of ``DeepEquilibrium.adjoint``."""
        with torch.enable_grad():
            return ctx.solve(gradient), None, None, None


def _mean(z: Any) -> Tensor:
    if isinstance(z, Gaussian):
        return z.loc
    if not isinstance(z, Tensor):
        raise TypeError(
            f"the cell must return the next state as one tensor, got {type(z).__name__}"
        )
    return z


def _jacobian(step: Gaussian, leaf: Tensor) -> Tensor:
    """Return ``df/dz`` of the means for each row, ``[rows, hidden_size, hidden_size]``."""
    zeros = torch.zeros_like(step.variance)
    lines = []
    for i in range(leaf.shape[-1]):
        unit = torch.zeros_like(step.loc)
        unit[..., i] = 1
        ends = [step.loc, step.variance]
        (line,) = torch.autograd.grad(ends, leaf, [unit, zeros], retain_graph=True)
        lines.append(line.flatten(0, -2))
    return torch.stack(lines, 1)
