"""Variances of a softmax along one dimension, and of attention, by their Jacobians.

With ``p = softmax(mu)`` the Jacobian is ``dp_k / dz_j = p_k (delta_kj - p_j)``, so that

    var p_k     = p_k^2 (v_k (1 - p_k)^2 + sum over j != k of p_j^2 v_j)
    var log p_k =        v_k (1 - p_k)^2 + sum over j != k of p_j^2 v_j

which is linear in the variances: ordinary gradients through these, with ``p`` as a constant, are
the messages ``J^2 d_var``.

Exact: the squares of the Jacobian at the means.
Approximate: the curvature over the width of the inputs (eq. 10).
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


def attention_variance(
    p: Tensor, score: Tensor | None, value: tuple[Tensor, Tensor | None], out: Tensor
) -> Tensor:
    """Variance of ``out = p V`` where ``p`` is the softmax of scores, rows summing to one.

    Args:
        p: probabilities, queries by keys.
        score: variances of the scores, or None.
        value: mean and variance of ``V``, keys by features; the variance may be None.
        out: ``p V``.

    The Jacobian of an output in a score is ``p_j (V_jd - o_d)``, so a part of ``V`` that all
    keys share does not count; in a value it is ``p_j``.
    """
    mean, spread = value
    total = torch.zeros_like(out)
    if spread is not None:
        total = p.square() @ spread
    if score is not None:
        a = p.square() * score
        # sum over j of a_j (V_jd - o_d)^2, without a table of queries by keys by features.
        centred = a @ mean.square() - 2 * out * (a @ mean) + out.square() * a.sum(-1, keepdim=True)
        total = total + centred.clamp_min(0)
        if spread is not None:
            total = total + (softmax_variance(p, score, -1) @ spread).detach()
    return total


def score_moments(
    q: Tensor, vq: Tensor | None, k: Tensor, vk: Tensor | None, factor: float
) -> tuple[Tensor, Tensor | None]:
    """Mean and variance of ``factor q k^T`` (eqs. 11 and 14), in one product each."""
    mean = q @ k.mT * factor
    if vq is None and vk is None:
        return mean, None
    if vq is None:
        assert vk is not None
        spread = (q * q) @ vk.mT
    elif vk is None:
        spread = vq @ (k * k).mT
    else:
        left, right = torch.cat([q * q, vq], -1), torch.cat([vk, (k * k).add_(vk)], -1)
        spread = left @ right.mT
    return mean, spread.mul_(factor * factor)


def attended_variance(
    p: Tensor, score: Tensor | None, value: Tensor, spread: Tensor | None, out: Tensor
) -> Tensor:
    """As ``attention_variance``, without a graph and in fewer products."""
    square = p * p
    if score is None:
        return torch.zeros_like(out) if spread is None else square @ spread
    a = square * score
    whole = a.sum(-1, keepdim=True)
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
