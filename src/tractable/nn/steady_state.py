"""The steady state of a recurrent network as a layer: ``z = f(z, x)``.

Gradients come from the adjoint fixed point, recurrent back-propagation (Almeida, 1987; Pineda,
1987; "Backprop for recurrent networks", slides 2 to 7): with ``J = df/dz`` at the steady state and
``g`` the derivative of a loss in ``z``, ``u = g + J^T u`` is solved as ``z`` was, and ``u`` goes
into one step of ``f``.  For ``f = phi(W z + b)``, with slopes ``D``, that is
``(D^-1 - W^T) s = g`` and ``dW = s z^T``.

On Gaussians ``z*`` is the steady state of the means; one step with Gaussian weights and inputs at
the constant ``z*`` has variance ``q``, and

    z ~ N(z*, (M . M) q),    M = (I - J)^-1,    messages M^T d_mu and (M . M)^T d_var

because a small change of ``f`` moves its fixed point by M times as much.

Exact: the gradients, to the tolerance; the variance for small ones.
Approximate: the linearisation about the steady state of the means; states count as independent.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from tractable.errors import InvalidInput, NoSteadyState
from tractable.gaussian import Gaussian, require_messages
from tractable.nn.fixed_point import Settled, settle


class SteadyState(nn.Module):
    """The steady state of a cell.

    Args:
        cell: a module called as ``cell(z, x)`` that returns the next ``z``; one of torch's
            recurrent cells (called as ``cell(x, z)``) will do.
        units: size of ``z``; by default that of torch's cell, else that of ``x``.
        tolerance: relative change at which a state counts as steady; by default a hundred times
            the precision of its numbers.
        max_steps: steps at most.
        if_not: what to do if it does not converge: raise ``NoSteadyState``, or warn and take the
            last state.

    Attributes:
        settled: how the last forward pass ended.

    >>> cell = nn.RNNCell(2, 3)
    >>> x, layer = torch.ones(1, 2), SteadyState(cell)
    >>> z = layer(x)
    >>> torch.allclose(cell(x, z), z, atol=1e-5)
    True
    """

    settled: Settled | None = None

    def __init__(
        self,
        cell: nn.Module,
        *,
        units: int | None = None,
        tolerance: float | None = None,
        max_steps: int = 500,
        if_not: Literal["raise", "warn"] = "raise",
    ) -> None:
        super().__init__()
        if if_not not in ("raise", "warn"):
            raise ValueError(f"if_not must be 'raise' or 'warn', got {if_not!r}")
        if isinstance(cell, nn.LSTMCell):
            raise TypeError("an LSTM cell has two states: give a module whose state is one tensor")
        if max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {max_steps}")
        self.cell, self.units = cell, units
        self.tolerance, self.max_steps, self.if_not = tolerance, max_steps, if_not

    def forward(self, x: Tensor, start: Tensor | None = None) -> Tensor:
        """The steady state for each row of ``x``, from ``start`` (by default zero) on."""
        z = self._start(x) if start is None else start.detach()
        if z.shape[0] != x.shape[0]:
            raise InvalidInput(
                f"the start must have a row for each row of the inputs: got {z.shape[0]} rows "
                f"for inputs of {x.shape[0]}"
            )
        with torch.no_grad(), require_messages(required=False):
            self.settled = self._settle(lambda z: _mean(self._step(z, x)), z, "the network")
        z = self.settled.z.detach()
        with torch.enable_grad():
            leaf = z.clone().requires_grad_()
            inner = self._step(leaf, x)
        if isinstance(inner, Gaussian):
            return self._uncertain(inner, leaf)
        if not torch.is_grad_enabled():
            return inner.detach()
        adjoint: Tensor = Adjoint.apply(self._step(z, x), self, inner, leaf)
        return adjoint

    def adjoint(self, inner: Tensor, leaf: Tensor, gradient: Tensor) -> Tensor:
        """``u = g + J^T u``."""

        def step(u: Tensor) -> Tensor:
            pulled = torch.autograd.grad(inner, leaf, u, retain_graph=True)[0]
            return gradient + pulled

        return self._settle(step, gradient, "the adjoint").z

    def _uncertain(self, step: Gaussian, leaf: Tensor) -> Gaussian:
        """The Gaussian about the steady state, from that of one step at it."""
        jacobian = _jacobian(step, leaf)
        eye = torch.eye(jacobian.shape[-1], dtype=leaf.dtype, device=leaf.device)
        moved = torch.linalg.inv(eye - jacobian)
        rows = Gaussian.wrap(step.loc.flatten(0, -2), step.variance.flatten(0, -2))
        # The value is z*; messages to the step are those of M times it.
        loc = torch.einsum("rij,rj->ri", moved, rows.loc)
        loc = loc + (leaf.detach().flatten(0, -2) - loc).detach()
        variance = torch.einsum("rij,rj->ri", moved * moved, rows.variance)
        return Gaussian.wrap(loc.reshape(step.shape), variance.reshape(step.shape))

    def _settle(self, f: Any, z: Tensor, what: str) -> Settled:
        tolerance = self.tolerance
        if tolerance is None:
            tolerance = 100 * torch.finfo(z.dtype).eps
        found = settle(f, z, tolerance=tolerance, max_steps=self.max_steps)
        if not found.converged:
            message = (
                f"{what} did not settle in {found.steps} steps: the last changed it by "
                f"{found.change:.2g} of its size, and {tolerance:.2g} is wanted. Likely causes: "
                f"(a) the weights are too large for a steady state (it may swing): make them "
                f"smaller, (b) it needs more max_steps, (c) tolerance is below the precision, or "
                f"(d) the cell draws anew at every step, as dropout and estimator='local' do"
            )
            if self.if_not == "raise":
                raise NoSteadyState(message)
            warnings.warn(message, RuntimeWarning, stacklevel=4)
        return found

    def _step(self, z: Tensor, x: Tensor) -> Any:
        return self.cell(x, z) if _is_torchs(self.cell) else self.cell(z, x)

    def _start(self, x: Tensor) -> Tensor:
        units = self.units
        if units is None:
            cell = self.cell
            units = cell.hidden_size if isinstance(cell, nn.RNNCellBase) else x.shape[-1]
        return torch.zeros(*x.shape[:-1], units, dtype=x.dtype, device=x.device)


class Adjoint(torch.autograd.Function):
    """The identity, whose gradient is replaced by the adjoint's steady state."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, layer: SteadyState, inner: Tensor, leaf: Tensor) -> Tensor:
        """The steady state, as it is."""
        ctx.solve = lambda gradient: layer.adjoint(inner, leaf, gradient)
        return z.view_as(z)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """See ``SteadyState.adjoint``."""
        with torch.enable_grad():
            return ctx.solve(gradient), None, None, None


def _is_torchs(cell: nn.Module) -> bool:
    return isinstance(cell, nn.RNNCellBase)


def _mean(z: Any) -> Tensor:
    if isinstance(z, Gaussian):
        return z.loc
    if not isinstance(z, Tensor):
        raise TypeError(f"the cell must return the next state, one tensor; got {type(z).__name__}")
    return z


def _jacobian(step: Gaussian, leaf: Tensor) -> Tensor:
    """``df/dz`` of the means, row by row: ``[rows, units, units]``."""
    units = leaf.shape[-1]
    nothing = torch.zeros_like(step.variance)
    lines = []
    for i in range(units):
        one = torch.zeros_like(step.loc)
        one[..., i] = 1
        ends = [step.loc, step.variance]
        (line,) = torch.autograd.grad(ends, leaf, [one, nothing], retain_graph=True)
        lines.append(line.flatten(0, -2))
    return torch.stack(lines, 1)
