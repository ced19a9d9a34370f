"""Rules of functions that scale vectors to length one, and of distances and angles.

The dependence of a scale on what it scales is kept: with ``y = x / |x|`` the Jacobian is
``(delta_kj - y_k y_j) / |x|`` (and ``y_k y_j / N`` for the root of the mean square).

Exact: the Jacobian at the means; the zero-variance limit.
Approximate: the curvature over the width of the inputs; results of one vector count as
independent.  Statistics of ``rms_norm`` and ``instance_norm`` are those of the uncertain states,
as in the other normalisation layers.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tractable.gaussian import Gaussian, moment_rule, spellings
from tractable.rules.mechanism import python_body
from tractable.rules.tangent import reduction


def _scaled_variance(y: Tensor, var: Tensor, length: Tensor, dims: Any, entries: float) -> Tensor:
    """Variance of ``x / length``, whose Jacobian is ``(delta - y y^T / entries) / length``."""
    part = y.square() * var
    others = (part.sum(dims, keepdim=True) - part).clamp_min(0)
    own = var * (1 - y.square() / entries).square()
    return (own + (y / entries).square() * others) / length.square()


_any_norm = python_body(F.normalize)


@moment_rule(F.normalize)
def normalize(
    input: Gaussian, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Any:
    """``input`` divided by its length."""
    if out is not None:  # spectral norm keeps the direction of the means
        return F.normalize(input.loc.detach(), p, dim, eps, out=out)
    if p != 2:
        return _any_norm(input, p, dim, eps)
    length = input.loc.norm(2, dim, keepdim=True).clamp_min(eps)
    y = input.loc / length
    spread = _scaled_variance(y.detach(), input.variance, length.detach(), dim, 1.0)
    return Gaussian.wrap(y, spread)


@moment_rule(*spellings("rms_norm"))
def rms_norm(
    input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None
) -> Any:
    """``input`` divided by the root of its mean square."""
    if not isinstance(input, Gaussian):
        return F.rms_norm(input, normalized_shape, None, eps) * weight
    dims = list(range(-len(normalized_shape), 0))
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    power = input.loc.square() + input.variance.detach()
    length = (power.mean(dims, keepdim=True) + eps).sqrt()
    y = input.loc / length
    entries = float(torch.Size(normalized_shape).numel())
    spread = _scaled_variance(y.detach(), input.variance, length.detach(), dims, entries)
    z = Gaussian.wrap(y, spread)
    return z if weight is None else z * weight


@moment_rule(F.instance_norm, torch.instance_norm)
def instance_norm(
    input: Any,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Any:
    """Group normalisation with one channel per group; running statistics where they are asked."""
    if not use_input_stats:
        return F.batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if running_mean is not None and running_var is not None:
        _note(input, running_mean, running_var, momentum)
    return F.group_norm(input, input.shape[1], weight, bias, eps)


@torch.no_grad()
def _note(input: Any, running_mean: Tensor, running_var: Tensor, momentum: float) -> None:
    loc = (input.loc if isinstance(input, Gaussian) else input).flatten(2)
    spread = loc.var(-1, correction=1)
    if isinstance(input, Gaussian):
        spread = spread + input.variance.flatten(2).mean(-1)
    running_mean.lerp_(loc.mean((0, 2)), momentum)
    running_var.lerp_(spread.mean(0), momentum)


def _of_pair(function: Any, a: Any, b: Any, dim: int, keepdim: bool = False) -> Gaussian:
    """The tangent of a function that makes one number of two vectors along ``dim``."""
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


@moment_rule(*spellings("cosine_similarity"))
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Gaussian:
    """The cosine of the angle between two vectors."""
    return _of_pair(lambda a, b: F.cosine_similarity(a, b, dim, eps), x1, x2, dim)


@moment_rule(*spellings("pairwise_distance"))
def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Gaussian:
    """The length of the difference of two vectors."""

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return F.pairwise_distance(a, b, p, eps, keepdim)

    return _of_pair(distance, x1, x2, -1, keepdim)


@moment_rule(torch.cdist)
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = None) -> Gaussian:
    """The lengths of all differences between two sets of vectors."""
    return _of_pair(
        lambda a, b: torch.linalg.vector_norm(a - b, p, -1), x1.unsqueeze(-2), x2.unsqueeze(-3), -1
    )


@moment_rule(torch.norm_except_dim)
def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """The lengths of all slices along ``dim``."""
    if dim == -1:
        return v.norm(pow)
    rows = v.transpose(0, dim).flatten(1).norm(pow, 1)
    return rows.reshape([-1] + [1] * (v.dim() - 1)).transpose(0, dim)


@moment_rule(torch._weight_norm)  # noqa: SLF001  (torch has no public name)
def weight_norm(v: Any, g: Any, dim: int = 0) -> Any:
    """``g v / |v|``, slice by slice along ``dim``."""
    rest = [d for d in range(v.dim()) if d != dim]
    return normalize(v, dim=rest if dim >= 0 else list(range(v.dim()))) * g
