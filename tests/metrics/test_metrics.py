"""Metrics against hand-made cases, SciPy and torchmetrics."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from tractable import metrics
from tractable.predictive import CategoricalPredictive, NormalPredictive


def normal(n=2000, scale=2.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    location = torch.randn(n, generator=generator, dtype=torch.float64)
    y = location + scale * torch.randn(n, generator=generator, dtype=torch.float64)
    variance = torch.full_like(location, scale**2)
    return NormalPredictive(location, variance / 4, 3 * variance / 4), y


def classes(n=3000, k=4, seed=1):
    generator = torch.Generator().manual_seed(seed)
    probs = (2 * torch.randn(n, k, generator=generator)).softmax(-1)
    y = torch.multinomial(probs, 1, generator=generator).squeeze(1)
    return CategoricalPredictive(probs), y


def test_lppd_is_the_mean_log_density_of_scipy():
    predictive, y = normal()
    expected = scipy.stats.norm(predictive.mean.numpy(), 2.0).logpdf(y.numpy()).mean()
    assert metrics.lppd(predictive, y) == pytest.approx(expected, rel=1e-12)
    assert metrics.nll(predictive, y) == -metrics.lppd(predictive, y)


def test_rmse_of_known_residuals():
    predictive, y = normal()
    residual = (y - predictive.mean).numpy()
    assert metrics.rmse(predictive, y.numpy()) == pytest.approx(np.sqrt((residual**2).mean()))
    assert metrics.rmse(predictive, y.unsqueeze(1)) == metrics.rmse(predictive, y)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_coverage_of_a_true_model_is_the_level(level):
    predictive, y = normal(n=40_000)
    error = math.sqrt(level * (1 - level) / 40_000)
    assert metrics.coverage(predictive, y, level) == pytest.approx(level, abs=4 * error)


def test_sharpness_is_the_width_of_the_interval():
    predictive, _ = normal()
    width = 2 * scipy.stats.norm.ppf(0.95) * 2.0
    assert metrics.mean_interval_width(predictive, 0.9) == pytest.approx(width)


def test_classification_agrees_with_torchmetrics():
    functional = pytest.importorskip("torchmetrics.functional.classification")
    predictive, y = classes()
    probs = predictive.probs
    assert metrics.ece(predictive, y, 15) == pytest.approx(
        float(functional.multiclass_calibration_error(probs, y, 4, n_bins=15)), abs=1e-6
    )
    assert metrics.accuracy(predictive, y) == pytest.approx(
        float(functional.multiclass_accuracy(probs, y, 4, average="micro"))
    )


def test_a_true_model_is_calibrated_and_a_sharpened_one_is_not():
    predictive, y = classes(n=20_000)
    sharp = CategoricalPredictive(predictive.probs.pow(3) / predictive.probs.pow(3).sum(-1, True))
    assert metrics.ece(predictive, y) < 0.015
    assert metrics.ece(sharp, y) > 0.05
    assert metrics.brier(predictive, y) < metrics.brier(sharp, y)


def test_brier_by_hand():
    predictive = CategoricalPredictive(torch.tensor([[0.8, 0.2], [0.3, 0.7]]))
    assert metrics.brier(predictive, [0, 0]) == pytest.approx((0.04 + 0.04 + 0.49 + 0.49) / 2)


def test_reliability_bins():
    predictive = CategoricalPredictive(torch.tensor([[0.9, 0.1], [0.95, 0.05], [0.45, 0.55]]))
    curve = metrics.reliability(predictive, [0, 1, 1], n_bins=5)
    assert curve.count.tolist() == [0, 0, 1, 0, 2]
    assert curve.accuracy[[2, 4]].tolist() == [1.0, 0.5]
    assert curve.confidence[4].item() == pytest.approx(0.925)
    assert torch.isnan(curve.accuracy[0])
    assert curve.ece == pytest.approx((0.45 + 2 * 0.425) / 3)


def test_one_row_is_not_compared_with_all():
    predictive, _ = normal(10)
    with pytest.raises(ValueError, match="expected that of the predictions"):
        metrics.rmse(predictive, [1.0])
    with pytest.raises(ValueError, match="labels"):
        metrics.error_rate(classes(10)[0], [4] * 10)
    with pytest.raises(TypeError, match="no classes"):
        metrics.ece(predictive, [0] * 10)
