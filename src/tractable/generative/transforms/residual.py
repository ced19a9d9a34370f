"""Residual transforms ``y = x + f(x)`` with a contraction ``f`` (UDL, E 16.20-16.24).

The inverse is the fixed point of ``x = y - f(x)``.  The log determinant of ``I + J`` is exact from
the Jacobian, or ``sum over k of (-1)^(k+1) tr(J^k) / k``, whose traces are exact or estimated with
random vectors (Hutchinson).  ``tr(J^k)`` is the trace of a power; the power of the trace is
something else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tractable.generative.transforms.base import RowTransform

LogDet = Literal["exact", "series", "hutchinson"]
Map = Callable[[Tensor], Tensor]


def log_det_series(jacobian: Tensor, terms: int) -> Tensor:
    """``log det(I + J)`` to so many terms of its series (E 16.22); for a norm of J below 1.

    >>> J = torch.tensor([[0.3, 0.2], [-0.1, 0.4]], dtype=torch.float64)
    >>> round(float(log_det_series(J, 10)), 9)
    0.609767606
    """
    power, total = jacobian, torch.zeros(jacobian.shape[:-2], dtype=jacobian.dtype)
    for k in range(1, terms + 1):
        total = total + (-1) ** (k + 1) * power.diagonal(dim1=-2, dim2=-1).sum(-1) / k
        power = power @ jacobian
    return total


def hutchinson_trace(product: Map, vectors: Tensor) -> Tensor:
    """Estimates of a trace, ``v·(A v)``, for each of these vectors (E 16.23-16.24).

    Args:
        product: from vectors v to ``A v``.
        vectors: vectors of unit covariance: signs (the least variance) or standard normal.
    """
    return (vectors * product(vectors)).sum(-1)


class ResidualTransform(RowTransform):
    """``y = x + f(x)``, for a map with a Lipschitz constant below one.

    Args:
        f: the map, of rows to rows, each by itself.
        log_det: how the log determinant is found.
        terms: terms of the series.
        probes: random sign vectors of the estimate.
        tolerance: the inverse stops when no value moves more than this.
        most: iterations of the inverse.
    """

    def __init__(
        self,
        f: Map,
        log_det: LogDet = "exact",
        *,
        terms: int = 10,
        probes: int = 1,
        tolerance: float | None = None,
        most: int = 500,
    ) -> None:
        super().__init__()
        if log_det not in ("exact", "series", "hutchinson"):
            raise ValueError(f"log_det must be 'exact', 'series' or 'hutchinson', got {log_det!r}")
        if terms < 1 or probes < 1:
            raise ValueError(f"terms and probes must be at least 1, got {terms} and {probes}")
        self.f, self.log_det, self.terms, self.probes = f, log_det, terms, probes
        self.tolerance, self.most = tolerance, most

    def call_and_ladj(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """See ``RowTransform``."""
        if self.log_det == "hutchinson":
            return self._estimated(x)
        jacobian, moved = self._jacobian(x)
        if self.log_det == "series":
            return x + moved, log_det_series(jacobian, self.terms)
        identity = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
        return x + moved, torch.linalg.slogdet(identity + jacobian).logabsdet

    def _jacobian(self, x: Tensor) -> tuple[Tensor, Tensor]:
        wanted = torch.is_grad_enabled()
        with torch.enable_grad():
            at = x if x.requires_grad else x.detach().requires_grad_()
            moved = self.f(at)
            rows = [
                torch.autograd.grad(
                    moved[..., k].sum(), at, retain_graph=True, create_graph=wanted
                )[0]
                for k in range(x.shape[-1])
            ]
        return torch.stack(rows, -2), moved if wanted else moved.detach()

    def _estimated(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Series whose traces are estimated by products of vectors with the Jacobian."""
        wanted = torch.is_grad_enabled()
        with torch.enable_grad():
            at = x if x.requires_grad else x.detach().requires_grad_()
            moved = self.f(at)
            total = torch.zeros(x.shape[:-1], dtype=x.dtype, device=x.device)
            for _ in range(self.probes):
                signs = torch.randint_like(x, 2) * 2 - 1
                carried = signs
                for k in range(1, self.terms + 1):
                    (carried,) = torch.autograd.grad(
                        moved, at, carried, retain_graph=True, create_graph=wanted
                    )
                    total = total + (-1) ** (k + 1) * (carried * signs).sum(-1) / k
        total = total / self.probes
        return (x + moved, total) if wanted else (x + moved.detach(), total.detach())

    def _inverse(self, y: Tensor) -> Tensor:
        """The fixed point (E 16.20-16.21): the error shrinks by the Lipschitz constant per step."""
        tolerance = self.tolerance
        if tolerance is None:
            tolerance = 100 * torch.finfo(y.dtype).eps
        x = y
        for _ in range(self.most):
            new = y - self.f(x)
            if not bool(new.isfinite().all()):
                break
            if float((new - x).abs().max()) <= tolerance * max(1.0, float(new.abs().max())):
                return new
            x = new
        raise ArithmeticError(
            f"the inverse did not settle within {self.most} steps: the map is no contraction"
        )


class Contraction(nn.Module):
    """A small network with a Lipschitz constant of at most ``bound``.

    Every matrix is divided by its largest singular value, if that is above one: exact, where power
    iterations would be behind the weights.

    Args:
        columns: inputs and outputs.
        hidden: widths of the hidden layers.
        bound: Lipschitz constant of the whole network, below 1.
    """

    def __init__(
        self, columns: int, hidden: tuple[int, ...] = (32, 32), bound: float = 0.9
    ) -> None:
        super().__init__()
        if not 0 < bound < 1:
            raise ValueError(f"bound must lie between 0 and 1, got {bound}")
        widths = [columns, *hidden, columns]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.bound = bound

    def forward(self, x: Tensor) -> Tensor:
        """Rows to rows; tanh has slopes of at most 1."""
        *inner, last = self.layers
        for layer in inner:
            x = torch.tanh(_contracting(layer, x))
        return self.bound * _contracting(last, x)


def _contracting(layer: Any, x: Tensor) -> Tensor:
    """A linear layer whose matrix has no singular value above one."""
    largest = torch.linalg.matrix_norm(layer.weight, 2).clamp(min=1.0)
    return F.linear(x, layer.weight / largest, layer.bias)


class Residual(nn.Module):
    """A residual transform that is learnt.

    Args:
        f: a contraction; by default a ``Contraction`` of these columns.
        columns: number of columns, where no map is given.
        options: options of ``ResidualTransform``.
    """

    def __init__(
        self, f: nn.Module | None = None, *, columns: int | None = None, **options: object
    ) -> None:
        super().__init__()
        if f is None:
            if columns is None:
                raise TypeError("Residual needs a contraction, or the number of columns")
            f = Contraction(columns)
        self.f, self.options = f, options

    def forward(self, context: Tensor | None = None) -> ResidualTransform:
        """The transform; a context has no effect."""
        return ResidualTransform(self.f, **self.options)  # type: ignore[arg-type]
