"""Normalisation by the statistics of the means.

With centre ``c`` and spread ``q`` the mean and variance of the means over a set of n entries (the
rows of a batch, the features of a row, ...) and ``s = 1 / sqrt(q + eps)``, the tangent of the
layer at the means is

    z_i = (mu_i - c) s                                 differentiated as it stands
    J   = s (I - 1 1'/n - z z'/n)                      a projection, times s
    v'  = v s^2 (1 - (1 + q s^2) / n)                  the diagonal of J diag(v) J', in the mean

so the message to the means is the gradient, through the statistics.  Without them (constants),
every layer would tell its inputs to grow or shift together, which does nothing.

Exact: the mean and its message without variance; the variances on average, for small and equal
ones.  Approximate: the variance of an entry is its own, scaled, whatever the others have; and the
means alone make the statistics, because counting doubt into the spread shrinks the signal at
every layer.  Doubt above the spread is cut to it: what is normalised has a mean square of one.

>>> standardized(torch.tensor([[0.0, 2.0, 4.0]]), torch.tensor([[0.1, 0.1, 0.1]]), 0.0)[0]
tensor([[-1.2247,  0.0000,  1.2247]])
"""

from __future__ import annotations

import torch
from torch import Tensor

Moments = tuple[Tensor, Tensor | None]


def standardized(mu: Tensor, var: Tensor | None, eps: float) -> Moments:
    """Statistics over the last dimension."""
    n = mu.shape[-1]
    z, _, scale = torch.native_layer_norm(mu, [n], None, None, eps)
    if var is None:
        return z, None
    scale = scale.detach()
    removed = 2 - eps * scale * scale  # 1 + q s^2
    return z, var * _factor(scale, var.detach().mean(-1, keepdim=True), removed / n, eps)


def standardized_channels(
    mu: Tensor, var: Tensor | None, eps: float
) -> tuple[Moments, Tensor, Tensor]:
    """Statistics over all dimensions but the second; with them, one number per channel each."""
    z, centre, scale = torch.native_batch_norm(mu, None, None, None, None, True, 0.0, eps)
    centre, scale = centre.detach(), scale.detach()
    spread = (1 / (scale * scale) - eps).clamp_min(0)
    if var is None:
        return (z, None), centre, spread
    dims = [d for d in range(mu.ndim) if d != 1]
    removed = (2 - eps * scale * scale) * (mu.shape[1] / mu.numel())
    factor = _factor(scale, var.detach().mean(dims), removed, eps)
    return (z, var * factor.view(-1, *[1] * (mu.ndim - 2))), centre, spread


def scaled_to_unit(mu: Tensor, var: Tensor | None, dims: list[int], eps: float) -> Moments:
    """Divided by the root of the mean square over ``dims``: without a centre, ``J`` loses one."""
    n = 1
    for d in dims:
        n *= mu.shape[d]
    scale = torch.rsqrt((mu * mu).mean(dims, keepdim=True) + eps)
    z = mu * scale
    if var is None:
        return z, None
    scale = scale.detach()
    removed = (1 - eps * scale * scale) / n
    return z, var * _factor(scale, var.detach().mean(dims, keepdim=True), removed, eps)


def _factor(scale: Tensor, doubt: Tensor, removed: Tensor, eps: float) -> Tensor:
    """``s^2``, with doubt above the spread cut to it, less the share that the statistics take."""
    square = torch.minimum(scale * scale, 1 / (doubt + eps))
    return square * (1 - removed).clamp_min(0)
