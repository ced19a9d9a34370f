"""Sums, means and extremes of what nodes hear from their neighbours.

Exact: sums of independent values.  Approximate: values of neighbours that come out of the same
weights are correlated, which is not counted; the largest is that of the means.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tractable.gaussian import Gaussian
from tractable.graphs.view import View

KINDS = ("symmetric", "mean", "sum", "max")


def aggregated(x: Any, view: View, kind: str, *, loop: bool) -> Any:
    """What the neighbours of each node say, ``[nodes, features]``.

    Args:
        x: values of the nodes, a tensor or a Gaussian.
        view: who hears whom.
        kind: one of ``KINDS``.
        loop: whether a node hears itself.
    """
    passed = view.messages(len(x))
    said = x.index_select(0, passed.sources)
    if kind == "max":
        return _largest(x, said, passed.targets, passed.rows, loop)
    weights = view.weights(len(x), kind, loop=loop, dtype=x.dtype)
    said = said if kind == "sum" else said * weights.messages.unsqueeze(1)
    heard = summed(said, passed.targets, passed.rows)
    if weights.own is None:
        return heard
    own = x[: passed.rows]
    return heard + (own if kind == "sum" else own * weights.own.unsqueeze(1))


def summed(said: Any, targets: Tensor, rows: int) -> Any:
    """The sum of the messages to each node."""
    return said.new_zeros((rows, *said.shape[1:])).index_add(0, targets, said)


def _largest(x: Any, said: Any, targets: Tensor, rows: int, loop: bool) -> Any:
    """The largest message to each node (E 13.21); 0 where there is none."""
    if loop:
        said = torch.cat([said, x[:rows]])
        targets = torch.cat([targets, torch.arange(rows, device=targets.device)])
    at = targets.unsqueeze(1).expand(-1, said.shape[1])
    heard = said.new_zeros((rows, said.shape[1]))
    return heard.scatter_reduce(0, at, said, "amax", include_self=False)


def shares(scores: Any, targets: Tensor, rows: int) -> Any:
    """The softmax of the scores of the messages to each node (the Softmask of E 13.24).

    With shares p of one node's messages and variances v of their scores,

        var_i = p_i^2 ((1 - 2 p_i) v_i + sum_j p_j^2 v_j),

    linearised at the means; it is its own transpose, so autograd's gradient in the variance is
    the message.

    Args:
        scores: score of each message, ``[messages, heads]``.
        targets: node that each goes to.
        rows: number of nodes.
    """
    mean = scores.loc if isinstance(scores, Gaussian) else scores
    p = _softmax(mean, targets, rows)
    if not isinstance(scores, Gaussian):
        return p
    v, square = scores.variance, p.detach().square()
    total = summed(square * v, targets, rows).index_select(0, targets)
    return Gaussian.wrap(p, square * ((1 - 2 * p.detach()) * v + total).clamp_min(0))


def _softmax(scores: Tensor, targets: Tensor, rows: int) -> Tensor:
    at = targets.unsqueeze(1).expand_as(scores)
    top = scores.detach().new_full((rows, scores.shape[1]), -torch.inf)
    top = top.scatter_reduce(0, at, scores.detach(), "amax")
    weight = (scores - top.index_select(0, targets)).exp()
    return weight / summed(weight, targets, rows).index_select(0, targets)
