"""Rules of attention; see ``tractable.moments.softmax``.

Exact: the scores' moments, for independent queries and keys.
Approximate: the softmax is linearised at the mean scores; queries, keys and values that come from
one input are taken as independent.  Dropout of attention is left out: the weights are uncertain
already.
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
    attended_variance,
    attention_messages,
    attention_variance,
    score_moments,
)
from tractable.rules.bilinear import moments_of
from tractable.rules.mechanism import python_body

_MASKED = -1e30
"""Instead of minus infinity, which would make NaN of a row with nothing to attend to."""


def _mask(mask: Any, is_causal: bool, query: Any, key: Any) -> Any:
    if is_causal:
        shape = query.shape[-2], key.shape[-2]
        seen = torch.ones(shape, dtype=torch.bool, device=query.device).tril()
        return torch.zeros(shape, dtype=query.dtype, device=query.device).masked_fill(
            ~seen, _MASKED
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
    """``softmax(query key^T * scale + mask) value``, as one function."""
    if enable_gqa:
        heads = query.shape[-3]
        key = key.repeat_interleave(heads // key.shape[-3], -3)
        value = value.repeat_interleave(heads // value.shape[-3], -3)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    mask = _mask(attn_mask, is_causal, query, key)
    if isinstance(mask, Gaussian):
        return attend((query @ key.transpose(-2, -1)) * factor + mask, value)
    moments = (part for x in (query, key, value) for part in moments_of(x))
    return Gaussian.wrap(*Attention.apply(factor, mask, *moments))


class Attention(torch.autograd.Function):
    """Scores, their softmax and the product with the values, as one node of the graph."""

    @staticmethod
    def forward(
        ctx: Any, factor: float, mask: Tensor | None, q: Tensor, vq: Tensor | None, k: Tensor,
        vk: Tensor | None, v: Tensor, vv: Tensor | None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Moments forward."""
        scores, spread = score_moments(q, vq, k, vk, factor)
        p = torch.softmax(scores if mask is None else scores + mask, -1)
        out = p @ v
        ctx.factor = factor
        ctx.save_for_backward(q, k, v, p, out)
        ctx.set_materialize_grads(False)
        return out, attended_variance(p, spread, v, vv, out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_mu: Tensor | None, d_var: Tensor | None) -> Any:
        """Messages backward."""
        q, k, v, p, out = ctx.saved_tensors
        if d_mu is None or d_var is None:
            raise RuntimeError("attention received one of its two messages: send both")
        (d, dv), to_value = attention_messages(p, v, out, d_mu, d_var)
        d, dv = d.mul_(ctx.factor), dv.mul_(ctx.factor**2)
        found = (
            d @ k, dv @ (k * k), d.mT @ q, dv.mT @ (q * q), *to_value,
        )  # fmt: skip
        shapes = (q, q, k, k, v, v)
        wanted = zip(found, shapes, ctx.needs_input_grad[2:], strict=True)
        return (
            None,
            None,
            *(m.sum_to_size(like.shape) if need else None for m, like, need in wanted),
        )


def attend(scores: Any, value: Any) -> Gaussian:
    """``softmax(scores) value``."""
    (s, u), (v, spread) = moments_of(scores), moments_of(value)
    p = torch.softmax(s, -1)
    out = p @ v
    fixed, weights = (v.detach(), spread), p.detach()
    return Gaussian.wrap(out, attention_variance(weights, u, fixed, out.detach()))


_composite = python_body(F.multi_head_attention_forward)


@moment_rule(F.multi_head_attention_forward)
def multi_head_attention_forward(*args: Any, **kwargs: Any) -> Any:
    """The body of torch, which calls the rule above; weights, if wanted, are softmaxes."""
    wanted = kwargs.pop("need_weights", True)
    attended, _ = _composite(*args, **kwargs, need_weights=False)
    if not wanted:
        return attended, None
    return attended, _composite(*args, **kwargs, need_weights=True)[1]
