"""Variances of a softmax and of attention against dense Jacobians and sums written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tractable.moments import shared_variance, softmax


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("ours", "function"),
    [(softmax.softmax_variance, torch.softmax), (softmax.log_softmax_variance, torch.log_softmax)],
)
def test_variances_are_those_of_the_jacobian(ours, function, seed: int) -> None:
    mu, var = drawn(5, seed=seed), drawn(5, seed=seed + 10).square()
    jacobian = torch.autograd.functional.jacobian(lambda z: function(z, -1), mu)
    found = ours(torch.softmax(mu, -1), var, -1)
    torch.testing.assert_close(found, jacobian.square() @ var, rtol=1e-12, atol=0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("uncertain", ["scores", "values", "both"])
def test_attention_is_a_sum_over_keys(uncertain: str, seed: int) -> None:
    """Of scores by the Jacobian ``p_j (V_j - o)``; of values by ``E[p^2] = p^2 + var p``."""
    p = torch.softmax(drawn(3, 4, seed=seed), -1)
    value, out = drawn(4, 2, seed=seed + 1), p @ drawn(4, 2, seed=seed + 1)
    score = drawn(3, 4, seed=seed + 2).square() if uncertain != "values" else None
    spread = drawn(4, 2, seed=seed + 3).square() if uncertain != "scores" else None
    found = softmax.attention_variance(p, score, value, spread, out)
    for query in range(3):
        of_p = torch.zeros(4, dtype=torch.float64)
        expected = torch.zeros(2, dtype=torch.float64)
        if score is not None:
            slope = p[query, :, None] * (value - out[query])
            expected += (slope.square() * score[query, :, None]).sum(0)
            jacobian = torch.diag(p[query]) - torch.outer(p[query], p[query])
            of_p = jacobian.square() @ score[query]
        if spread is not None:
            expected += (p[query].square() + of_p) @ spread
        torch.testing.assert_close(found[query], expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("keys", [2, 4])
def test_scores_of_uncertain_queries_and_keys(keys: int) -> None:
    """With uncertain keys ``(q^2 + var q) var k`` is added, as for any product."""
    p = torch.softmax(drawn(3, keys, seed=0), -1)
    (q, vq), (k, vk) = ((drawn(n, 5, seed=n), drawn(n, 5, seed=n + 1).square()) for n in (3, keys))
    factor = 0.3
    alone = softmax.score_variance(p, (q, vq), (k, None), factor)
    both = softmax.score_variance(p, (q, vq), (k, vk), factor)
    expected = alone + factor**2 * (q.square() + vq) @ vk.mT
    torch.testing.assert_close(both, expected)
    only = softmax.score_variance(p, (q, None), (k, vk), factor)
    torch.testing.assert_close(only, factor**2 * q.square() @ vk.mT)


def test_the_mean_over_independent_positions() -> None:
    variance = torch.rand(2, 3, 2, 5, generator=torch.Generator().manual_seed(0))
    found = shared_variance.independent(variance, (2, 3))
    torch.testing.assert_close(found, variance.sum((2, 3), keepdim=True) / 10**2)
    one = variance[:, :, :1]  # a dimension of size one has nothing to average
    torch.testing.assert_close(
        shared_variance.independent(one, (2, 3)), one.sum((2, 3), keepdim=True) / 5**2
    )


def test_states_without_variance_have_nothing_to_share() -> None:
    zeros = torch.zeros(1, 2, 3, 3)
    share = shared_variance.pooled(zeros[:, :, :1, :1], zeros, (2, 3), 9).share
    assert bool(torch.isfinite(share).all())
