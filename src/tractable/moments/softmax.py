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
