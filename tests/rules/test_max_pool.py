"""Maximum pooling: the entry with the largest mean, exact when it dominates its window."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tractable import Gaussian
from tractable.testing.gaussians import assert_moments_agree, gaussian, generator, normal, uniform

POOLS: list[tuple[str, Any, tuple[int, ...]]] = [
    ("max_pool1d", lambda x: F.max_pool1d(x, 2), (1, 2, 4)),
    ("max_pool1d, padded", lambda x: F.max_pool1d(x, 3, 2, 1), (2, 5)),
    ("max_pool2d", nn.MaxPool2d(2), (1, 2, 4, 4)),
    ("max_pool2d, overlapping", lambda x: F.max_pool2d(x, 3, 2, 1), (1, 2, 4, 4)),
    ("max_pool2d, ceil, unbatched", lambda x: F.max_pool2d(x, 2, ceil_mode=True), (2, 3, 5)),
    ("max_pool2d, dilated", lambda x: F.max_pool2d(x, 2, 1, dilation=2), (1, 1, 4, 4)),
    ("max_pool3d", lambda x: F.max_pool3d(x, 2), (1, 1, 2, 4, 4)),
    ("adaptive_max_pool1d", lambda x: F.adaptive_max_pool1d(x, 2), (1, 2, 5)),
    ("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (1, 3)), (1, 2, 3, 5)),
    ("adaptive_max_pool3d", lambda x: F.adaptive_max_pool3d(x, 1), (1, 1, 2, 2, 3)),
]
each_pool = pytest.mark.parametrize(
    ("pool", "shape"), [p[1:] for p in POOLS], ids=[p[0].replace(" ", "-") for p in POOLS]
)


def separated(shape: tuple[int, ...]) -> Gaussian:
    """Return means a hundred standard deviations apart, in random order."""
    source = generator("max pool", shape)
    order = torch.randperm(torch.Size(shape).numel(), generator=source).to(torch.float64)
    return Gaussian(order.reshape(shape), uniform(shape, 0.2e-4, 1e-4, source))


@each_pool
def test_a_dominating_entry_is_exact(pool: Any, shape: tuple[int, ...]) -> None:
    x = separated(shape)
    z = pool(x)
    assert_moments_agree(z, lambda s: torch.vmap(pool)(s.reshape(-1, *shape)), x)
    torch.testing.assert_close(z.loc, pool(x.loc), rtol=0, atol=0)
    assert z.shape == z.variance.shape


@each_pool
def test_messages_go_to_the_entry_taken(pool: Any, shape: tuple[int, ...]) -> None:
    g = gaussian(shape, "moderate", generator("max pool", shape))
    loc, variance = g.loc.requires_grad_(), g.variance.requires_grad_()
    z = pool(Gaussian.wrap(loc, variance))
    source = generator("message to max pool", shape)
    d_mu, d_var = normal(z.loc, source), normal(z.loc, source)
    got = torch.autograd.grad([z.loc, z.variance], [loc, variance], [d_mu, d_var])

    def transpose(d: Tensor) -> Tensor:
        return torch.autograd.grad(pool(loc), loc, d)[0]

    torch.testing.assert_close(list(got), [transpose(d_mu), transpose(d_var)], rtol=0, atol=0)


def test_indices_are_those_of_the_means() -> None:
    x = separated((1, 1, 4, 4))
    for pool in (F.max_pool2d, F.adaptive_max_pool2d):
        z, indices = pool(x, 2, return_indices=True)
        assert torch.equal(indices, pool(x.loc, 2, return_indices=True)[1])
        assert isinstance(z, Gaussian)
        assert torch.equal(z.variance.flatten(), x.variance.flatten()[indices.flatten()])
        torch.testing.assert_close(z.loc, pool(x, 2).loc, rtol=0, atol=0)


def test_unpooling_puts_the_chosen_back() -> None:
    x = separated((1, 2, 4))
    z = F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2)
    kept = z.loc != 0
    assert int(kept.sum()) >= 3  # one of the means may be zero itself
    assert torch.equal(z.variance[kept], x.variance[kept])
    assert not z.variance[~kept & (x.loc != 0)].any()
