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


@pytest.mark.parametrize("dim", [0, 2, -1])
@pytest.mark.parametrize("power", [1, 2])
def test_lengths_of_slices(dim: int, power: int) -> None:
    x = drawn(2, 3, 4)

    def function(v):
        return torch.norm_except_dim(v, power, dim)

    found = function(x)
    torch.testing.assert_close(found.loc, function(x.loc))
    torch.testing.assert_close(found.variance, by_jacobian(function, x))


@pytest.mark.parametrize("keepdim", [False, True])
def test_lengths_of_a_whole_tensor_keep_as_many_dimensions(keepdim: bool) -> None:
    x = drawn(2, 3, 4)

    def function(v):
        return torch.linalg.vector_norm(v, keepdim=keepdim)

    found = function(x)
    torch.testing.assert_close(found.loc, function(x.loc))
    torch.testing.assert_close(found.variance, by_jacobian(function, x))


@pytest.mark.parametrize("function", [torch.amax, torch.amin])
def test_the_largest_entries_have_the_shape_of_torch(function) -> None:
    x = drawn(2, 3, 4)
    for dim in (1, (0, 2), ()):
        found = function(x, dim)
        assert torch.equal(found.loc, function(x.loc, dim))
        at = (x.loc.unsqueeze(-1) == found.loc.reshape(-1)).nonzero()
        assert found.variance.reshape(-1).tolist() == [
            float(x.variance[tuple(at[at[:, -1] == k][0, :-1])]) for k in range(found.loc.numel())
        ]


def test_sequences_of_several_lengths_are_filled_without_variance() -> None:
    x = drawn(3, 4, 2)
    lengths = torch.tensor([4, 2, 1])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
    found, sizes = torch.nn.utils.rnn.pad_packed_sequence(
        packed, batch_first=True, padding_value=-7.0, total_length=5
    )
    assert torch.equal(sizes, lengths)
    for row, length in enumerate(lengths.tolist()):
        assert torch.equal(found.loc[row, :length], x.loc[row, :length])
        assert torch.equal(found.variance[row, :length], x.variance[row, :length])
        assert bool((found.loc[row, length:] == -7).all())
        assert not found.variance[row, length:].any()


def test_states_whose_positions_are_in_other_dimensions() -> None:
    """Of the transposed one the entries along the first dimension have weights of their own."""
    tokens = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(7), dtype=D)
    x, y = (F.linear(tokens, drawn(5, 3, seed=seed)) for seed in (8, 9))
    found = variance_of_mean(x + y.transpose(1, 2), (1,))
    own = y.transpose(1, 2).variance.mean(1, keepdim=True) / 5
    torch.testing.assert_close(found, variance_of_mean(x, (1,)) + own)


def test_pointwise_functions_keep_the_shared_variance() -> None:
    """Nearly linear: the mean over positions has the variance of that of its input."""
    image = torch.randn(1, 2, 5, 5, generator=torch.Generator().manual_seed(4), dtype=D)
    x = F.conv2d(image, drawn(3, 2, 3, 3, seed=5))
    before = variance_of_mean(x, (2, 3))
    torch.testing.assert_close(
        variance_of_mean(torch.arctan(1e-3 * x), (2, 3)), 1e-6 * before, rtol=1e-3, atol=0
    )


@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_the_mean_over_positions_of_normalized_channels_has_no_unit(factor: float) -> None:
    image = torch.randn(4, 2, 5, 5, generator=torch.Generator().manual_seed(4), dtype=D)
    x = F.conv2d(image, drawn(3, 2, 3, 3, seed=5))
    found = [
        variance_of_mean(F.batch_norm(g, None, None, training=True, eps=1e-12), (2, 3))
        for g in (x, x * factor)
    ]
    torch.testing.assert_close(found[1], found[0], rtol=1e-6, atol=0)


def test_a_convolution_of_which_only_the_bias_is_uncertain() -> None:
    """It is the same at all positions."""
    bias, image = drawn(3, seed=5), drawn(1, 2, 5, 5).loc
    found = F.conv2d(image, drawn(3, 2, 3, 3, seed=6).loc, bias)
    torch.testing.assert_close(found.mean((2, 3)).variance[0], bias.variance)


@pytest.mark.parametrize("uncertain", [False, True], ids=["constant inputs", "uncertain inputs"])
def test_a_linear_layer_of_which_only_the_bias_is_uncertain(uncertain: bool) -> None:
    bias, x, weight = drawn(3, seed=5), drawn(1, 6, 5), drawn(3, 5, seed=6).loc
    found = F.linear(x if uncertain else x.loc, weight, bias)
    expected = bias.variance
    if uncertain:
        expected = expected + (x.variance[0].sum(0) @ weight.square().T) / 6**2
    torch.testing.assert_close(found.mean(1).variance[0], expected)


@pytest.mark.parametrize("which", ["mean", "variance"])
def test_a_missing_message_is_named(which: str) -> None:
    x, w = drawn(3, 4), drawn(2, 4, seed=1)
    w.loc.requires_grad_()
    w.variance.requires_grad_()
    z = F.linear(x, w)
    sent = z.variance if which == "mean" else z.loc
    with pytest.raises(RuntimeError, match=f"no {which} message"):
        sent.sum().backward()


@pytest.mark.parametrize("shapes", [((4,), (4,)), ((2, 3, 4), (5, 4)), ((3, 4), (2, 3, 4))])
def test_inner_products_are_over_the_last_dimension_of_both(shapes) -> None:
    x, w = drawn(*shapes[0]), drawn(*shapes[1], seed=1).loc
    found = torch.inner(x, w)
    torch.testing.assert_close(found.loc, torch.inner(x.loc, w))
    torch.testing.assert_close(found.variance, torch.inner(x.variance, w.square()))


def test_a_matrix_times_a_gaussian_from_the_left() -> None:
    x, w = drawn(3, 3), drawn(3, 3, seed=1).loc
    found = torch.Tensor.__rmatmul__(x, w)
    torch.testing.assert_close(found.loc, w @ x.loc)
    torch.testing.assert_close(found.variance, w.square() @ x.variance)


def test_the_largest_rows_of_bags_of_equal_size() -> None:
    table, bags = drawn(6, 3), torch.tensor([[0, 5, 2], [4, 4, 1]])
    found = F.embedding_bag(bags, table, mode="max")
    assert torch.equal(found.loc, F.embedding_bag(bags, table.loc, mode="max"))
    at = table.loc[bags].argmax(1, keepdim=True)
    assert torch.equal(found.variance, table.variance[bags].gather(1, at).squeeze(1))
