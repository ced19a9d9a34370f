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

from tractable.gaussian import Gaussian, moment_rule
from tractable.moments.softmax import attention_variance
from tractable.rules.bilinear import moments_of
from tractable.rules.mechanism import python_body

_MASKED = -1e30
"""Instead of minus infinity, which would make NaN of a row with nothing to attend to."""


def _mask(mask: Any, is_causal: bool, like: Tensor) -> Any:
    if is_causal:
        seen = torch.ones(like.shape[-2:], dtype=torch.bool, device=like.device).tril()
        return torch.zeros_like(seen, dtype=like.dtype).masked_fill(~seen, _MASKED)
    if isinstance(mask, Tensor) and mask.dtype == torch.bool:
        return torch.zeros_like(mask, dtype=like.dtype).masked_fill(~mask, _MASKED)
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
    scores = (query @ key.transpose(-2, -1)) * factor
    mask = _mask(attn_mask, is_causal, scores)
    if mask is not None:
        scores = scores + mask
    return attend(scores, value)


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
