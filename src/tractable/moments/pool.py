"""Moments of pooling.

Average pooling is linear, so its moments are exact: a window of n entries with weights ``a = 1/n``
has the variance ``sum a^2 var``.  Maximum pooling selects the entry with the largest *mean* and its
variance: exact if one entry dominates, otherwise the uncertainty of the selection is ignored.
"""

from __future__ import annotations

import torch
from torch import Tensor


def adaptive_weights(size: int, windows: int, like: Tensor) -> Tensor:
    """Return ``1 / n`` for each window of adaptive average pooling along one dimension."""
    start = torch.arange(windows, device=like.device) * size // windows
    end = -((-(torch.arange(windows, device=like.device) + 1) * size) // windows)
    return 1 / (end - start).to(like.dtype)


def select(values: Tensor, indices: Tensor, dims: int) -> Tensor:
    """Return the entries of ``values`` that a maximum over its last ``dims`` dimensions chose."""
    flat = values.flatten(-dims)
    return flat.gather(-1, indices.flatten(-dims)).view(indices.shape)
