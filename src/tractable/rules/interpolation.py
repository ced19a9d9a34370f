"""Moment rules of up- and downsampling, and of sampling at the points of a grid.

Up- and downsampling is a matrix along each dimension, which is found by interpolating unit vectors;
the variance is multiplied by the squares of its entries.

Exact: mean and variance of each entry, for independent ones; sampling at constant points.
Approximate: neighboring results share entries and are treated as independent; sampling at uncertain
points is linearized in the points.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tractable.gaussian import Gaussian, moment_rule
from tractable.rules.bilinear import moments_of

_MODES = {"linear": "bilinear", "bilinear": "bilinear", "trilinear": "bilinear"}


@lru_cache(maxsize=256)
def _matrix(size: int, to: int | None, scale: float | None, options: tuple[Any, ...]) -> Tensor:
    """Return the matrix of one dimension, ``[outputs, inputs]``, in double precision."""
    mode, align_corners, recompute, antialias = options
    # Four equal columns, because with a single one torch's antialiasing repeats its first row.
    units = torch.eye(size, dtype=torch.float64).reshape(size, 1, size, 1).repeat(1, 1, 1, 4)
    if mode == "area":
        assert to is not None
        return F.adaptive_avg_pool2d(units, (to, 1)).reshape(size, -1).T
    z = F.interpolate(
        units,
        size=None if to is None else (to, 4),
        scale_factor=None if scale is None else (scale, 1.0),
        mode=_MODES.get(mode, mode),
        align_corners=align_corners,
        recompute_scale_factor=recompute,
        antialias=antialias,
    )
    return z[..., 0].reshape(size, -1).T


def _per_dim(value: Any, dims: int) -> list[Any]:
    return list(value) if isinstance(value, tuple | list) else [value] * dims


@moment_rule(F.interpolate)
def interpolate(
    input: Gaussian,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Gaussian:
    """Return weighted sums of neighboring entries."""
    dims = input.dim() - 2
    options = (mode, align_corners, recompute_scale_factor, antialias)

    def plain(x: Tensor) -> Tensor:
        return F.interpolate(
            x, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
        )

    loc = plain(input.loc)
    if mode.startswith("nearest"):
        return Gaussian.wrap(loc, plain(input.variance))
    variance = input.variance
    scales = _per_dim(scale_factor, dims)
    for i in range(dims):
        fixed = loc.shape[2 + i] if scales[i] is None or mode == "area" else None
        a = _matrix(input.shape[2 + i], fixed, None if fixed else scales[i], options)
        squared = a.square().to(variance.device, variance.dtype)
        variance = (variance.movedim(2 + i, -1) @ squared.T).movedim(-1, 2 + i)
    return Gaussian.wrap(loc, variance)


@moment_rule(F.affine_grid)
def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
    """Return the points of a grid under affine maps, in which they are linear."""
    dims = len(size) - 2
    identity = torch.eye(dims, dims + 1, dtype=theta.dtype, device=theta.device).unsqueeze(0)
    points = F.affine_grid(identity, [1, *size[1:]], align_corners).flatten(1, -2)
    points = torch.cat([points, torch.ones_like(points[..., :1])], -1)
    return (points @ theta.mT).reshape(size[0], *size[2:], dims)


@moment_rule(F.grid_sample)
def grid_sample(
    input: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Gaussian:
    """Return the values of ``input`` at points, with the uncertainty of both."""
    (x, var_x), (points, var_points) = moments_of(input), moments_of(grid)

    def plain(x: Tensor, points: Tensor) -> Tensor:
        return F.grid_sample(x, points, mode, padding_mode, align_corners)

    loc = plain(x, points)
    variance = torch.zeros_like(loc, requires_grad=False)
    if var_points is not None:
        slopes = _slopes(plain, x.detach(), points.detach())
        spread = (slopes.square() * var_points.unsqueeze(1)).sum(-1)
        variance = variance + spread
    if var_x is not None:
        a = _weights(plain, x.detach(), points.detach())
        variance = variance + torch.einsum("npi,nci->ncp", a.square(), var_x.flatten(2)).reshape(
            loc.shape
        )
    return Gaussian.wrap(loc, variance)


def _slopes(plain: Any, x: Tensor, points: Tensor) -> Tensor:
    """Return the derivatives in the points, ``[rows, channels, *points, coordinates]``."""
    points = points.clone().requires_grad_()
    with torch.enable_grad():
        z = plain(x, points)
        found = [
            torch.autograd.grad(z[:, c].sum(), points, retain_graph=True)[0]
            for c in range(x.shape[1])
        ]
    return torch.stack(found, 1)


def _weights(plain: Any, x: Tensor, points: Tensor) -> Tensor:
    """Return the weight of each entry at each point, ``[rows, points, entries]``."""
    entries = x[0, 0].numel()
    units = torch.eye(entries, dtype=x.dtype, device=x.device).reshape(1, entries, *x.shape[2:])
    z = plain(units.expand(x.shape[0], *units.shape[1:]), points)
    return z.flatten(2).mT
