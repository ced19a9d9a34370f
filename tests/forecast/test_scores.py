"""Scores of forecasts: those of the naive one, and how surprising single values are."""

import numpy as np
import pytest
import torch
from scipy import stats

import tractable as tr
from tests.forecast.conftest import wave
from tractable.forecast import Forecaster


def test_a_naive_forecast_without_a_past_has_no_spread(quick):
    y = wave(300)
    model = Forecaster(horizon=20, **quick).fit(y)  # windows of 24, seasons of 12
    early, late = model.backtest(y, start=26), model.backtest(y, start=31)
    none = early.summary()["seasonal naive"]
    assert np.isnan(none["log_likelihood"])
    assert np.isnan(none["coverage_90"])
    assert none["mse"] == pytest.approx(2 * 0.3**2, rel=0.2)  # the forecast itself is known
    assert np.isfinite(early.log_likelihood)
    # With 32 values before the first forecast, a season and the steps, one origin has all its
    # outcomes before it: they are its spread, and nothing that came later is.
    assert np.isnan(late.summary()["seasonal naive"]["log_likelihood"])
    found = model.backtest(y, start=32).baseline
    spread = (y[12:32] - np.r_[y[:12], y[:8]]) ** 2
    origins = np.arange(31, 280)
    truth = [
        stats.norm.logpdf(y[origins + k], y[origins + k - 12 * -(-k // 12)], spread[k - 1] ** 0.5)
        for k in range(1, 21)
    ]
    assert found.log_likelihood[:, 0] == pytest.approx(np.mean(truth, axis=1), rel=1e-9)


@pytest.fixture(scope="module")
def counted():
    counts = np.random.default_rng(0).poisson(0.7, 400).astype(float)
    model = Forecaster(
        "linear", 2, lags=6, season_length=1, likelihood=tr.likelihoods.Poisson(), epochs=2,
        batch_size=16, n_validation=60,
    ).fit(counts)  # fmt: skip
    return counts, model


@pytest.mark.parametrize("count", [0, 2, 5])
def test_counts_are_scored_by_their_own_distribution(counted, count):
    counts, model = counted
    found = model.anomalies(np.r_[counts, count])
    draws = model.predict().predictive.sample(400_000, torch.Generator().manual_seed(1))[:, 0, 0]
    draws = draws.numpy()
    share = np.mean(draws < count) + np.mean(draws == count) / 2
    assert found.p_value[-1] == pytest.approx(2 * min(share, 1 - share), abs=4e-3, rel=0.1)
    assert found.nll[-1] == pytest.approx(-np.log(np.mean(draws == count)), rel=0.05)
    assert found.expected[-1] == np.median(draws)
    assert found.z_score[-1] == pytest.approx((count - draws.mean()) / draws.std(), rel=0.02)


def test_probabilities_of_counts_are_even(counted):
    counts, model = counted
    found = model.anomalies(np.r_[counts[:200], np.nan, counts[201:]])
    there = ~np.isnan(found.p_value)
    assert np.flatnonzero(~there).tolist() == [0, 1, 2, 3, 4, 5, 200]
    assert np.isnan(found.nll[200])
    # A mid-p value is 1/2 on average, to either side.
    assert np.mean(found.p_value[there]) == pytest.approx(0.5, abs=0.06)


def test_heavy_tails_make_far_values_less_surprising():
    y = wave(300)
    tails = Forecaster(
        "linear", 2, lags=12, season_length=12, likelihood=tr.likelihoods.StudentT(4.0), epochs=2,
        n_validation=40, normalize_by="last", batch_size=16, refit=False,
    ).fit(y)  # fmt: skip
    found = tails.anomalies(np.r_[y, y[288] + 5])
    predictive = tails.predict().predictive
    at = torch.full((1, 2), y[288] + 5, dtype=torch.float64)
    assert found.p_value[-1] == pytest.approx(2 * float(1 - predictive.cdf(at)[0, 0]), rel=1e-6)
    assert found.nll[-1] == pytest.approx(
        -float(predictive.elementwise_log_prob(at)[0, 0]), rel=1e-6
    )
