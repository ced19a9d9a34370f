"""Rate at which linearized moments approach the true ones for vanishing variance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.rules.cases import LINEARIZED, Curve, label
from tractable import Gaussian
from tractable.rules.activation import activation_moments

SMOOTH = [curve for curve in LINEARIZED if curve.smooth]
KINKED = [curve for curve in LINEARIZED if not curve.smooth]


def true_moments(curve: Curve, z: Gaussian) -> tuple[Tensor, Tensor]:
    """Mean and variance of the function itself, by Gauss-Hermite quadrature."""
    nodes, weights = (torch.from_numpy(a) for a in np.polynomial.hermite_e.hermegauss(20))
    weights = weights / weights.sum()
    values = curve.function(z.loc + z.stddev * nodes.unsqueeze(-1))
    mean = (weights.unsqueeze(-1) * values).sum(0)
    return mean, (weights.unsqueeze(-1) * (values - mean) ** 2).sum(0)


def errors(curve: Curve, variance: float) -> tuple[Tensor, Tensor]:
    """Error of the mean, and of the variance as a part of the variance of the input."""
    loc = torch.tensor([0.9, 1.6, 2.3] if curve.positive else [-0.7, 0.45, 1.3])
    z = Gaussian(loc.double(), variance)
    a = curve.function(z)
    assert isinstance(a, Gaussian)
    mean, spread = true_moments(curve, z)
    return (a.loc - mean).abs(), (a.variance - spread).abs() / variance


@pytest.mark.parametrize("curve", SMOOTH, ids=label)
def test_errors_vanish_like_the_variance(curve: Curve) -> None:
    with activation_moments("linear"):
        both = errors(curve, 1e-2), errors(curve, 1e-4)
    for wide, narrow in zip(*both, strict=True):
        assert bool((wide > 1e-5).all()), "too small an error to measure its order"
        ratio = wide / narrow
        assert bool(((ratio > 80) & (ratio < 125)).all()), ratio


@pytest.mark.parametrize("curve", KINKED, ids=label)
def test_a_kink_out_of_reach_leaves_the_branch_exact(curve: Curve) -> None:
    """Forty standard deviations from zero; elu bends, but no more than its variance."""
    mean, spread = errors(curve, 1e-4)
    limit = 1e-4 if curve.name == "elu" else 1e-14
    assert bool((mean < limit).all()), mean
    assert bool((spread < limit).all()), spread
