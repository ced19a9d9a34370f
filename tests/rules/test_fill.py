"""Functions that write values into a Gaussian: constants have no variance, Gaussians their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tractable import Gaussian
from tractable.testing.gaussians import assert_moments_agree, gaussian, generator

pytestmark = pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter:UserWarning")
"""The references below call torch's, which is deprecated with a tensor."""

MASK = torch.tensor([[True, False, True], [False, False, True]])
ROWS = torch.tensor([1])
PLACES = torch.tensor([[0, 2], [1, 1]])

VALUES: list[Any] = [
    5, 5.0, torch.tensor(5), torch.tensor(5.0), torch.tensor(5, dtype=torch.int32),
    torch.tensor(5.0, dtype=torch.float64),
]  # fmt: skip

WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "masked_fill": lambda x, v: x.masked_fill(MASK, v),
    "masked_fill, keywords": lambda x, v: torch.masked_fill(x, value=v, mask=MASK),
    "masked_fill_": lambda x, v: (x + 0).masked_fill_(MASK, v),
    "index_fill": lambda x, v: x.index_fill(1, ROWS, v),
    "index_fill, keywords": lambda x, v: x.index_fill(dim=1, index=ROWS, value=v),
    "index_fill_": lambda x, v: (x + 0).index_fill_(1, ROWS, v),
    "fill": lambda x, v: torch.fill(x, v),
    "fill_": lambda x, v: (x + 0).fill_(v),
    "assignment": lambda x, v: _assigned(x + 0, v),
}


def _assigned(x: Any, value: Any) -> Any:
    x[MASK] = value
    return x


@pytest.mark.parametrize("value", VALUES, ids=lambda v: repr(v).replace(" ", ""))
@pytest.mark.parametrize("name", WRITES)
def test_a_constant_has_no_variance(name: str, value: Any) -> None:
    write = WRITES[name]
    for seed in range(3):
        x = gaussian((2, 3), "moderate", generator("fill", seed)).float()
        z = write(x, value)
        plain = write(x.loc.clone(), value)
        torch.testing.assert_close(z.loc, plain, rtol=0, atol=0)
        written = write(torch.zeros(2, 3), 1.0) == 1
        assert not z.variance[written].any()
        assert torch.equal(z.variance[~written], x.variance[~written])


@pytest.mark.parametrize("value", [3, 2.5, torch.tensor([[2.0, -1.0], [0.5, 3.0]])], ids=str)
def test_scatter_of_constants(value: Any) -> None:
    """Without a reduction they replace, with one they shift or scale."""
    x = gaussian((2, 3), "moderate", generator("scatter")).float()
    for reduce in (None, "add", "multiply"):
        options = {} if reduce is None else {"reduce": reduce}
        z: Any = x.scatter(1, PLACES, value, **options)
        plain = x.loc.scatter(1, PLACES, value, **options)
        torch.testing.assert_close(z.loc, plain)
        ones = torch.ones(2, 3)
        factor = ones.scatter(1, PLACES, value, reduce="multiply")
        if reduce is None:
            factor = ones.scatter(1, PLACES, 0.0)
        if reduce == "add":
            factor = ones
        torch.testing.assert_close(z.variance, x.variance * factor.square())


@pytest.mark.parametrize("reduce", [None, "add", "multiply"])
def test_scatter_of_gaussians_has_the_moments_of_samples(reduce: str | None) -> None:
    options: dict[str, Any] = {} if reduce is None else {"reduce": reduce}
    places = torch.tensor([[0, 2], [1, 0]])  # no place twice: what is written last is not defined
    for seed in range(3):
        x, y = (gaussian((2, n), "tiny", generator("scatter", n, seed)) for n in (3, 2))
        z: Any = x.scatter(1, places, y, **options)

        def rows(x: Tensor, y: Tensor) -> Tensor:
            x, y = x.reshape(-1, 2, 3), y.reshape(-1, 2, 2)
            return x.scatter(2, places.expand(len(x), 2, 2), y, **options)

        assert_moments_agree(z, rows, x, y)


def test_scatter_passes_messages_to_both() -> None:
    x, y = (gaussian((2, n), "moderate", generator("messages", n)) for n in (3, 2))
    for options in ({}, {"reduce": "add"}, {"reduce": "multiply"}):
        leaves = [m.clone().requires_grad_() for m in (x.loc, x.variance, y.loc, y.variance)]
        z: Any = Gaussian.wrap(*leaves[:2]).scatter(
            1, PLACES, Gaussian.wrap(*leaves[2:]), **options
        )
        got = torch.autograd.grad([z.loc.sum(), z.variance.sum()], leaves)
        assert all(bool(torch.isfinite(g).all()) and bool(g.any()) for g in got)


def test_an_unknown_reduction_is_named() -> None:
    x: Any = gaussian((2, 3), "moderate", generator("unknown"))
    with pytest.raises(ValueError, match="reduce must be 'add' or 'multiply', got 'mean'"):
        x.scatter(1, PLACES, 1.0, reduce="mean")
