"""Variances of a softmax along one dimension, and of attention, by their Jacobians.

With ``p = softmax(mu)`` the Jacobian is ``dp_k / dz_j = p_k (delta_kj - p_j)``, so that

    var p_k     = p_k^2 (v_k (1 - p_k)^2 + sum over j != k of p_j^2 v_j)
    var log p_k =        v_k (1 - p_k)^2 + sum over j != k of p_j^2 v_j

which is linear in the variances: ordinary gradients through these, with ``p`` as a constant, are
the messages ``J^2 d_var``.

Exact: the squares of the Jacobian at the means, for independent inputs.
Approximate: the curvature within the width of the inputs (eq. 10).  In attention the scores of one
query are treated as independent after their common part is removed (``score_variance``): the part
of the variance due to the queries is exact for two keys, and correct on average over independent
keys and values.
"""

from __future__ import annotations

import torch
from torch import Tensor


def log_softmax_variance(p: Tensor, var: Tensor, dim: int) -> Tensor:
    """Return the variances of ``log p``, with ``p`` as a constant."""
    part = p * p * var
    # Rounding may make a sum without its largest term negative.
    others = (part.sum(dim, keepdim=True) - part).clamp_min(0)
    return var * (1 - p).square() + others


def softmax_variance(p: Tensor, var: Tensor, dim: int) -> Tensor:
    """Return the variances of ``p``, with ``p`` as a constant."""
    return p * p * log_softmax_variance(p, var, dim)


def score_variance(
    p: Tensor,
    query: tuple[Tensor, Tensor | None],
    key: tuple[Tensor, Tensor | None],
    factor: float,
) -> Tensor | None:
    """Return the variances of the scores ``factor q k^T`` (eqs. 11 and 14), without their common
    part.

    The scores of one query share the query: with ``m = sum_j p_j k_j`` the part ``factor q m`` is
    common to all of them and cancels in the softmax.  Therefore the variance of the query is
    multiplied by ``(k_j - m)^2 / w_j`` in place of ``k_j^2``, where
    ``w_j = 1 - 2 p_j + sum over l of p_l^2`` is what centering leaves of the square of a key that
    is independent of the others.

    Args:
        p: probabilities, ``[..., queries, keys]``.
        query: mean and variance of the queries, ``[..., queries, features]``, or None.
        key: mean and variance of the keys, ``[..., keys, features]``, or None.
        factor: factor of the scores.
    """
    (q, vq), (k, vk) = query, key
    if vq is None:
        return None if vk is None else ((q * q) @ vk.mT).mul_(factor * factor)
    powers, m = _centered(p, k)
    shared = torch.cat([vq, -2 * vq * m], -1) @ powers.mT
    shared.add_((vq * m * m).sum(-1, keepdim=True)).clamp_min_(0)  # negative by rounding only
    spread = shared.div_(_left_by_centering(p))
    if vk is not None:
        spread.add_((q * q).add_(vq) @ vk.mT)
    return spread.mul_(factor * factor)


def _centered(p: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Return squares and values of the keys about the first one, and their mean by ``p``.

    About the first key because this saves digits; about their average, later keys would influence
    earlier queries by rounding.
    """
    shifted = k - k[..., :1, :]
    return torch.cat([shifted * shifted, shifted], -1), p @ shifted


def _left_by_centering(p: Tensor) -> Tensor:
    """Return ``w`` of ``score_variance``; zero if one key has all of ``p``."""
    whole = torch.linalg.vector_norm(p, dim=-1, keepdim=True).square_().add_(1)
    return torch.sub(whole, p, alpha=2).clamp_min_(torch.finfo(p.dtype).eps)


def query_variance_message(p: Tensor, k: Tensor, d_var: Tensor) -> Tensor:
    """Return the messages to the variances of the queries, without the factor of the scores.

    Args:
        p: probabilities.
        k: means of the keys.
        d_var: messages to the variances of the scores.
    """
    powers, m = _centered(p, k)
    d = d_var / _left_by_centering(p)
    squares, values = (d @ powers).chunk(2, -1)
    return squares - 2 * m * values + m * m * d.sum(-1, keepdim=True)


def attention_variance(
    p: Tensor, score: Tensor | None, value: Tensor, spread: Tensor | None, out: Tensor
) -> Tensor:
    """Return the variance of ``out = p V``, where ``p`` is the softmax of scores.

    The Jacobian of an output in a score is ``p_j (V_jd - o_d)``, so a part of ``V`` that all keys
    share has no effect; in a value it is ``p_j``.

    Args:
        p: probabilities, ``[..., queries, keys]``.
        score: variances of the scores, or None.
        value: means of ``V``, ``[..., keys, features]``.
        spread: variances of ``V``, or None.
        out: ``p V``.
    """
    square = p * p
    if score is None:
        return torch.zeros_like(out) if spread is None else square @ spread
    a = square * score
    whole = a.sum(-1, keepdim=True)
    # sum over j of a_j (V_jd - o_d)^2, without a table of queries by keys by features.
    first, second = (a @ torch.cat([value * value, value], -1)).chunk(2, -1)
    total = torch.addcmul(first, out, second, value=-2).addcmul_(out * out, whole).clamp_min_(0)
    if spread is None:
        return total
    # p^2 (1 + v (1 - p)^2 + what the others give): of the values alone, and of both.
    both = (score * (1 - p).square_()).add_((whole - a).clamp_min_(0)).add_(1).mul_(square)
    return total.add_(both @ spread)


def attention_messages(
    p: Tensor, value: Tensor, out: Tensor, d_mu: Tensor, d_var: Tensor
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return the messages to the scores and to the values, by the Jacobians above and their
    squares.

    Args:
        p: probabilities.
        value: means of the values.
        out: ``p V``.
        d_mu: message to the mean of ``out``.
        d_var: message to its variance.
    """
    square, weighted = p * p, d_var * out
    # sum over d of d_var (V_jd - o_d)^2, without a table of queries by keys by features.
    left, right = torch.cat([d_var, -2 * weighted], -1), torch.cat([value * value, value], -1)
    centered = (left @ right.mT).add_((weighted * out).sum(-1, keepdim=True))
    to_mean = (d_mu @ value.mT).sub_((d_mu * out).sum(-1, keepdim=True)).mul_(p)
    return (to_mean, centered.mul_(square)), (p.mT @ d_mu, square.mT @ d_var)
