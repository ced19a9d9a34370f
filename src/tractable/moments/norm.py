"""Normalisation by the statistics of the means.

With centre ``c`` and spread ``q`` the mean and variance of the means over a set of n entries (the
rows of a batch, the features of a row, ...) and ``s = 1 / sqrt(q + eps)``, the tangent of the
layer at the means is

    z_i = (mu_i - c) s                                 differentiated as it stands
    J   = s (I - 1 1'/n - z z'/n)                      a projection, times s
    v'  = v s^2 (1 - (1 + q s^2) / n)                  the diagonal of J diag(v) J', in the mean

so the message to the means is the gradient, through the statistics.  With statistics taken as
constants every layer would tell its inputs to grow or shift together, which does nothing.

Doubt (the mean d of the variances) above the spread: the tangent is no longer what the layer does
to most draws, whose own spread is near ``q + d``.  Then ``1 / sqrt(d + eps)`` takes the place of s
in ``v'`` and in the messages, so that what was normalised has a variance of at most one.

Exact: the mean and its message without variance; the variances on average, for small and equal
ones.  Approximate: the variance of an entry is its own, scaled, whatever the others have; and the
means alone make the statistics, because counting doubt into the spread shrinks the signal at
every layer.

>>> standardized(torch.tensor([[0.0, 2.0, 4.0]]), torch.tensor([[0.1, 0.1, 0.1]]), 0.0)[0]
tensor([[-1.2247,  0.0000,  1.2247]])
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

Moments = tuple[Tensor, Tensor | None]


def standardized(mu: Tensor, var: Tensor | None, eps: float) -> Moments:
    """Statistics over the last dimension."""
    n = mu.shape[-1]
    z, _, scale = torch.native_layer_norm(mu, [n], None, None, eps)
    if var is None:
        return z, None
    square = scale.detach().square()
    taken = (2 - eps * square) / n  # (1 + q s^2) / n
    return _tangent(z, var, square, taken, var.detach().mean(-1, keepdim=True) + eps)[:2]


class Channels(NamedTuple):
    """What was normalised channel by channel, and how; one number per channel from the third on.

    Attributes:
        loc: normalised means.
        variance: their variances, if there are any.
        centre: the mean of the means.
        spread: their variance.
        factor: what the variances were multiplied by.
    """

    loc: Tensor
    variance: Tensor | None
    centre: Tensor
    spread: Tensor
    factor: Tensor | None


def standardized_channels(mu: Tensor, var: Tensor | None, eps: float) -> Channels:
    """Statistics over all dimensions but the second."""
    z, centre, scale = torch.native_batch_norm(mu, None, None, None, None, True, 0.0, eps)
    square = scale.detach().square()
    spread = (1 / square - eps).clamp_min(0)
    if var is None:
        return Channels(z, None, centre.detach(), spread, None)
    shape = [-1] + [1] * (mu.ndim - 2)
    dims = [d for d in range(mu.ndim) if d != 1]
    taken = (2 - eps * square) * (mu.shape[1] / mu.numel())
    doubt = var.detach().mean(dims) + eps
    parts = (part.view(shape) for part in (square, taken, doubt))
    z, var, factor = _tangent(z, var, *parts)
    return Channels(z, var, centre.detach(), spread, factor)


def scaled_to_unit(mu: Tensor, var: Tensor | None, dims: list[int], eps: float) -> Moments:
    """Divided by the root of the mean square over ``dims``: without a centre, ``J`` loses one."""
    scale = torch.rsqrt((mu * mu).mean(dims, keepdim=True) + eps)
    z = mu * scale
    if var is None:
        return z, None
    square = scale.detach().square()
    taken = (1 - eps * square) / math.prod(mu.shape[d] for d in dims)
    return _tangent(z, var, square, taken, var.detach().mean(dims, keepdim=True) + eps)[:2]


def _tangent(
    z: Tensor, var: Tensor, square: Tensor, taken: Tensor, doubt: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Means whose messages, and variances that, are scaled as the module says; the factor.

    Args:
        z: normalised means.
        var: variances of what was normalised.
        square: ``s^2``.
        taken: share of the variance that the statistics take.
        doubt: ``d + eps``.
    """
    damped = (1 / (square * doubt)).clamp(max=1)  # (q + eps) / (d + eps), where doubt is larger
    part = damped.sqrt()
    z = torch.lerp(z.detach(), z, part)  # the same number, with a part of the message
    factor = square * damped * (1 - taken).clamp_min(0)
    return z, var * factor, factor
