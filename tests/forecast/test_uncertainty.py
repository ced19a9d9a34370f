"""Epistemic and aleatoric parts of the variance of a forecast, in the units of the data."""

import numpy as np
import pytest
import torch

from tests.forecast.conftest import wave
from tractable.forecast import Forecast, Forecaster
from tractable.forecast.scaling import backward
from tractable.predictive import NormalPredictive

MEAN, EPISTEMIC, NOISE = 1.3, 0.09, 0.04


@pytest.mark.parametrize("transform", ["none", "log", "log1p", "sqrt"])
def test_the_epistemic_part_is_the_variance_of_the_conditional_mean(transform):
    """Compare with quadrature over the network output, and over the noise inside."""
    parts = (torch.full((1, 1), v, dtype=torch.float64) for v in (MEAN, EPISTEMIC, NOISE))
    forecast = Forecast(np.arange(1), ("y",), NormalPredictive(*parts), np.eye(1), transform)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    f = MEAN + np.sqrt(EPISTEMIC) * nodes
    y = f[:, None] + np.sqrt(NOISE) * nodes
    values = np.square(y) if transform == "sqrt" else backward(transform, y)
    conditional = values @ weights
    epistemic = weights @ conditional**2 - (weights @ conditional) ** 2
    assert forecast.epistemic[0] == pytest.approx(epistemic, rel=1e-9)
    total = weights @ values**2 @ weights - (weights @ values @ weights) ** 2
    assert forecast.aleatoric[0] == pytest.approx(total - epistemic, rel=1e-9)
    assert forecast.variance[0] == pytest.approx(total, rel=1e-9)


def test_parts_add_to_the_variance_of_a_fitted_forecaster(quick):
    found = Forecaster(horizon=3, epochs=1, **quick).fit(wave(200)).predict()
    assert (found.epistemic > 0).all()
    assert (found.aleatoric > 0).all()
    assert np.allclose(found.epistemic + found.aleatoric, found.variance)
