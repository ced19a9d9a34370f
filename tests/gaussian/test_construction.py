"""Valid and invalid arguments of ``Gaussian``."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tractable import Gaussian


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 4)])
def test_shape_and_dtype(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    g = Gaussian(torch.zeros(shape, dtype=dtype), 0.25)
    assert isinstance(g, torch.Tensor)
    assert (g.shape, g.dtype, g.device) == (shape, dtype, torch.device("cpu"))
    assert (g.dim(), g.numel(), g.size()) == (len(shape), torch.Size(shape).numel(), shape)
    assert g.is_floating_point()
    assert torch.equal(g.stddev, torch.full(shape, 0.5, dtype=dtype))


def test_strides_are_those_of_the_means() -> None:
    g = Gaussian(torch.zeros(3, 2).T, 1.0)
    assert g.stride() == (1, 2)
    assert not g.is_contiguous()
    assert g.contiguous().is_contiguous()
    assert len(g) == 2


@pytest.mark.parametrize("variance", [0.5, 1, torch.tensor(0.5), torch.full((2, 1), 0.5)])
def test_a_variance_broadcasts(variance: Any) -> None:
    g = Gaussian(torch.zeros(2, 3), variance)
    assert g.variance.shape == (2, 3)
    assert bool((g.variance == variance).all())
    g.variance[0, 0] = 7  # its own memory, entry by entry
    assert g.variance[0, 1] != 7


def test_parameters_stay_leaves() -> None:
    loc, variance = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.ones(2))
    g = Gaussian(loc, variance)
    assert g.loc is loc
    assert g.variance is variance


@pytest.mark.parametrize(
    ("loc", "variance", "error", "message"),
    [
        (torch.zeros(2), -1e-9, ValueError, "variance has negative, NaN or infinite"),
        (torch.zeros(2), torch.tensor([1, float("nan")]), ValueError, "variance has negative"),
        (torch.zeros(2), float("inf"), ValueError, "variance has negative, NaN or infinite"),
        (torch.tensor([0, float("nan")]), 1.0, ValueError, "loc has NaN or infinite"),
        (torch.tensor([0, -float("inf")]), 1.0, ValueError, "loc has NaN or infinite"),
        (
            torch.zeros(2),
            torch.ones(3),
            ValueError,
            r"shape \(3,\), which does not broadcast to the shape \(2,\) of loc",
        ),
        (
            torch.zeros(3),
            torch.ones(2, 3),
            ValueError,
            r"shape \(2, 3\), which does not broadcast to the shape \(3,\) of loc",
        ),
        (torch.zeros(2, dtype=torch.int64), 1.0, TypeError, "float32 or float64, got torch.int64"),
        (torch.zeros(2, dtype=torch.bool), 1.0, TypeError, "float32 or float64, got torch.bool"),
        (torch.zeros(2, dtype=torch.complex64), 1.0, TypeError, "got torch.complex64"),
        ([0.0, 1.0], 1.0, TypeError, "must be a torch.Tensor, got list"),
        (1.0, 1.0, TypeError, "must be a torch.Tensor, got float"),
        (Gaussian(torch.zeros(2), 1.0), 1.0, TypeError, "must be a torch.Tensor, got Gaussian"),
        (torch.zeros(2), Gaussian(torch.zeros(2), 1.0), TypeError, "variance must be .* Gaussian"),
    ],
)
def test_invalid_moments_raise(
    loc: Any, variance: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Gaussian(loc, variance)


def test_repr_shows_both_moments() -> None:
    g = Gaussian(torch.tensor([1.0]), 0.5)
    text = "Gaussian(loc=tensor([1.]), variance=tensor([0.5000]))"
    assert repr(g) == str(g) == f"{g}" == text
