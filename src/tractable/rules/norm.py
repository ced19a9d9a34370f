"""Rules of the normalisation layers; see ``tractable.moments.norm``.

Exact: with running statistics, a scaling by constants and a product with uncertain weights;
without variance, mean and message, which passes through the statistics of the batch or of the
features.
Approximate: the means make the statistics, of which the running ones are an average; a variance is
scaled, and what entries share through the statistics counts on average only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from tractable.gaussian import Gaussian, moment_rule
from tractable.moments import norm
from tractable.moments.maps import Scale
from tractable.rules import shared_variance
from tractable.rules.autograd import require_both
from tractable.rules.bilinear import product

Operand = Gaussian | Tensor

_wary: ContextVar[bool] = ContextVar("wary_statistics", default=False)
_ODD = 4.0
"""Times the running variance that a batch may have before it counts for less."""


@contextmanager
def robust_running_stats(wary: bool) -> Iterator[None]:
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


def _moments(x: Operand) -> norm.Moments:
    return (x.loc, x.variance) if isinstance(x, Gaussian) else (x, None)


def _operand(moments: norm.Moments, input: Operand) -> Operand:
    """The result of normalising ``input``, in its shape."""
    loc, variance = moments
    loc = loc.reshape(input.shape)
    if variance is None:
        return loc
    shared = input.shared if isinstance(input, Gaussian) else None
    return Gaussian.wrap(loc, variance.reshape(input.shape), shared)


def _affine(z: Any, weight: Any, bias: Any, shape: list[int] | None = None) -> Any:
    """``z * weight + bias``, both in the given shape."""
    if isinstance(z, Gaussian) and weight is not None:
        beside = [1] * (z.dim() - weight.dim()) + list(weight.shape)
        if shape is not None:
            beside = [len(weight) if size < 0 else size for size in shape]
        return product(Scale(tuple(beside)), z, weight, bias)
    if weight is not None:
        z = z * (weight if shape is None else weight.reshape(shape))
    return z if bias is None else z + (bias if shape is None else bias.reshape(shape))


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
    """Statistics over the batch when training (and into the running ones), else the running.

    One value per channel has no spread: it is normalised by the running statistics, which stay.
    """
    shape = [1, -1] + [1] * (input.dim() - 2)
    entries = input.numel() // input.shape[1]
    if not training or (entries == 1 and running_mean is not None and running_var is not None):
        if running_mean is None or running_var is None:
            raise ValueError("batch_norm without running statistics needs training=True")
        scale = torch.rsqrt(running_var + eps).reshape(shape)
        return _affine((input - running_mean.reshape(shape)) * scale, weight, bias, shape)
    z: Any
    if isinstance(input, Gaussian):
        z, centre, scale = _by_channels(input, weight, bias, eps)
    else:
        z, centre, scale = norm.standardized_channels(input, eps)
        z = _affine(z, weight, bias, shape)
    if running_mean is not None and running_var is not None:
        seen = norm.spread(scale.detach(), eps) * (entries / max(entries - 1, 1))
        _follow(running_mean, running_var, centre.detach(), seen, momentum, eps)
    return z


def _by_channels(
    input: Gaussian, weight: Operand | None, bias: Operand | None, eps: float
) -> tuple[Gaussian, Tensor, Tensor]:
    """Normalised by the statistics of the batch, times a weight, plus a bias; centre and scale."""
    w = _moments(input.loc.new_ones(input.shape[1]) if weight is None else weight)
    b = (None, None) if bias is None else _moments(bias)
    loc, variance, *made = BatchNormFunction.apply(*_moments(input), *w, *b, eps)
    shared = shared_variance.of_channels(input, made, w, b[1], variance)
    return Gaussian.wrap(loc, variance, shared), made[0], made[1]


class BatchNormFunction(torch.autograd.Function):
    """Channels normalised by the statistics of the batch, times w, plus b."""

    @staticmethod
    def forward(
        ctx: Any, mu: Tensor, var: Tensor, mu_w: Tensor, var_w: Tensor | None,
        mu_b: Tensor | None, var_b: Tensor | None, eps: float,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """Moments forward; centre, scale and factor of each channel."""
        mean, variance, squares, made = norm.channels((mu, var), (mu_w, var_w), (mu_b, var_b), eps)
        ctx.save_for_backward(mu, squares, mu_w, *made)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*made[:3])
        return mean, variance, *made[:3]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *messages: Tensor | None) -> Any:
        """Messages backward."""
        x, vx, w, vw, b, vb, _ = ctx.needs_input_grad
        d_mu, d_var = require_both(*messages[:2]) if w or vw else messages[:2]
        mu, squares, mu_w, *made = ctx.saved_tensors
        (dx, dw, db), (dvx, dvw, dvb) = norm.channel_messages(
            d_mu, d_var, mu, squares, mu_w, norm.Channels(*made), (x, w, b), (vx, vw, vb)
        )
        return dx, dvx, dw, dvw, db, dvb, None


def _follow(
    mean: Tensor, variance: Tensor, centre: Tensor, seen: Tensor, momentum: float, eps: float
) -> None:
    """Move running statistics towards those of a batch, in place."""
    with torch.no_grad():
        share: Any = momentum
        if _wary.get():
            odd = seen + (centre - mean) ** 2
            share = momentum * (_ODD * (variance + eps) / (odd + eps)).clamp(max=1)
        mean.lerp_(centre, share)
        variance.lerp_(seen, share)


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
    kept = input.dim() - len(normalized_shape)
    flat = input if len(normalized_shape) == 1 else input.flatten(kept)
    z = _operand(norm.standardized(*_moments(flat), eps), input)
    return _affine(z, weight, bias)


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
    grouped = input.reshape(input.shape[0], num_groups, -1)
    z = _operand(norm.standardized(*_moments(grouped), eps), input)
    return _affine(z, weight, bias, [1, -1] + [1] * (input.dim() - 2))


@moment_rule(F.instance_norm, torch.instance_norm)
def instance_norm(
    input: Operand,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Operand | None = None,
    bias: Operand | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Gaussian:
    """Statistics over the positions of each channel and sample, or running ones."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    flat = input.flatten(2)
    if running_mean is not None and running_var is not None:
        loc = _moments(flat)[0].detach()
        spread, centre = torch.var_mean(loc, -1)
        _follow(running_mean, running_var, centre.mean(0), spread.mean(0), momentum, eps)
    z = _operand(norm.standardized(*_moments(flat), eps), flat).reshape(input.shape)
    if isinstance(z, Gaussian):
        z.shared = None  # their mean is zero, whatever the weights
    return _affine(z, weight, bias, [1, -1] + [1] * (input.dim() - 2))


