"""Arguments and shapes of torch functions that networks rarely use."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F

from tractable import Gaussian
from tractable.rules.shared_variance import variance_of_mean

D = torch.float64


def drawn(*shape: int, seed: int = 0) -> Gaussian:
    draw = torch.Generator().manual_seed(seed)
    loc = torch.randn(*shape, generator=draw, dtype=D)
    return Gaussian(loc, 0.1 + torch.rand(*shape, generator=draw, dtype=D))


def by_jacobian(function, *given: Gaussian) -> torch.Tensor:
    """Return the variance of a function of independent entries, by its dense Jacobian."""
    jacobians = torch.autograd.functional.jacobian(function, tuple(g.loc for g in given))
    value = function(*(g.loc for g in given))
    parts = [
        j.reshape(value.numel(), -1).square() @ g.variance.reshape(-1)
        for j, g in zip(jacobians, given, strict=True)
    ]
    return sum(parts[1:], parts[0]).reshape(value.shape)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (2, 3, 4, 2)], ids=len)
@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
def test_a_softmax_without_a_dimension_takes_that_of_torch(function, shape) -> None:
    x = drawn(*shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of the implicit dimension
        found = function(x)
        torch.testing.assert_close(found.loc, function(x.loc))
        torch.testing.assert_close(found.variance, by_jacobian(function, x))


@pytest.mark.parametrize("equation", ["ij,j->i", "ij,ij->", "ij,ij->j"])
@pytest.mark.parametrize("first", [True, False])
def test_an_index_of_size_one_in_either_operand(equation: str, first: bool) -> None:
    """It stands for as many copies, which are not independent."""
    given = [drawn(2, 4, seed=1), drawn(2, 1, seed=2)]
    if equation == "ij,j->i":
        given = [drawn(2, 4, seed=1), drawn(1, seed=2)]
        if first:
            given = [drawn(2, 1, seed=1), drawn(4, seed=2)]
    elif first:
        given.reverse()
    found = torch.einsum(equation, *given)
    torch.testing.assert_close(found.loc, torch.einsum(equation, *(g.loc for g in given)))
    draw = torch.Generator().manual_seed(3)
    n = 40_000
    x, w = (
        g.loc + g.variance.sqrt() * torch.randn(n, *g.shape, generator=draw, dtype=D) for g in given
    )
    inputs, output = equation.split("->")
    a, b = inputs.split(",")
    samples = torch.einsum(f"n{a},n{b}->n{output}", x, w)
    torch.testing.assert_close(found.variance, samples.var(0), rtol=0.05, atol=0)


@pytest.mark.parametrize("indexing", ["ij", "xy"])
@pytest.mark.parametrize("sizes", [(3,), (3, 2), (3, 2, 4)], ids=len)
def test_a_grid_of_gaussians(indexing: str, sizes: tuple[int, ...]) -> None:
    given = [drawn(size, seed=k) for k, size in enumerate(sizes)]
    found = torch.meshgrid(*given, indexing=indexing)
    locs = torch.meshgrid(*(g.loc for g in given), indexing=indexing)
    variances = torch.meshgrid(*(g.variance for g in given), indexing=indexing)
    for grid, loc, variance in zip(found, locs, variances, strict=True):
        assert torch.equal(grid.loc, loc)
        assert torch.equal(grid.variance, variance)


@pytest.mark.parametrize("function", [F.dropout, F.alpha_dropout, F.feature_alpha_dropout])
def test_dropout_in_training_keeps_both_moments(function) -> None:
    x = drawn(3, 4)
    found = function(x, 0.3, True)
    assert torch.equal(found.loc, x.loc)
    assert torch.equal(found.variance, x.variance)


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_queries_that_share_keys(heads: int) -> None:
    query, key, value = drawn(1, 4, 3, 5), drawn(1, heads, 6, 5, seed=1), drawn(1, heads, 6, 2)
    found = F.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    repeated = (
        Gaussian(*(m.repeat_interleave(4 // heads, 1) for m in (g.loc, g.variance)))
        for g in (key, value)
    )
    expected = F.scaled_dot_product_attention(query, *repeated)
    torch.testing.assert_close(found.loc, expected.loc)
    torch.testing.assert_close(found.variance, expected.variance)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)], ids=len)
@pytest.mark.parametrize("keepdim", [False, True])
def test_distances_of_pairs_along_the_last_dimension(shape, keepdim: bool) -> None:
    pair = drawn(*shape), drawn(*shape, seed=1)

    def function(a, b):
        return F.pairwise_distance(a, b, keepdim=keepdim)

    found = function(*pair)
    torch.testing.assert_close(found.loc, function(*(g.loc for g in pair)))
    torch.testing.assert_close(found.variance, by_jacobian(function, *pair))


def test_running_variances_of_two_entries_have_the_correction_of_torch() -> None:
    x = drawn(2, 3)
    moments = [torch.zeros(3, dtype=D), torch.ones(3, dtype=D)]
    others = [m.clone() for m in moments]
    constant = Gaussian(x.loc, torch.zeros_like(x.loc))
    F.batch_norm(constant, *moments, training=True)
    F.batch_norm(x.loc, *others, training=True)
    for ours, torchs in zip(moments, others, strict=True):
        torch.testing.assert_close(ours, torchs)


@pytest.mark.parametrize("alpha", [-2.0, 0.5, 3.0])
@pytest.mark.parametrize("kernel", [1, 3])
def test_the_mean_over_positions_of_a_multiple_added(alpha: float, kernel: int) -> None:
    """The same weights at every position: of a sum with independent weights, variances add."""
    image = torch.randn(1, 2, 5, 5, generator=torch.Generator().manual_seed(4), dtype=D)
    x, y = (
        F.conv2d(image, drawn(3, 2, kernel, kernel, seed=seed), padding=kernel // 2)
        for seed in (5, 6)
    )
    found = torch.add(x, y, alpha=alpha)
    parts = [variance_of_mean(g, (2, 3)) for g in (x, y)]
    expected = parts[0] + alpha**2 * parts[1]
    torch.testing.assert_close(variance_of_mean(found, (2, 3)), expected)
    pooled = F.adaptive_avg_pool2d(found, 1)
    torch.testing.assert_close(pooled.variance, expected.reshape(pooled.shape))
