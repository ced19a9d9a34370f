"""Bilinear maps skip unneeded terms, and treat constants without moments."""

from __future__ import annotations

import itertools

import pytest
import torch

from tractable.moments import bilinear
from tractable.moments.bilinear import BilinearMap, Needs
from tractable.moments.maps import Convolution, LinearMap, MatMul, Multiply

MAPS: list[tuple[BilinearMap, tuple[int, ...], tuple[int, ...]]] = [
    (LinearMap(), (3, 4), (2, 4)),
    (Convolution((1,), (0,), (1,), 1), (2, 2, 4), (2, 2, 3)),
    (MatMul(), (3, 4), (4, 2)),
    (Multiply(), (3, 2), (3, 2)),
]
each_map = pytest.mark.parametrize(("map", "x", "w"), MAPS)


@each_map
@pytest.mark.parametrize("needs", list(itertools.product([True, False], repeat=3)))
def test_only_needed_messages_are_computed(
    map: BilinearMap, x: tuple[int, ...], w: tuple[int, ...], needs: Needs
) -> None:
    a, b = torch.ones(x), torch.ones(w)
    d = torch.ones_like(map.apply(a, b, None))
    pulled = map.pull(d, a, b, needs)
    assert tuple(p is not None for p in pulled) == needs
    if needs[0]:
        assert pulled[0] is not None
        assert pulled[0].shape == a.shape
    if needs[1]:
        assert pulled[1] is not None
        assert pulled[1].shape == b.shape


@each_map
def test_no_variance_needed_no_variance_pulled(
    map: BilinearMap, x: tuple[int, ...], w: tuple[int, ...]
) -> None:
    a, b = torch.ones(x), torch.ones(w)
    d = torch.ones_like(map.apply(a, b, None))
    means, spreads = bilinear.messages(map, d, d, a, b, (True, True, True), (False, False, False))
    assert all(m is not None for m in means)
    assert spreads == (None, None, None)


def test_two_constants_raise() -> None:
    a = torch.ones(2, 2)
    with pytest.raises(TypeError, match="x and w are both constants"):
        bilinear.forward(MatMul(), (a, None), (a, None), (None, None))
