"""Moments of bilinear rules against 200,000 samples of their dense form, in every regime.

``test_conformance`` does the same for linear functions and curves, without a dense form.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.rules import dense
from tests.rules.cases import BILINEAR, Case, label
from tractable.testing.gaussians import REGIMES, assert_moments_agree

pytestmark = pytest.mark.parametrize("regime", REGIMES)


@pytest.mark.parametrize("case", BILINEAR, ids=label)
def test_bilinear(case: Case, regime: str) -> None:
    """Sampled in the dense form, which ``test_dense`` holds equal to the torch function."""
    inputs = case.inputs(regime)
    table, bias = dense.table(case), dense.bias(case)
    outputs, first, second = table.shape
    unrolled = table.permute(1, 0, 2).reshape(first, -1)

    def function(x: Tensor, w: Tensor, *b: Tensor) -> Tensor:
        z = torch.bmm((x @ unrolled).view(-1, outputs, second), w.unsqueeze(-1)).squeeze(-1)
        return z + b[0] @ bias.T if b else z

    assert_moments_agree(case.function(*inputs), function, *inputs)
