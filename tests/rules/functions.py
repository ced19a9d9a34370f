"""Torch functions beyond layers, with the shapes of their arguments: rows of the table of cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Row = tuple[str, Callable[..., Tensor], tuple[tuple[int, ...], ...]]

_INDEX = torch.tensor([1, 0, 1])
_PLACES = torch.tensor([[0, 1, 0], [2, 0, 1]])
_MASK = torch.tensor([[True, False, True], [False, False, True]])
_IMAGE = (1, 2, 3, 4)
_POINTS = torch.tensor([[[[0.1, -0.6], [0.7, 0.2]]]])


def _up(mode: str, **options: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: F.interpolate(x, mode=mode, **options)


def _assigned(x: Tensor, y: Tensor) -> Tensor:
    z = x * 1
    z[:, 1] = y
    return z


def _zeros_filled(x: Tensor) -> Tensor:
    return x.new_zeros(2, 3).scatter_add_(1, _PLACES, x)


def _through_a_view(x: Tensor) -> Tensor:
    z = x * 1
    z.t()[1].mul_(3)
    return z


def _copies_summed(x: Tensor) -> Tensor:
    """The index of size one meets one of size two that is summed."""
    return torch.einsum("...i,i...->i", x, torch.arange(-2.0, 4.0, dtype=x.dtype).reshape(3, 2))


LINEAR: list[Row] = [
    ("cumsum", lambda x: x.cumsum(1), ((2, 3),)),
    ("index_add", lambda x, y: x.index_add(0, _INDEX, y, alpha=-2), ((2, 3), (3, 3))),
    ("scatter_add", lambda x, y: x.scatter_add(1, _PLACES, y), ((2, 3), (2, 3))),
    ("scatter_reduce, mean", lambda x, y: x.scatter_reduce(1, _PLACES, y, "mean"), ((2, 3),) * 2),
    (
        "scatter_reduce, mean, without self",
        lambda x, y: x.scatter_reduce(1, _PLACES, y, "mean", include_self=False),
        ((2, 3), (2, 3)),
    ),
    ("zeros filled by scatter_add_", _zeros_filled, ((2, 3),)),
    ("index_copy", lambda x, y: x.index_copy(1, torch.tensor([2, 0]), y), ((2, 3), (2, 2))),
    ("masked_fill", lambda x: x.masked_fill(_MASK, 2), ((2, 3),)),
    ("where", lambda x, y: torch.where(_MASK, x, y), ((2, 3), (2, 1))),
    ("where with a number", lambda x: torch.where(_MASK, 0.5, x), ((2, 3),)),
    ("where, the method", lambda x, y: x.where(_MASK, y), ((2, 3), (2, 3))),
    ("item assignment", _assigned, ((2, 3), (2,))),
    ("in place through a view", _through_a_view, ((2, 3),)),
    ("relu_ of positive, add_", lambda x: (x * 1).add_(1).mul_(2), ((2, 3),)),
    ("diff", lambda x: torch.diff(x, n=1, dim=1), ((2, 3),)),
    ("diff, twice", lambda x, y: torch.diff(x, n=2, dim=1, prepend=y), ((2, 3), (2, 1))),
    ("block_diag", lambda x, y: torch.block_diag(x, y), ((2, 2), (1, 2))),
    ("unfold of a dimension", lambda x: x.unfold(1, 2, 1), ((2, 4),)),
    ("unfold", lambda x: F.unfold(x, 2), (_IMAGE,)),
    ("fold", lambda x: F.fold(x, (2, 3), 2), ((1, 4, 2),)),
    ("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), ((1, 4, 2, 2),)),
    ("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), ((1, 1, 2, 4),)),
    ("channel_shuffle", lambda x: F.channel_shuffle(x, 2), ((1, 4, 2, 2),)),
    ("repeat_interleave", lambda x: x.repeat_interleave(2, 1), ((2, 3),)),
    ("diag_embed", torch.diag_embed, ((2, 3),)),
    ("trace", torch.trace, ((3, 3),)),
    ("vstack", lambda x, y: torch.vstack([x, y]), ((2, 3), (1, 3))),
    ("meshgrid", lambda x, y: sum(torch.meshgrid(x, y, indexing="xy")), ((2,), (3,))),
    ("interpolate, nearest", _up("nearest", scale_factor=2), (_IMAGE,)),
    ("interpolate, linear", _up("linear", scale_factor=1.5), ((1, 2, 5),)),
    ("interpolate, bilinear", _up("bilinear", size=(5, 3)), (_IMAGE,)),
    ("interpolate, corners", _up("bilinear", scale_factor=(2, 1.5), align_corners=True), (_IMAGE,)),
    ("interpolate, antialias", _up("bilinear", size=(2, 3), antialias=True), (_IMAGE,)),
    ("interpolate, bicubic", _up("bicubic", scale_factor=2), (_IMAGE,)),
    ("interpolate, area", _up("area", size=(2, 3)), (_IMAGE,)),
    ("interpolate, trilinear", _up("trilinear", size=(3, 2, 3)), ((1, 1, 2, 2, 3),)),
    ("einsum, diagonal", lambda x: torch.einsum("ii->i", x), ((3, 3),)),
    ("einsum, copies summed", _copies_summed, ((1, 3),)),
    ("einsum, transposed sum", lambda x: torch.einsum("ijk->kj", x), ((2, 3, 2),)),
    ("addcmul of constants", lambda x: torch.addcmul(x, torch.ones(3), torch.ones(3)), ((2, 3),)),
    (
        "grid_sample at certain points",
        lambda x: F.grid_sample(x, _POINTS.to(x.dtype), align_corners=False),
        ((1, 2, 3, 3),),
    ),
]  # fmt: skip

BILINEAR: list[Row] = [
    ("einsum", lambda x, w: torch.einsum("bi,oi->bo", x, w), ((3, 4), (2, 4))),
    ("einsum, attention", lambda q, k: torch.einsum("bhqd,bhkd->bhqk", q, k), ((1, 2, 2, 3),) * 2),
    ("einsum, dots", lambda x, w: torch.einsum("...i,ij->...j", x, w), ((2, 2, 3), (3, 2))),
    ("einsum, implicit", lambda x, w: torch.einsum("ij, jk", x, w), ((2, 3), (3, 2))),
    ("addmm", lambda x, w, b: torch.addmm(b, x, w), ((2, 3), (3, 2), (2,))),
    ("mv", torch.mv, ((2, 3), (3,))),
    ("dot", torch.dot, ((4,), (4,))),
    ("outer", torch.outer, ((3,), (2,))),
    ("tensordot", lambda x, y: torch.tensordot(x, y, dims=([1], [0])), ((2, 3), (3, 2))),
]  # fmt: skip


def _scores(s: Tensor) -> Tensor:
    return torch.softmax(s, -1)


TANGENT: list[Row] = [
    ("softmax", _scores, ((2, 4),)),
    ("softmax, first dimension", lambda x: F.softmax(x, 0), ((3, 2),)),
    ("softmin", lambda x: F.softmin(x, -1), ((2, 4),)),
    ("log_softmax", lambda x: F.log_softmax(x, -1), ((2, 4),)),
    ("logsumexp", lambda x: x.logsumexp(1, keepdim=True), ((2, 4),)),
    ("norm", lambda x: x.norm(dim=-1), ((2, 3),)),
    ("norm of all", torch.norm, ((2, 3),)),
    ("vector norm, p=3", lambda x: torch.linalg.vector_norm(x, 3, 1, keepdim=True), ((2, 3),)),
    ("var", lambda x: x.var(-1), ((2, 4),)),
    ("std over all", lambda x: torch.std(x, correction=0), ((2, 3),)),
    ("prod", lambda x: x.prod(1), ((2, 3),)),
    ("normalize", lambda x: F.normalize(x, dim=-1), ((2, 4),)),
    ("normalize, p=1", lambda x: F.normalize(x, 1, -1), ((2, 4),)),
    ("normalize, p=3, two dimensions", lambda x: F.normalize(x, 3.0, (1, 2)), ((2, 3, 2),)),
    ("normalize, largest", lambda x: F.normalize(x, float("inf"), 0), ((4, 2),)),
    ("normalize, shorter than eps", lambda x: F.normalize(x, 1, -1, 100.0), ((2, 4),)),
    ("local_response_norm", lambda x: F.local_response_norm(x, 3, 2.0, 0.6, 0.9), ((2, 4, 2),)),
    ("matrix_exp", lambda x: torch.matrix_exp(0.3 * x), ((2, 2),)),
    ("inverse", lambda x: torch.inverse(x + 9 * torch.eye(3, dtype=x.dtype)), ((3, 3),)),
    ("cosine_similarity", lambda x, y: F.cosine_similarity(x, y, -1), ((2, 4), (2, 4))),
    ("pairwise_distance", lambda x, y: F.pairwise_distance(x, y), ((2, 4), (2, 4))),
    ("hypot", torch.hypot, ((2, 3), (2, 1))),
    ("lerp", torch.lerp, ((2, 3), (2, 3), (2, 3))),
    ("hypot of one thing twice", lambda x: torch.hypot(x, x), ((5,),)),
    ("maximum", torch.maximum, ((2, 3), (2, 3))),
    ("prelu", lambda x, w: F.prelu(x, w), ((2, 3), (3,))),
    ("amax", lambda x: x.amax((0, 2)), ((2, 3, 2),)),
    ("max over a dimension", lambda x: x.max(1).values, ((2, 3),)),
    ("sort", lambda x: x.sort(1, descending=True).values, ((2, 4),)),
    ("topk", lambda x: x.topk(2, -1).values, ((2, 4),)),
    ("scatter_reduce, amax", lambda x, y: x.scatter_reduce(1, _PLACES, y, "amax"), ((2, 3),) * 2),
    ("grid_sample at uncertain points", lambda p: F.grid_sample(
        torch.arange(9.0, dtype=p.dtype).square().reshape(1, 1, 3, 3), p, padding_mode="border",
        align_corners=False), ((1, 1, 2, 2),)),
]  # fmt: skip
