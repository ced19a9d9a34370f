"""Exact rules are exact at every scale: results scale exactly with powers of two."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.rules.cases import BILINEAR, LINEAR
from tractable.gaussian import Gaussian


def scaled(g: Gaussian, factor: float, dtype: torch.dtype, *, mean: bool) -> Gaussian:
    loc, variance = g.loc.to(dtype), g.variance.to(dtype)
    return Gaussian(loc * factor if mean else loc, variance * factor * factor)


def run(function: Any, inputs: list[Gaussian]) -> Gaussian:
    found: Any = function(*inputs)
    assert isinstance(found, Gaussian)
    return found


@pytest.mark.parametrize("power", [-45, 45])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("case", LINEAR, ids=lambda case: case.name)
def test_variances_of_linear_rules(case: Any, dtype: torch.dtype, power: int) -> None:
    """The variance does not depend on the means, and scales with that of the inputs."""
    inputs = case.inputs("moderate")
    plain = run(case.function, [scaled(g, 1.0, dtype, mean=False) for g in inputs])
    other = run(case.function, [scaled(g, 2.0**power, dtype, mean=False) for g in inputs])
    assert torch.equal(other.loc, plain.loc)
    assert torch.equal(other.variance, plain.variance * 4.0**power)


@pytest.mark.parametrize("power", [-25, 25])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("case", BILINEAR, ids=lambda case: case.name)
def test_moments_of_products(case: Any, dtype: torch.dtype, power: int) -> None:
    """The first factor and the bias are scaled, and mean and deviation with them."""
    inputs, factor = case.inputs("moderate"), 2.0**power
    plain = run(case.function, [scaled(g, 1.0, dtype, mean=True) for g in inputs])
    factors = [factor if k != 1 else 1.0 for k in range(len(inputs))]
    other = run(
        case.function,
        [scaled(g, f, dtype, mean=True) for g, f in zip(inputs, factors, strict=True)],
    )
    assert torch.equal(other.loc, plain.loc * factor)
    assert torch.equal(other.variance, plain.variance * factor * factor)
