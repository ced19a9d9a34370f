"""Panels of series that start late, end early, or have gaps: each is used where it has values."""

import warnings

import numpy as np
import pandas as pd
import pytest

import tractable as tr
from tests.forecast.conftest import wave
from tractable.errors import InvalidInput
from tractable.forecast import Forecaster
from tractable.forecast.calibration import ForecastErrors, noise_factors

ROWS, LAGS = 300, 12


def panel(shape):
    """Two whole waves, and a third one of this shape."""
    values = np.stack([wave(ROWS, seed=seed) for seed in range(3)], axis=1)
    values[:, 1] = 100 + 20 * values[:, 1]
    third = values[:, 2]
    if shape == "ended early":
        third[150:] = np.nan
    elif shape == "started late":
        third[:200] = np.nan
    elif shape == "short":
        third[:100], third[180:] = np.nan, np.nan
    elif shape == "gap":
        third[100:180] = np.nan
    elif shape == "holes":
        third[np.random.default_rng(0).random(ROWS) < 0.3] = np.nan
    elif shape == "ended just now":
        third[-5:] = np.nan
    elif shape == "almost nothing":
        third[40:] = np.nan
    return values


SHAPES = [
    "ended early",
    "started late",
    "short",
    "gap",
    "holes",
    "ended just now",
    "almost nothing",
]
WITHOUT_FORECAST = {"ended early", "short", "almost nothing"}


def forecaster(**more):
    return Forecaster(
        "linear",
        3,
        lags=LAGS,
        season_length=12,
        normalize_by="last",
        learner_kwargs={"gain": 0.01},
        epochs=3,
        batch_size=64,
        **more,
    )


OPTIONS = [
    {},
    {"n_validation": 60},
    {"n_validation": 60, "error_window": 30},
    {"n_validation": 60, "refit": False},
    {"strategy": "recursive", "n_validation": 60},
    {"strategy": "recursive", "uncertainty": "paths", "n_validation": 60},
    {"learner": "Backprop", "learner_kwargs": {"lr": 0.01}, "n_validation": 60, "epochs": 1},
    {"normalize_by": None, "lags": None, "n_validation": 60},
]


PAIRS = [*((shape, OPTIONS[1]) for shape in SHAPES), *(("ended early", o) for o in OPTIONS[2:])]


