"""Variances of a softmax along one dimension, and of attention, by their Jacobians.

With ``p = softmax(mu)`` the Jacobian is ``dp_k / dz_j = p_k (delta_kj - p_j)``, so that

    var p_k     = p_k^2 (v_k (1 - p_k)^2 + sum over j != k of p_j^2 v_j)
    var log p_k =        v_k (1 - p_k)^2 + sum over j != k of p_j^2 v_j

which is linear in the variances: ordinary gradients through these, with ``p`` as a constant, are
the messages ``J^2 d_var``.

Exact: the squares of the Jacobian at the means, for independent inputs.
Approximate: the curvature over the width of the inputs (eq. 10).  In attention the scores of one
query count as independent, once what they share is taken out (``score_variance``): the part of the
variance that comes from the queries is exact for two keys, and right on average over keys and
values that are independent of each other.
"""

from __future__ import annotations

import torch
from torch import Tensor


def log_softmax_variance(p: Tensor, var: Tensor, dim: int) -> Tensor:
    """Variances of ``log p``; ``p`` counts as a constant."""
    part = p * p * var
    # By rounding a sum without its own largest term may fall below zero.
    others = (part.sum(dim, keepdim=True) - part).clamp_min(0)
    return var * (1 - p).square() + others


def softmax_variance(p: Tensor, var: Tensor, dim: int) -> Tensor:
    """Variances of ``p``, which counts as a constant."""
    return p * p * log_softmax_variance(p, var, dim)


def score_variance(
    p: Tensor,
    query: tuple[Tensor, Tensor | None],
    key: tuple[Tensor, Tensor | None],
    factor: float,
) -> Tensor | None:
    """Variances of the scores ``factor q k^T`` (eqs. 11 and 14), as far as a softmax sees them.

    The scores of one query share it: with ``m = sum_j p_j k_j`` the part ``factor q m`` is common
    to all of them and cancels in the softmax.  So the variance of the query counts with
    ``(k_j - m)^2 / w_j`` in place of ``k_j^2``, where ``w_j = 1 - 2 p_j + sum over l of p_l^2`` is
    what centering leaves of the square of a key that is independent of the others.

    Args:
        p: probabilities, queries by keys.
        query: mean and variance of the queries; the variance may be None.
        key: mean and variance of the keys; the variance may be None.
        factor: factor of the scores.
    """
    (q, vq), (k, vk) = query, key
    if vq is None:
        return None if vk is None else ((q * q) @ vk.mT).mul_(factor * factor)
    powers, m = _centered(p, k)
    shared = torch.cat([vq, -2 * vq * m], -1) @ powers.mT
    shared.add_((vq * m * m).sum(-1, keepdim=True)).clamp_min_(0)  # below zero by rounding only
    spread = shared.div_(_left_by_centering(p))
    if vk is not None:
        spread.add_((q * q).add_(vq) @ vk.mT)
    return spread.mul_(factor * factor)


def _centered(p: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Squares and values of the keys about the first one, and for every query their mean by ``p``.

    About the first one because this saves digits, and not about their average, which would let
    later keys reach earlier queries, if only by rounding.
    """
    near = k - k[..., :1, :]
    return torch.cat([near * near, near], -1), p @ near


def _left_by_centering(p: Tensor) -> Tensor:
    """``w`` of ``score_variance``; zero where one key has all of ``p``, and nothing is left."""
    whole = torch.linalg.vector_norm(p, dim=-1, keepdim=True).square_().add_(1)
    return torch.sub(whole, p, alpha=2).clamp_min_(torch.finfo(p.dtype).eps)


def query_variance_message(p: Tensor, k: Tensor, d_var: Tensor) -> Tensor:
    """Messages to the variances of the queries, from those of the scores (without the factor)."""
    powers, m = _centered(p, k)
    d = d_var / _left_by_centering(p)
    squares, values = (d @ powers).chunk(2, -1)
    return squares - 2 * m * values + m * m * d.sum(-1, keepdim=True)


def attention_variance(
    p: Tensor, score: Tensor | None, value: Tensor, spread: Tensor | None, out: Tensor
) -> Tensor:
    """Variance of ``out = p V`` where ``p`` is the softmax of scores, rows summing to one.

    The Jacobian of an output in a score is ``p_j (V_jd - o_d)``, so a part of ``V`` that all
    keys share does not count; in a value it is ``p_j``.

    Args:
        p: probabilities, queries by keys.
        score: variances of the scores, or None.
        value: mean of ``V``, keys by features.
        spread: variance of ``V``, or None.
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
    """Messages to the scores and to the values, by the Jacobians above and their squares.

    Args:
        p: probabilities.
        value: mean of the values.
        out: ``p V``.
        d_mu: message to the mean of ``out``.
        d_var: message to its variance.
    """
    square, weighed = p * p, d_var * out
    # sum over d of d_var (V_jd - o_d)^2, without a table of queries by keys by features.
    left, right = torch.cat([d_var, -2 * weighed], -1), torch.cat([value * value, value], -1)
    centred = (left @ right.mT).add_((weighed * out).sum(-1, keepdim=True))
    to_mean = (d_mu @ value.mT).sub_((d_mu * out).sum(-1, keepdim=True)).mul_(p)
    return (to_mean, centred.mul_(square)), (p.mT @ d_mu, square.mT @ d_var)
