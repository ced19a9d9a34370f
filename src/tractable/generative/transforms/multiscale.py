"""Multi-scale flows: images are squeezed to more channels, and columns split off at each scale."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from typing_extensions import override

from tractable.generative.transforms.base import RowTransform, log_det_of


class SqueezeTransform(RowTransform):
    """A permutation of two by two pixels to four channels (Dinh and others, 2017).

    Args:
        channels: channels of the image.
        height: height of the image, even.
        width: width of the image, even.
    """

    def __init__(self, channels: int, height: int, width: int) -> None:
        super().__init__()
        if height % 2 or width % 2:
            raise ValueError(f"height and width must be even, got {height} and {width}")
        self.shape = (channels, height, width)

    @override
    def call_and_ladj(self, x: Tensor) -> tuple[Tensor, Tensor]:
        c, h, w = self.shape
        image = x.reshape(*x.shape[:-1], c, h // 2, 2, w // 2, 2)
        front = range(x.ndim - 1)
        n = x.ndim - 1
        moved = image.permute(*front, n, n + 2, n + 4, n + 1, n + 3)
        return moved.reshape(x.shape), torch.zeros_like(x[..., 0])

    def _inverse(self, y: Tensor) -> Tensor:
        c, h, w = self.shape
        image = y.reshape(*y.shape[:-1], c, 2, 2, h // 2, w // 2)
        front = range(y.ndim - 1)
        n = y.ndim - 1
        return image.permute(*front, n, n + 3, n + 1, n + 4, n + 2).reshape(y.shape)


class Squeeze(nn.Module):
    """``SqueezeTransform`` as a module.

    Args:
        channels: channels of the image.
        height: height of the image, even.
        width: width of the image, even.
    """

    def __init__(self, channels: int, height: int, width: int) -> None:
        super().__init__()
        self.shape = (channels, height, width)

    def forward(self, context: Tensor | None = None) -> SqueezeTransform:
        """Return the transform; the context is ignored."""
        return SqueezeTransform(*self.shape)


class _MultiScale(RowTransform):
    def __init__(self, scales: Sequence[RowTransform], kept: Sequence[int]) -> None:
        super().__init__()
        self.scales, self.kept = scales, kept

    def call_and_ladj(self, x: Tensor) -> tuple[Tensor, Tensor]:
        done, total = [], torch.zeros_like(x[..., 0])
        for transform, kept in zip(self.scales, self.kept, strict=True):
            x, log_det = log_det_of(transform, x)
            total = total + log_det
            x, leaves = x[..., :kept], x[..., kept:]
            done.append(leaves)
        return torch.cat([x, *reversed(done)], -1), total

    def _inverse(self, y: Tensor) -> Tensor:
        sizes = [y.shape[-1], *self.kept]
        x, rest = y[..., : sizes[-1]], y[..., sizes[-1] :]
        for k in range(len(self.kept) - 1, -1, -1):
            left = sizes[k] - sizes[k + 1]
            x = self.scales[k].inv(torch.cat([x, rest[..., :left]], -1))
            rest = rest[..., left:]
        return x


class MultiScale(nn.Module):
    """A composition of transforms, each on fewer columns; the other columns go to the base.

    Args:
        scales: modules that return transforms; the first one takes all columns, each other one the
            columns kept by the one before.
        kept: number of columns kept after each transform.
    """

    def __init__(self, scales: Sequence[nn.Module], kept: Sequence[int]) -> None:
        super().__init__()
        if len(scales) != len(kept) or not scales:
            raise ValueError(
                f"scales and kept must have the same length, at least 1: got {len(scales)} and "
                f"{len(kept)}"
            )
        if any(k < 1 for k in kept) or list(kept) != sorted(kept, reverse=True):
            raise ValueError(f"kept must be at least 1 and not increase, got {list(kept)}")
        self.scales, self.kept = nn.ModuleList(scales), list(kept)

    def forward(self, context: Tensor | None = None) -> _MultiScale:
        """Return the transform."""
        return _MultiScale([scale(context) for scale in self.scales], self.kept)
