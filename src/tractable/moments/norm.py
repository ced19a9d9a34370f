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

from tractable.moments.bilinear import BackwardParts, Needs

Moments = tuple[Tensor, Tensor | None]


def standardized(mu: Tensor, var: Tensor | None, eps: float) -> Moments:
    """Statistics over the last dimension."""
    n = mu.shape[-1]
    z, _, scale = torch.native_layer_norm(mu, [n], None, None, eps)
    if var is None:
        return z, None
    square = scale.detach().square()
    taken = (2 - eps * square) / n  # (1 + q s^2) / n
    return _tangent(z, var, square, taken, var.detach().mean(-1, keepdim=True) + eps)


class Channels(NamedTuple):
    """How a batch was normalised channel by channel: one number for each of them.

    Attributes:
        centre: the mean of the means.
        scale: ``s``.
        factor: what the variances are multiplied by.
        part: the part of a message that passes to the means.
    """

    centre: Tensor
    scale: Tensor
    factor: Tensor
    part: Tensor


def standardized_channels(mu: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Means normalised over all dimensions but the second, their centre and scale."""
    found: tuple[Tensor, Tensor, Tensor] = torch.native_batch_norm(
        mu, None, None, None, None, True, 0.0, eps
    )
    return found


def spread(scale: Tensor, eps: float) -> Tensor:
    """``q``, the variance of the means."""
    return (1 / scale.square() - eps).clamp_min(0)


def channels(
    x: tuple[Tensor, Tensor],
    w: tuple[Tensor, Tensor | None],
    b: tuple[Tensor | None, Tensor | None],
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Channels]:
    """Moments of ``z w + b`` with z normalised over all dimensions but the second; ``z^2``.

    ``z w + b`` has the variance ``f v (w^2 + v_w) + z^2 v_w + v_b``, with the factor f of ``v'``.
    """
    (mu, var), (mu_w, var_w), (mu_b, var_b) = x, w, b
    z, centre, scale = standardized_channels(mu, eps)
    square = scale.square()
    taken = (2 - eps * square) * (mu.shape[1] / mu.numel())
    doubt = var.mean([d for d in range(mu.ndim) if d != 1]) + eps
    factor, part = _factors(square, taken, doubt)
    mean = _affine(z, mu_w, mu_b)
    squares = z.mul_(z)
    through = mu_w * mu_w if var_w is None else (mu_w * mu_w).add_(var_w)
    variance = _affine(var, through.mul_(factor), var_b)
    if var_w is not None:
        variance.addcmul_(squares, var_w.view(-1, *[1] * (mu.ndim - 2)))
    return mean, variance, squares, Channels(centre, scale, factor, part)


def channel_messages(
    d_mu: Tensor | None,
    d_var: Tensor | None,
    mu: Tensor,
    squares: Tensor,
    mu_w: Tensor,
    made: Channels,
    needs_mu: Needs,
    needs_var: Needs,
) -> tuple[BackwardParts, BackwardParts]:
    """Messages to ``(x, w, b)`` for the means, through the statistics, and for the variances."""
    to_means: BackwardParts = None, None, None
    to_variances: BackwardParts = None, None, None
    back = torch.ops.aten.native_batch_norm_backward
    if d_mu is not None:
        through, given = mu_w * made.part, (None, None, made.centre, made.scale)
        to_means = back(d_mu, mu, through, *given, True, 0.0, list(needs_mu))
    if d_var is not None:
        through = (mu_w * mu_w).mul_(made.factor)
        constants = torch.zeros_like(mu_w), torch.ones_like(mu_w), None, None
        to_variances = back(d_var, squares, through, *constants, False, 0.0, list(needs_var))
    return to_means, to_variances


def _affine(x: Tensor, factor: Tensor, offset: Tensor | None) -> Tensor:
    """``x factor + offset``, both the same in a channel: normalising by constants is one pass."""
    zero, one = torch.zeros_like(factor), torch.ones_like(factor)
    z: Tensor = torch.native_batch_norm(x, factor, offset, zero, one, False, 0.0, 0.0)[0]
    return z


def scaled_to_unit(mu: Tensor, var: Tensor | None, dims: list[int], eps: float) -> Moments:
    """Divided by the root of the mean square over ``dims``: without a centre, ``J`` loses one."""
    scale = torch.rsqrt((mu * mu).mean(dims, keepdim=True) + eps)
    z = mu * scale
    if var is None:
        return z, None
    square = scale.detach().square()
    taken = (1 - eps * square) / math.prod(mu.shape[d] for d in dims)
    return _tangent(z, var, square, taken, var.detach().mean(dims, keepdim=True) + eps)


def _factors(square: Tensor, taken: Tensor, doubt: Tensor) -> tuple[Tensor, Tensor]:
    """What variances, and what messages to the means, are multiplied by, as the module says.

    Args:
        square: ``s^2``.
        taken: share of the variance that the statistics take.
        doubt: ``d + eps``.
    """
    damped = (1 / (square * doubt)).clamp(max=1)  # (q + eps) / (d + eps), where doubt is larger
    return square * damped * (1 - taken).clamp_min(0), damped.sqrt()


def _tangent(
    z: Tensor, var: Tensor, square: Tensor, taken: Tensor, doubt: Tensor
) -> tuple[Tensor, Tensor]:
    """Normalised means whose messages, and variances that, are scaled."""
    factor, part = _factors(square, taken, doubt)
    return torch.lerp(z.detach(), z, part), var * factor  # the same z, with a part of the message