@pytest.mark.parametrize(("shape", "options"), [("holes", {}), *PAIRS], ids=str)
def test_every_series_is_forecast_from_the_values_it_has(shape, options, tmp_path):
    y = panel(shape)
    model = Forecaster(**{**forecaster().get_params(), **options}).fit(y)
    if shape in WITHOUT_FORECAST:
        with pytest.warns(UserWarning, match=r"NaN for some series: the last \d+ values of '2'"):
            found = model.predict()
    else:
        found = model.predict()
    truth = 5 + 2 * np.sin(2 * np.pi * np.arange(ROWS, ROWS + 3) / 12)
    assert found.mean[:, 0] == pytest.approx(truth, abs=1.2)
    assert found.mean[:, 1] == pytest.approx(100 + 20 * truth, abs=24)
    known = np.ones(3, bool)
    known[2] = shape not in WITHOUT_FORECAST
    low, high = found.interval(0.8)
    for numbers in (found.mean, found.std, found.median, low, high, found.log_prob(y[:3])):
        assert np.isfinite(numbers[:, :2]).all()
    for numbers in (found.mean, found.std, low, high, found.sample(5)[0]):
        assert (np.isfinite(numbers) == known).all()
    assert np.isfinite(found.covariance[known]).all()
    assert np.isnan(found.covariance[~known]).all()
    assert (found.std[:, known] > 0).all()
    model.save(tmp_path / "f.tr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = tr.forecast.Forecaster.load(tmp_path / "f.tr").predict()
    assert np.array_equal(again.mean, found.mean, equal_nan=True)


@pytest.mark.parametrize(
    ("shape", "options"),
    [("gap", OPTIONS[2]), ("holes", OPTIONS[1]), *(("ended early", o) for o in OPTIONS[1:6])],
    ids=str,
)
def test_backtests_and_anomalies_leave_out_only_what_has_no_window(shape, options):
    y = panel(shape)
    model = Forecaster(**{**forecaster().get_params(), **options}).fit(y)
    found = model.backtest(y, start=120, stride=4, keep_forecasts=True)
    for i, origin in enumerate(found.origins):
        window = y[origin - LAGS + 1 : origin + 1]
        there = (~np.isnan(window)).any(0)
        assert (np.isfinite(found.mean[i]).all(0) == there).all()
        assert (np.isfinite(found.std[i]).all(0) == there).all()
    assert np.array_equal(found.actual[0], y[120:123], equal_nan=True)
    error = found.actual - found.mean
    assert found.model.mse == pytest.approx(np.nanmean(error**2, axis=0), nan_ok=True)
    assert np.isfinite(found.model.log_likelihood[:, :2]).all()
    scored = model.anomalies(y)
    for t in range(LAGS, ROWS):
        there = (~np.isnan(y[t - LAGS : t])).any(0) & ~np.isnan(y[t])
        assert (np.isfinite(scored.nll[t]) == there).all()
        assert (np.isfinite(scored.z_score[t]) == there).all()
        assert (np.isfinite(scored.p_value[t]) == there).all()


@pytest.mark.parametrize("memory", [None, 30])
def test_a_series_that_ended_may_come_back(memory, tmp_path):
    y = panel("ended early")
    model = forecaster(n_validation=60, error_window=memory).fit(y)
    for t in range(4):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.update([*wave(ROWS + 9)[ROWS + t : ROWS + t + 1], 150.0 + t, np.nan])
    assert np.isnan(model.state_.history.loc[-4:, 2]).all()
    assert (model.state_.history.variance[-4:, 2] == 0).all()
    assert np.isfinite(model.state_.error_ewma).all()
    model.save(tmp_path / "f.tr")
    again = Forecaster.load(tmp_path / "f.tr")
    for one in (model, again):
        one.update([5.0, 150.0, 6.0])
        assert np.isfinite(one.predict().mean).all()
        one.update([5.0, 150.0, np.nan])  # missing again, and now forecast
        assert one.state_.history.variance[-1, 2] > 0
    assert np.array_equal(again.predict().std, model.predict().std)


def test_covariates_and_long_frames_may_be_ragged():
    y, x = panel("ended early"), np.random.default_rng(0).standard_normal(ROWS)
    y[:, :2] += 3 * x[:, None] * np.array([1, 20])
    wide = pd.DataFrame(y, columns=list("abc")).assign(t=np.arange(ROWS), x=x)
    long = wide.melt(["t", "x"], var_name="who", value_name="y").dropna()
    model = forecaster(n_validation=60)
    model.fit(long, time_col="t", id_col="who", target_cols="y", future_covariates=["x"])
    with pytest.warns(UserWarning, match="values of 'c' are missing"):
        low, high = (model.predict(future_covariates=np.full(3, v)).mean for v in (-1.0, 1.0))
    assert (high - low)[:, 0] == pytest.approx(np.full(3, 6.0), rel=0.45)
    assert np.isnan(low[:, 2]).all()


def test_only_a_panel_without_any_held_out_value_is_refused():
    y = panel("ended early")
    y[230:] = np.nan
    words = (
        "no validation window has a value in it and one after it, of any series.*from row 240 on"
    )
    with pytest.raises(InvalidInput, match=words):
        forecaster(n_validation=60).fit(y)
    with pytest.raises(InvalidInput, match="series '2' has no values at all"):
        forecaster().fit(np.where(np.arange(3) == 2, np.nan, panel("gap")))
    model = forecaster(n_validation=120).fit(y)
    words = r"a window without a single value: the last 12 values of '0', '1', '2' are missing"
    with pytest.raises(InvalidInput, match=words):
        model.predict()


def test_factors_of_a_series_without_errors_are_those_of_the_others():
    g = np.random.default_rng(0)
    e = (2 * g.standard_normal((200, 4, 3))).astype(np.float32)
    ones = np.ones_like(e)
    e[:, 1] = np.nan
    e[:, 3, 2] = np.nan
    found = noise_factors(ForecastErrors(e, 0 * ones, ones))
    pooled = np.nanmean(e**2, axis=(0, 1))
    assert found[1] == pytest.approx(pooled, rel=1e-3)
    assert found[0] == pytest.approx(np.full(3, 4.0), rel=0.3)
    assert found[3, 2] == pytest.approx(found[3, :2].mean(), rel=0.1)
    e[:, :, 2] = np.nan
    assert noise_factors(ForecastErrors(e, 0 * ones, ones))[1, 2] == pytest.approx(4.0, rel=0.2)


def test_a_long_gap_does_not_shift_recent_errors(quick):
    """Averages over recent errors are of consecutive origins, those without a window included."""
    y = wave(900, noise=0.5)
    options = {
        **quick,
        "lags": 6,
        "n_validation": 300,
        "error_window": 20,
        "horizon": 4,
        "epochs": 2,
    }
    whole = Forecaster(**options).fit(y)
    holes = y.copy()
    holes[700:720] = np.nan
    gap = Forecaster(**options).fit(holes)
    # Origins from 706 to 719 have no window; long after, nothing is left of the difference.
    assert gap.state_.error_ewma == pytest.approx(whole.state_.error_ewma, rel=0.15)
    assert gap.state_.calibration.noise_factors == pytest.approx(
        whole.state_.calibration.noise_factors, rel=0.15
    )