@moment_rule(F.rms_norm, torch.rms_norm)
def rms_norm(
    input: Operand,
    normalized_shape: Any,
    weight: Operand | None = None,
    eps: float | None = None,
) -> Gaussian:
    """Divided by the root of the mean square over the last dimensions of each sample."""
    loc, variance = _moments(input)
    small = torch.finfo(loc.dtype).eps if eps is None else eps
    dims = list(range(-len(normalized_shape), 0))
    return _affine(_operand(norm.scaled_to_unit(loc, variance, dims, small), input), weight, None)


@moment_rule(F.local_response_norm)
def local_response_norm(
    input: Gaussian, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Gaussian:
    """Divided by ``s^beta`` with ``s = k + alpha * mean of squares of the neighboring channels``.

    The Jacobian is ``s_i^-beta (delta_ij - c x_i x_j / s_i)`` with ``c = 2 alpha beta / size``.
    """
    x = input.loc.detach()
    s = k + alpha / size * _over_channels(x.square(), size)
    spread = x.square() * input.variance
    others = (_over_channels(spread, size) - spread).clamp_min(0)
    c = 2 * alpha * beta / size
    own = (1 - c * x.square() / s).square() * input.variance
    variance = s.pow(-2 * beta) * (own + (c * x / s).square() * others)
    return Gaussian.wrap(F.local_response_norm(input.loc, size, alpha, beta, k), variance)


def _over_channels(x: Tensor, size: int) -> Tensor:
    """Sums over ``size`` neighboring channels, as ``local_response_norm`` takes them."""
    rows = x.reshape(x.shape[0], 1, x.shape[1], -1)
    rows = F.pad(rows, (0, 0, size // 2, (size - 1) // 2))
    return F.avg_pool2d(rows, (size, 1), stride=1, divisor_override=1).reshape(x.shape)
