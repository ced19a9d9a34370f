"""Targets in the shape of what was predicted."""

from __future__ import annotations

import torch
from torch import Tensor


def like(y: Tensor, reference: Tensor) -> Tensor:
    """``y`` in the shape of ``reference``: a column of one output may be given flat."""
    y = torch.as_tensor(y, dtype=reference.dtype, device=reference.device)
    if y.shape == reference.shape:
        return y
    if y.numel() == reference.numel() and y.shape[:1] == reference.shape[:1]:
        return y.reshape(reference.shape)
    raise ValueError(
        f"targets of shape {tuple(y.shape)} do not fit predictions of shape "
        f"{tuple(reference.shape)}"
    )
