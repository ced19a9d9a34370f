"""Moment rules of attention; the formulas are in ``tractable.moments.softmax``.

Exact: the variance due to keys, values and the mask, in the limit of small variances.
Approximate: the softmax is linearized at the mean scores; the scores of one query are treated as
independent apart from their common part; queries, keys and values computed from one input are
treated as independent.  Dropout is ignored, because the weights are uncertain already.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from tractable.gaussian import Gaussian, moment_rule
from tractable.moments.softmax import (
    attention_messages,
    attention_variance,
    query_variance_message,
    score_variance,
)
from tractable.rules.bilinear import moments_of
from tractable.rules.fallback import python_body

_MASKED = -1e30
"""Used instead of minus infinity, which would give NaN in a row without any visible key."""


def _mask(mask: Any, is_causal: bool, query: Any, key: Any) -> Any:
    """Return the mask as an additive tensor or Gaussian, None without one."""
    if is_causal:
        shape = query.shape[-2], key.shape[-2]
        visible = torch.ones(shape, dtype=torch.bool, device=query.device).tril()
        return torch.zeros(shape, dtype=query.dtype, device=query.device).masked_fill(
            ~visible, _MASKED
        )
    if isinstance(mask, Tensor) and mask.dtype == torch.bool:
        return torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, _MASKED)
    if mask is not None and not isinstance(mask, Gaussian):
        return mask.clamp_min(_MASKED)
    return mask


@moment_rule(F.scaled_dot_product_attention)
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Gaussian:
    """Return ``softmax(query key^T * scale + mask) value``, as one node of the graph."""
    if enable_gqa:
        heads = query.shape[-3]
        key = key.repeat_interleave(heads // key.shape[-3], -3)
        value = value.repeat_interleave(heads // value.shape[-3], -3)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    mask = _mask(attn_mask, is_causal, query, key)
    moments = (part for x in (mask, query, key, value) for part in moments_of(x))
    return Gaussian.wrap(*AttentionFunction.apply(factor, *moments))


class AttentionFunction(torch.autograd.Function):
    """Scores, their softmax and the product with the values.

    Shapes: mask ``[..., queries, keys]``, q ``[..., queries, features]``, k and v
    ``[..., keys, features]``.
    """

    @staticmethod
    def forward(
        ctx: Any, factor: float, mask: Tensor | None, vm: Tensor | None, q: Tensor,
        vq: Tensor | None, k: Tensor, vk: Tensor | None, v: Tensor, vv: Tensor | None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Return mean and variance, ``[..., queries, features]``."""
        scores = q @ k.mT * factor
        p = torch.softmax(scores if mask is None else scores + mask, -1)
        out = p @ v
        spread = score_variance(p, (q, vq), (k, vk), factor)
        if vm is not None:
            spread = vm.expand(p.shape) if spread is None else spread + vm
        ctx.factor = factor
        ctx.mask = None if mask is None else mask.shape
        ctx.save_for_backward(q, k, v, p, out)
        ctx.set_materialize_grads(False)
        return out, attention_variance(p, spread, v, vv, out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_mu: Tensor | None, d_var: Tensor | None) -> Any:
        """Return the messages to the mask, the queries, the keys and the values."""
        q, k, v, p, out = ctx.saved_tensors
        if d_mu is None or d_var is None:
            raise RuntimeError("attention received a message to the mean or to the variance only")
        (to_mask, to_vm), (to_v, to_vv) = attention_messages(p, v, out, d_mu, d_var)
        _, mask, vm, qs, vq, ks, vk, vs, vv = ctx.needs_input_grad
        d, dv = to_mask * ctx.factor, to_vm * ctx.factor**2
        return (
            None,
            to_mask.sum_to_size(ctx.mask) if mask else None,
            to_vm.sum_to_size(ctx.mask) if vm else None,
            (d @ k).sum_to_size(q.shape) if qs else None,
            query_variance_message(p, k, dv).sum_to_size(q.shape) if vq else None,
            (d.mT @ q).sum_to_size(k.shape) if ks else None,
            (dv.mT @ (q * q)).sum_to_size(k.shape) if vk else None,
            to_v.sum_to_size(v.shape) if vs else None,
            to_vv.sum_to_size(v.shape) if vv else None,
        )


_composite = python_body(F.multi_head_attention_forward)


@moment_rule(F.multi_head_attention_forward)
def multi_head_attention_forward(*args: Any, **kwargs: Any) -> Any:
    """Run the Python body of torch, which calls the rule above; requested weights are softmaxes."""
    need_weights = kwargs.pop("need_weights", True)
    attended, _ = _composite(*args, **kwargs, need_weights=False)
    if not need_weights:
        return attended, None
    return attended, _composite(*args, **kwargs, need_weights=True)[1]
