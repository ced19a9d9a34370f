"""Pooling windows.

Average pooling is linear, so its moments are exact: a window of n entries with weights ``a = 1/n``
has variance ``sum a^2 var``.  Maximum pooling takes the entry whose *mean* is largest, with its
variance: exact when one entry dominates, otherwise the variance of the competition is dropped.
"""

from __future__ import annotations

import torch
from torch import Tensor


def adaptive_weights(size: int, windows: int, like: Tensor) -> Tensor:
    """``1 / n`` for each window of adaptive average pooling along one dimension."""
    start = torch.arange(windows, device=like.device) * size // windows
    end = -((-(torch.arange(windows, device=like.device) + 1) * size) // windows)
    return 1 / (end - start).to(like.dtype)


def select(values: Tensor, indices: Tensor, dims: int) -> Tensor:
    """The entries of ``values`` that a maximum over its last ``dims`` dimensions chose."""
    flat = values.flatten(-dims)
    return flat.gather(-1, indices.flatten(-dims)).view(indices.shape)
