"""Moments of every rule against 200,000 samples, in every regime."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.rules import dense
from tests.rules.cases import BILINEAR, EXACT, LINEAR, LINEARISED, Case, Curve, label
from tests.rules.monte_carlo import assert_moments_agree
from tests.rules.regimes import REGIMES, gaussian, gaussians, generator
from tractable import Gaussian
from tractable.rules import activation_moments

pytestmark = pytest.mark.parametrize("regime", REGIMES)


@pytest.mark.parametrize("case", LINEAR, ids=label)
def test_linear(case: Case, regime: str) -> None:
    inputs = gaussians(case, regime)

    def function(*rows: Tensor) -> Tensor:
        arguments = [r.reshape(-1, *s) for r, s in zip(rows, case.shapes, strict=True)]
        return torch.vmap(case.function)(*arguments)

    assert_moments_agree(case.function(*inputs), function, *inputs)


@pytest.mark.parametrize("case", BILINEAR, ids=label)
def test_bilinear(case: Case, regime: str) -> None:
    """Sampled in the dense form, which ``test_dense`` holds equal to the torch function."""
    inputs = gaussians(case, regime)
    table, bias = dense.table(case), dense.bias(case)
    outputs, first, second = table.shape
    unrolled = table.permute(1, 0, 2).reshape(first, -1)

    def function(x: Tensor, w: Tensor, *b: Tensor) -> Tensor:
        z = torch.bmm((x @ unrolled).view(-1, outputs, second), w.unsqueeze(-1)).squeeze(-1)
        return z + b[0] @ bias.T if b else z

    assert_moments_agree(case.function(*inputs), function, *inputs)


@pytest.mark.parametrize("curve", EXACT, ids=label)
def test_exact_activation(curve: Curve, regime: str) -> None:
    z = gaussian((8,), regime, generator(curve.name, regime))
    if curve.name == "exp":  # the fourth moment of a wide log-normal is out of reach of sampling
        z = Gaussian(z.loc, z.variance * 0.1)
    with activation_moments("exact"):
        a = curve.function(z)
    assert isinstance(a, Gaussian)
    assert_moments_agree(a, curve.function, z)


@pytest.mark.parametrize("curve", LINEARISED, ids=label)
def test_linearised_activation(curve: Curve, regime: str) -> None:
    """Eq. (10): the moments are those of the tangent, whose slope comes from autograd here."""
    z = gaussian((8,), regime, generator(curve.name, regime))
    if curve.positive:
        z = Gaussian(z.loc.abs() + 0.5, z.variance)
    a = curve.function(z)
    assert isinstance(a, Gaussian)
    slope = torch.func.grad(lambda mu: curve.function(mu).sum())(z.loc)
    assert_moments_agree(a, lambda s: curve.function(z.loc) + slope * (s - z.loc), z)
