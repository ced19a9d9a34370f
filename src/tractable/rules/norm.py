"""Rules of the normalisation layers; see ``tractable.moments.norm``.

Exact: with running statistics, a scaling by constants and a product with uncertain weights.
Approximate: statistics of the batch or of the features count as known numbers, so the uncertainty
that they share with what they normalise is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tractable.gaussian import Gaussian, moment_rule
from tractable.moments.norm import statistics

Operand = Gaussian | Tensor

_wary: ContextVar[bool] = ContextVar("wary_statistics", default=False)
_ODD = 4.0
"""Times the running variance that a batch may have before it counts for less."""


@contextmanager
def wary_statistics(wary: bool) -> Iterator[None]:
    """Within this block, if ``wary``, an odd batch moves the running statistics but little.

    The share of a batch in the statistics of a channel is ``momentum`` times
    ``min(1, 4 v / (v_batch + (m_batch - m)^2))``: one wild input does not spoil them, and a true
    change of scale is still followed, by a factor of 1.4 a batch.
    """
    token = _wary.set(wary)
    try:
        yield
    finally:
        _wary.reset(token)


def _normalize(
    x: Operand, centre: Tensor, variance: Tensor, eps: float, weight: Any, bias: Any
) -> Any:
    scale = torch.rsqrt(variance.detach() + eps)
    z: Any = (x - centre.detach()) * scale
    if weight is not None:
        z = z * weight
    return z if bias is None else z + bias


def _statistics(x: Operand, dims: list[int]) -> tuple[Tensor, Tensor]:
    if isinstance(x, Gaussian):
        return statistics(x.loc.detach(), x.variance.detach(), dims)
    return statistics(x, None, dims)


@moment_rule(F.batch_norm, torch.batch_norm)
def batch_norm(
    input: Operand,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Operand | None = None,
    bias: Operand | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Gaussian:
    """Statistics over the batch when training (and into the running ones), else the running."""
    shape = [1, -1] + [1] * (input.dim() - 2)
    if training:
        dims = [d for d in range(input.dim()) if d != 1]
        centre, variance = _statistics(input, dims)
        if running_mean is not None and running_var is not None:
            entries = input.numel() // input.shape[1]
            with torch.no_grad():
                mean = centre.flatten()
                seen = variance.flatten() * (entries / max(entries - 1, 1))
                share: Any = momentum
                if _wary.get():
                    odd = seen + (mean - running_mean) ** 2
                    share = momentum * (_ODD * running_var / odd).clamp(max=1)
                running_mean.lerp_(mean, share)
                running_var.lerp_(seen, share)
    else:
        if running_mean is None or running_var is None:
            raise ValueError("batch_norm without running statistics needs training=True")
        centre, variance = running_mean.reshape(shape), running_var.reshape(shape)
    weight = None if weight is None else weight.reshape(shape)
    bias = None if bias is None else bias.reshape(shape)
    return _normalize(input, centre, variance, eps, weight, bias)


@moment_rule(F.layer_norm, torch.layer_norm)
def layer_norm(
    input: Operand,
    normalized_shape: Any,
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Gaussian:
    """Statistics over the last dimensions of each sample."""
    centre, variance = _statistics(input, list(range(-len(normalized_shape), 0)))
    return _normalize(input, centre, variance, eps, weight, bias)


@moment_rule(F.group_norm, torch.group_norm)
def group_norm(
    input: Operand,
    num_groups: int,
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Gaussian:
    """Statistics over groups of channels of each sample."""
    grouped: Any = input.reshape(input.shape[0], num_groups, -1)
    z = _normalize(grouped, *_statistics(grouped, [-1]), eps, None, None).reshape(input.shape)
    shape = [1, -1] + [1] * (input.dim() - 2)
    if weight is not None:
        z = z * weight.reshape(shape)
    return z if bias is None else z + bias.reshape(shape)
