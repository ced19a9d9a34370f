"""Moment rules of functions that normalize vectors, and of distances and angles.

The norm depends on the vector that it divides: with ``y = x / |x|`` and ``g`` the gradient of the
norm ``|x|`` (which is ``y`` for the Euclidean norm), the Jacobian is ``(delta_kj - y_k g_j) /
|x|``.

Exact: the Jacobian at the means; the limit of zero variance.
Approximate: the curvature within the width of the inputs; the entries of a vector are treated as
independent.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tractable.gaussian import Gaussian, moment_rule
from tractable.rules.linearized import reduction
from tractable.torch_functions import torch_functions


def _scaled_variance(y: Tensor, slope: Tensor, var: Tensor, length: Tensor, dims: Any) -> Tensor:
    """Return the variance of ``x / length``, whose Jacobian is ``(delta - y slope^T) / length``.

    ``slope`` is the gradient of the norm, which is ``y`` for the Euclidean norm.
    """
    part = slope.square() * var
    # Rounding may make a sum without its largest term negative.
    others = (part.sum(dims, keepdim=True) - part).clamp_min(0)
    own = var * (1 - y * slope).square()
    return (own + y.square() * others) / length.square()


def _gradient_of_length(x: Tensor, p: float, dim: Any, eps: float) -> Tensor:
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        length = torch.linalg.vector_norm(leaf, p, dim).clamp_min(eps)
        (slope,) = torch.autograd.grad(length.sum(), leaf)
    return slope


@moment_rule(F.normalize)
def normalize(
    input: Gaussian, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Any:
    """Return ``input`` divided by its norm."""
    if out is not None:  # spectral norm keeps the direction of the means
        return F.normalize(input.loc.detach(), p, dim, eps, out=out)
    length = torch.linalg.vector_norm(input.loc, p, dim, keepdim=True).clamp_min(eps)
    y = input.loc / length
    slope = y.detach() if p == 2 else _gradient_of_length(input.loc, p, dim, eps)
    spread = _scaled_variance(y.detach(), slope, input.variance, length.detach(), dim)
    return Gaussian.wrap(y, spread)


def _of_pair(function: Any, a: Any, b: Any, dim: int, keepdim: bool = False) -> Gaussian:
    """Return the tangent of a function that reduces two vectors along ``dim`` to one number."""
    if a is b:
        return reduction(lambda x: function(x, x), [a], dim, keepdim)
    a, b = torch.broadcast_tensors(a, b)
    inputs = [t for t in (a, b) if isinstance(t, Gaussian)]

    def of(*values: Tensor) -> Tensor:
        given = iter(values)
        x, y = (next(given) if isinstance(t, Gaussian) else t for t in (a, b))
        result: Tensor = function(x, y)
        return result

    return reduction(of, inputs, dim, keepdim)


@moment_rule(*torch_functions("cosine_similarity"))
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Gaussian:
    """Return the cosine of the angle between two vectors."""
    return _of_pair(lambda a, b: F.cosine_similarity(a, b, dim, eps), x1, x2, dim)


@moment_rule(*torch_functions("pairwise_distance"))
def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Gaussian:
    """Return the norm of the difference of two vectors."""

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return F.pairwise_distance(a, b, p, eps, keepdim)

    return _of_pair(distance, x1, x2, -1, keepdim)


@moment_rule(torch.cdist)
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = None) -> Gaussian:
    """Return the norms of all differences between two sets of vectors."""
    return _of_pair(
        lambda a, b: torch.linalg.vector_norm(a - b, p, -1), x1.unsqueeze(-2), x2.unsqueeze(-3), -1
    )


@moment_rule(torch.norm_except_dim)
def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """Return the norms of all slices along ``dim``."""
    if dim == -1:
        return v.norm(pow)
    slices = v.transpose(0, dim)
    lengths = slices.reshape(slices.shape[0], -1).norm(pow, 1)
    return lengths.reshape([-1] + [1] * (v.dim() - 1)).transpose(0, dim)


@moment_rule(torch._weight_norm)  # noqa: SLF001  (torch has no public name)
def weight_norm(v: Any, g: Any, dim: int = 0) -> Any:
    """Return ``g v / |v|`` for each slice along ``dim``."""
    rest = [d for d in range(v.dim()) if d != dim]
    return normalize(v, dim=rest if dim >= 0 else list(range(v.dim()))) * g
