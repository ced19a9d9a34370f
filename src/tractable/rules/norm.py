"""Moment rules of normalization layers; the formulas are in ``tractable.moments.norm``.

Exact: with running statistics, a scaling by constants and a product with uncertain weights; without
variance, the mean and its message, which passes through the statistics.
Approximate: the statistics, of which the running ones are averages, are those of the means; a
variance is scaled, and the dependence of entries through the statistics counts on average only.
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
from tractable.rules import shared_variance_products
from tractable.rules.autograd import require_both
from tractable.rules.bilinear import product

Operand = Gaussian | Tensor

_robust: ContextVar[bool] = ContextVar("robust_running_stats", default=False)
_MAX_VARIANCE_RATIO = 4.0
"""Multiple of the running variance above which a batch is down-weighted: two deviations."""


@contextmanager
def robust_running_stats(robust: bool) -> Iterator[None]:
    """Within this block an outlying batch changes the running statistics only a little.

    The share of a batch in the statistics of a channel is ``momentum`` times
    ``min(1, 4 v / (v_batch + (m_batch - m)^2))``, so that one outlier does not spoil them, and a
    change of scale is still followed, by a factor of 1.4 per batch.

    Args:
        robust: whether this applies inside the block.
    """
    token = _robust.set(robust)
    try:
        yield
    finally:
        _robust.reset(token)


def _moments(x: Operand) -> norm.Moments:
    return (x.loc, x.variance) if isinstance(x, Gaussian) else (x, None)


def _operand(moments: norm.Moments, input: Operand) -> Operand:
    """Return the result of normalizing ``input``, in its shape."""
    loc, variance = moments
    loc = loc.reshape(input.shape)
    if variance is None:
        return loc
    assert isinstance(input, Gaussian)
    return input.with_moments(loc, variance.reshape(input.shape))


def _affine(z: Any, weight: Any, bias: Any, shape: list[int] | None = None) -> Any:
    """Return ``z * weight + bias``, both reshaped to ``shape``."""
    if isinstance(z, Gaussian) and weight is not None:
        reshaped = [1] * (z.dim() - weight.dim()) + list(weight.shape)
        if shape is not None:
            reshaped = [len(weight) if size < 0 else size for size in shape]
        return product(Scale(tuple(reshaped)), z, weight, bias)
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
    """Normalize by the statistics of the batch if training (and update the running ones), else by
    those.

    A single value per channel has no variance: it is normalized by the running statistics, which
    are not updated.
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
        z, center, scale = _by_channels(input, weight, bias, eps)
    else:
        z, center, scale = norm.standardized_channels(input, eps)
        z = _affine(z, weight, bias, shape)
    if running_mean is not None and running_var is not None:
        batch_variance = norm.spread(scale.detach(), eps) * (entries / max(entries - 1, 1))
        _update_running_stats(
            running_mean, running_var, center.detach(), batch_variance, momentum, eps
        )
    return z


def _by_channels(
    input: Gaussian, weight: Operand | None, bias: Operand | None, eps: float
) -> tuple[Gaussian, Tensor, Tensor]:
    """Return the batch normalization, and the center and scale of each channel."""
    w = _moments(input.loc.new_ones(input.shape[1]) if weight is None else weight)
    b = (None, None) if bias is None else _moments(bias)
    loc, variance, *made = BatchNormFunction.apply(*_moments(input), *w, *b, eps)
    shared = shared_variance_products.of_channels(input, made, w, b[1], variance)
    return Gaussian.wrap(loc, variance, shared), made[0], made[1]


class BatchNormFunction(torch.autograd.Function):
    """Channels normalized by the statistics of the batch, times w, plus b."""

    @staticmethod
    def forward(
        ctx: Any, mu: Tensor, var: Tensor, mu_w: Tensor, var_w: Tensor | None,
        mu_b: Tensor | None, var_b: Tensor | None, eps: float,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """Return mean, variance, and the center, scale and variance factor of each channel."""
        mean, variance, squares, made = norm.channels((mu, var), (mu_w, var_w), (mu_b, var_b), eps)
        ctx.save_for_backward(mu, squares, mu_w, *made)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*made[:3])
        return mean, variance, *made[:3]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *messages: Tensor | None) -> Any:
        """Return the messages to the input, w and b."""
        x, vx, w, vw, b, vb, _ = ctx.needs_input_grad
        d_mu, d_var = require_both(*messages[:2]) if w or vw else messages[:2]
        mu, squares, mu_w, *made = ctx.saved_tensors
        (dx, dw, db), (dvx, dvw, dvb) = norm.channel_messages(
            d_mu, d_var, mu, squares, mu_w, norm.Channels(*made), (x, w, b), (vx, vw, vb)
        )
        return dx, dvx, dw, dvw, db, dvb, None


def _update_running_stats(
    mean: Tensor,
    variance: Tensor,
    center: Tensor,
    batch_variance: Tensor,
    momentum: float,
    eps: float,
) -> None:
    """Move the running statistics towards those of a batch, in place."""
    with torch.no_grad():
        share: Any = momentum
        if _robust.get():
            deviation = batch_variance + (center - mean) ** 2
            share = momentum * (_MAX_VARIANCE_RATIO * (variance + eps) / (deviation + eps)).clamp(
                max=1
            )
        mean.lerp_(center, share)
        variance.lerp_(batch_variance, share)


@moment_rule(F.layer_norm, torch.layer_norm)
def layer_norm(
    input: Operand,
    normalized_shape: Any,
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Gaussian:
    """Normalize by the statistics over the last dimensions of each sample."""
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
    """Normalize by the statistics over groups of channels of each sample."""
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
    """Normalize by statistics over the positions of each channel and sample, or by running ones."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    flat = input.flatten(2)
    if running_mean is not None and running_var is not None:
        loc = _moments(flat)[0].detach()
        spread, center = torch.var_mean(loc, -1)
        _update_running_stats(
            running_mean, running_var, center.mean(0), spread.mean(0), momentum, eps
        )
    z = _operand(norm.standardized(*_moments(flat), eps), flat).reshape(input.shape)
    if isinstance(z, Gaussian):
        z.shared = None  # the mean over positions is zero for any weights
    return _affine(z, weight, bias, [1, -1] + [1] * (input.dim() - 2))


@moment_rule(F.rms_norm, torch.rms_norm)
def rms_norm(
    input: Operand,
    normalized_shape: Any,
    weight: Operand | None = None,
    eps: float | None = None,
) -> Gaussian:
    """Divide by the root mean square over the last dimensions of each sample."""
    loc, variance = _moments(input)
    small = torch.finfo(loc.dtype).eps if eps is None else eps
    dims = list(range(-len(normalized_shape), 0))
    return _affine(_operand(norm.scaled_to_unit(loc, variance, dims, small), input), weight, None)


@moment_rule(F.local_response_norm)
def local_response_norm(
    input: Gaussian, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Gaussian:
    """Divide by ``s^beta`` with ``s = k + alpha * mean square of the neighboring channels``.

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
    """Return sums over ``size`` neighboring channels, as ``local_response_norm`` takes them."""
    rows = x.reshape(x.shape[0], 1, x.shape[1], -1)
    rows = F.pad(rows, (0, 0, size // 2, (size - 1) // 2))
    return F.avg_pool2d(rows, (size, 1), stride=1, divisor_override=1).reshape(x.shape)
