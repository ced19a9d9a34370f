"""Moments of normalization layers, whose statistics are those of the means.

With center ``c`` and variance ``q`` of the means over a set of n entries (the rows of a batch, the
features of a row, ...) and ``s = 1 / sqrt(q + eps)``, the tangent of the layer at the means is

    z_i = (mu_i - c) s                                 differentiated as it stands
    J   = s (I - 1 1'/n - z z'/n)                      a projection, times s
    v'  = v s^2 (1 - (1 + q s^2) / n)                  the mean diagonal of J diag(v) J'

so the message to the means is the gradient through the statistics.  If the statistics were
constants, each layer would tell its inputs to grow or shift together, which has no effect.

If the mean d of the variances exceeds q, the tangent does not describe what the layer does to most
samples, whose variance over the set is near ``q + d``.  Then ``1 / sqrt(d + eps)`` replaces s in
``v'`` and in the messages, so that a normalized state has a variance of at most one.

Exact: the mean and its message without variance; the average of the variances, for small and equal
ones.
Approximate: the variance of an entry is its own, scaled, whatever the others are; and the means
alone determine the statistics, because including the variances would shrink the signal at each
layer.

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
    """Return the moments normalized by the statistics over the last dimension."""
    n = mu.shape[-1]
    z, _, scale = torch.native_layer_norm(mu, [n], None, None, eps)
    if var is None:
        return z, None
    square = scale.detach().square()
    taken = (2 - eps * square) / n  # (1 + q s^2) / n
    return _tangent(z, var, square, taken, var.detach().mean(-1, keepdim=True) + eps)


class Channels(NamedTuple):
    """The normalization of a batch, one number for each channel.

    Attributes:
        center: mean of the means.
        scale: ``s``.
        factor: factor of the variances.
        part: part of a message that passes to the means.
    """

    center: Tensor
    scale: Tensor
    factor: Tensor
    part: Tensor


def standardized_channels(mu: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``mu`` normalized per channel (dimension 1), and each channel's mean and 1 / std."""
    found: tuple[Tensor, Tensor, Tensor] = torch.native_batch_norm(
        mu, None, None, None, None, True, 0.0, eps
    )
    return found


def spread(scale: Tensor, eps: float) -> Tensor:
    """Return ``q``, the variance of the means."""
    return (1 / scale.square() - eps).clamp_min(0)


def channels(
    x: tuple[Tensor, Tensor],
    w: tuple[Tensor, Tensor | None],
    b: tuple[Tensor | None, Tensor | None],
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Channels]:
    """Return mean and variance of ``z w + b``, ``z^2``, and the normalization.

    ``z`` is ``x`` normalized over all dimensions but the second.  The variance of ``z w + b`` is
    ``f v (w^2 + v_w) + z^2 v_w + v_b``, with the factor f of ``v'``.
    """
    (mu, var), (mu_w, var_w), (mu_b, var_b) = x, w, b
    z, center, scale = standardized_channels(mu, eps)
    square = scale.square()
    taken = (2 - eps * square) * (mu.shape[1] / mu.numel())
    mean_variance = var.mean([d for d in range(mu.ndim) if d != 1]) + eps
    factor, part = _factors(square, taken, mean_variance)
    mean = _affine(z, mu_w, mu_b)
    squares = z.mul_(z)
    through = mu_w * mu_w if var_w is None else (mu_w * mu_w).add_(var_w)
    variance = _affine(var, through.mul_(factor), var_b)
    if var_w is not None:
        variance.addcmul_(squares, var_w.view(-1, *[1] * (mu.ndim - 2)))
    return mean, variance, squares, Channels(center, scale, factor, part)


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
    """Return the messages to the means and to the variances of ``(x, w, b)``.

    Those to the means pass through the statistics.
    """
    to_means: BackwardParts = None, None, None
    to_variances: BackwardParts = None, None, None
    back = torch.ops.aten.native_batch_norm_backward
    if d_mu is not None:
        through, given = mu_w * made.part, (None, None, made.center, made.scale)
        to_means = back(d_mu, mu, through, *given, True, 0.0, list(needs_mu))
    if d_var is not None:
        through = (mu_w * mu_w).mul_(made.factor)
        constants = torch.zeros_like(mu_w), torch.ones_like(mu_w), None, None
        to_variances = back(d_var, squares, through, *constants, False, 0.0, list(needs_var))
    return to_means, to_variances


def _affine(x: Tensor, factor: Tensor, offset: Tensor | None) -> Tensor:
    """Return ``x factor + offset`` per channel, in one pass over memory."""
    zero, one = torch.zeros_like(factor), torch.ones_like(factor)
    z: Tensor = torch.native_batch_norm(x, factor, offset, zero, one, False, 0.0, 0.0)[0]
    return z


def scaled_to_unit(mu: Tensor, var: Tensor | None, dims: list[int], eps: float) -> Moments:
    """Return the moments divided by the root mean square over ``dims``.

    Without a center, ``J`` loses one direction only.
    """
    scale = torch.rsqrt((mu * mu).mean(dims, keepdim=True) + eps)
    z = mu * scale
    if var is None:
        return z, None
    square = scale.detach().square()
    taken = (1 - eps * square) / math.prod(mu.shape[d] for d in dims)
    return _tangent(z, var, square, taken, var.detach().mean(dims, keepdim=True) + eps)


def _factors(square: Tensor, taken: Tensor, mean_variance: Tensor) -> tuple[Tensor, Tensor]:
    """Return the factors of the variances and of the messages to the means, see the module.

    Args:
        square: ``s^2``.
        taken: share of the variance that the statistics remove.
        mean_variance: ``d + eps``.
    """
    damped = (1 / (square * mean_variance)).clamp(max=1)  # (q + eps) / (d + eps) if d is larger
    return square * damped * (1 - taken).clamp_min(0), damped.sqrt()


def _tangent(
    z: Tensor, var: Tensor, square: Tensor, taken: Tensor, mean_variance: Tensor
) -> tuple[Tensor, Tensor]:
    """Return normalized means with scaled messages, and scaled variances."""
    factor, part = _factors(square, taken, mean_variance)
    return torch.lerp(
        z.detach(), z, part
    ), var * factor  # the value of z, with a part of its gradient
