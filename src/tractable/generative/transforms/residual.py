"""Residual transforms ``y = x + f(x)`` with a contraction ``f`` (UDL, E 16.20-16.24).

The inverse is the fixed point of ``x = y - f(x)``. The log determinant of ``I + J`` is exact from
the Jacobian, or ``sum over k of (-1)^(k+1) tr(J^k) / k``, whose traces are exact or estimated with
random vectors (Hutchinson).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import override

from tractable.generative.transforms.base import RowTransform

LogDet = Literal["exact", "series", "hutchinson"]
Map = Callable[[Tensor], Tensor]


def log_det_series(jacobian: Tensor, terms: int) -> Tensor:
    """Return ``log det(I + J)`` by the first terms of its series (E 16.22).

    The norm of J must be below 1.

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
    """Return the estimate ``v·(A v)`` of the trace of A for each vector (E 16.23-16.24).

    Args:
        product: from vectors v to ``A v``.
        vectors: vectors of unit covariance: signs (the least variance) or standard normal.
    """
    return (vectors * product(vectors)).sum(-1)


class ResidualTransform(RowTransform):
    """``y = x + f(x)``, for a map with a Lipschitz constant below one.

    Args:
        f: map from rows to rows, each row by itself.
        log_det: ``"exact"``, ``"series"`` or ``"hutchinson"``.
        n_terms: number of terms of the series.
        n_probes: number of random sign vectors of the estimate.
        tol: relative change below which the iteration of the inverse stops. Default: 100 times the
            rounding error.
        max_iter: maximum number of iterations of the inverse.
    """

    def __init__(
        self,
        f: Map,
        log_det: LogDet = "exact",
        *,
        n_terms: int = 10,
        n_probes: int = 1,
        tol: float | None = None,
        max_iter: int = 500,
    ) -> None:
        super().__init__()
        if log_det not in ("exact", "series", "hutchinson"):
            raise ValueError(f"log_det must be 'exact', 'series' or 'hutchinson', got {log_det!r}")
        if n_terms < 1 or n_probes < 1:
            raise ValueError(
                f"n_terms and n_probes must be at least 1, got {n_terms} and {n_probes}"
            )
        self.f, self.log_det, self.n_terms, self.n_probes = f, log_det, n_terms, n_probes
        self.tol, self.max_iter = tol, max_iter

    @override
    def call_and_ladj(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.log_det == "hutchinson":
            return self._with_estimate(x)
        jacobian, moved = self._jacobian(x)
        if self.log_det == "series":
            return x + moved, log_det_series(jacobian, self.n_terms)
        identity = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
        return x + moved, torch.linalg.slogdet(identity + jacobian).logabsdet

    def _jacobian(self, x: Tensor) -> tuple[Tensor, Tensor]:
        needs_graph = torch.is_grad_enabled()
        with torch.enable_grad():
            at = x if x.requires_grad else x.detach().requires_grad_()
            moved = self.f(at)
            rows = [
                torch.autograd.grad(
                    moved[..., k].sum(), at, retain_graph=True, create_graph=needs_graph
                )[0]
                for k in range(x.shape[-1])
            ]
        return torch.stack(rows, -2), moved if needs_graph else moved.detach()

    def _with_estimate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the series with traces estimated by vector-Jacobian products."""
        needs_graph = torch.is_grad_enabled()
        with torch.enable_grad():
            at = x if x.requires_grad else x.detach().requires_grad_()
            moved = self.f(at)
            total = torch.zeros(x.shape[:-1], dtype=x.dtype, device=x.device)
            for _ in range(self.n_probes):
                signs = torch.randint_like(x, 2) * 2 - 1
                carried = signs
                for k in range(1, self.n_terms + 1):
                    (carried,) = torch.autograd.grad(
                        moved, at, carried, retain_graph=True, create_graph=needs_graph
                    )
                    total = total + (-1) ** (k + 1) * (carried * signs).sum(-1) / k
        total = total / self.n_probes
        return (x + moved, total) if needs_graph else (x + moved.detach(), total.detach())

    def _inverse(self, y: Tensor) -> Tensor:
        """Return the fixed point (E 16.20-16.21), to which the iteration converges linearly."""
        tol = self.tol
        if tol is None:
            tol = 100 * torch.finfo(y.dtype).eps
        x = y
        for _ in range(self.max_iter):
            new = y - self.f(x)
            if not bool(new.isfinite().all()):
                break
            if float((new - x).abs().max()) <= tol * max(1.0, float(new.abs().max())):
                return new
            x = new
        raise ArithmeticError(
            f"the inverse did not converge within {self.max_iter} iterations: the map is not a "
            f"contraction"
        )


class Contraction(nn.Module):
    """A small network with a Lipschitz constant of at most ``bound``.

    Every matrix is divided by its largest singular value, if that is above one. The value is
    computed exactly; power iterations would lag behind the weights.

    Args:
        columns: number of inputs and of outputs.
        hidden_layer_sizes: widths of the hidden layers.
        bound: Lipschitz constant of the whole network, below 1.
    """

    def __init__(
        self, columns: int, hidden_layer_sizes: tuple[int, ...] = (32, 32), bound: float = 0.9
    ) -> None:
        super().__init__()
        if not 0 < bound < 1:
            raise ValueError(f"bound must lie between 0 and 1, got {bound}")
        widths = [columns, *hidden_layer_sizes, columns]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.bound = bound

    def forward(self, x: Tensor) -> Tensor:
        """Return transformed rows; tanh has slopes of at most 1."""
        *inner, last = self.layers
        for layer in inner:
            x = torch.tanh(_contracting(layer, x))
        return self.bound * _contracting(last, x)


def _contracting(layer: Any, x: Tensor) -> Tensor:
    """Apply a linear layer whose matrix is scaled to singular values of at most one."""
    largest = torch.linalg.matrix_norm(layer.weight, 2).clamp(min=1.0)
    return F.linear(x, layer.weight / largest, layer.bias)


class Residual(nn.Module):
    """A trainable residual transform.

    Args:
        f: a contraction. Default: a ``Contraction`` of ``columns`` columns.
        columns: number of columns, if ``f`` is not given.
        options: further arguments of ``ResidualTransform``.
    """

    def __init__(
        self, f: nn.Module | None = None, *, columns: int | None = None, **options: object
    ) -> None:
        super().__init__()
        if f is None:
            if columns is None:
                raise TypeError("Residual needs a contraction f, or columns")
            f = Contraction(columns)
        self.f, self.options = f, options

    def forward(self, context: Tensor | None = None) -> ResidualTransform:
        """Return the transform; the context is ignored."""
        return ResidualTransform(self.f, **self.options)  # type: ignore[arg-type]
