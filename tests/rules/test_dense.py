"""Moments in closed form from the dense truth, to float precision."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.rules import dense
from tests.rules.cases import BILINEAR, LINEAR, Case, label
from tractable import Gaussian
from tractable.testing.gaussians import REGIMES


def close(a: Tensor, b: Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(a, b, rtol=1e-12, atol=atol)


@pytest.mark.parametrize("case", BILINEAR, ids=label)
def test_table_is_the_function(case: Case) -> None:
    x, w, *b = (g.loc for g in case.inputs("moderate"))
    z = torch.einsum("kij,i,j->k", dense.table(case), x.reshape(-1), w.reshape(-1))
    if b:
        z = z + dense.bias(case) @ b[0].reshape(-1)
    close(z, case.function(x, w, *b).reshape(-1))


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("case", LINEAR, ids=label)
def test_linear(case: Case, regime: str) -> None:
    """``A mu`` and ``A^2 var``."""
    inputs = case.inputs(regime)
    z = case.function(*inputs)
    assert isinstance(z, Gaussian)
    close(z.loc, case.function(*(g.loc for g in inputs)))
    variance = dense.matrix(case) ** 2 @ dense.flat([g.variance for g in inputs])
    close(z.variance.reshape(-1), variance, atol=1e-20)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("case", BILINEAR, ids=label)
def test_bilinear(case: Case, regime: str) -> None:
    """Eq. (14), summed over the pairs that meet."""
    x, w, *b = case.inputs(regime)
    z = case.function(x, w, *b)
    assert isinstance(z, Gaussian)
    close(z.loc, case.function(x.loc, w.loc, *(g.loc for g in b)))
    var_x, var_w = x.variance.reshape(-1, 1), w.variance.reshape(1, -1)
    mu_x, mu_w = x.loc.reshape(-1, 1), w.loc.reshape(1, -1)
    each = var_x * var_w + var_x * mu_w**2 + var_w * mu_x**2
    variance = torch.einsum("kij,ij->k", dense.table(case) ** 2, each)
    if b:
        variance = variance + dense.bias(case) ** 2 @ b[0].variance.reshape(-1)
    close(z.variance.reshape(-1), variance, atol=1e-20)
