"""Windows, folds, averages and scores against loops over single values."""

import math

import numpy as np
import pandas as pd
import pytest

from tests.forecast.conftest import wave
from tractable.errors import InvalidInput
from tractable.forecast import Forecaster, seasonal_naive
from tractable.forecast.backtest import rolling_error_ewma
from tractable.forecast.calibration import ForecastErrors, error_ewma
from tractable.forecast.config import HyperParameters, ModelConfig
from tractable.forecast.model_selection import TimeSplits
from tractable.forecast.panel import read_panel
from tractable.forecast.rolling import scaled_history
from tractable.forecast.time_index import infer_grid, to_timestamps
from tractable.forecast.windows import (
    History,
    WindowLayout,
    rows_at,
    targets_at,
    windows_with_values,
)


def history_of(seed, times, series, known, past, holes, beyond=0):
    g = np.random.default_rng(seed)
    loc = g.standard_normal((times, series)).astype(np.float32)
    loc[g.random(loc.shape) < holes] = np.nan
    covariates = [
        g.standard_normal((times + b, series, n)) for b, n in ((beyond, known), (0, past))
    ]
    for part in covariates:
        part[g.random(part.shape) < holes] = np.nan
    variance = np.where(g.random(loc.shape) < holes, 0.5, 0).astype(np.float32)
    variance[np.isnan(loc)] = 0
    return History(loc, variance, *(part.astype(np.float32) for part in covariates))


@pytest.mark.parametrize("level", ["last", "mean", "none"])
@pytest.mark.parametrize("holes", [0.0, 0.3, 0.8])
@pytest.mark.parametrize(("lags", "steps"), [(1, 1), (3, 2), (5, 4)])
@pytest.mark.parametrize(("known", "past", "beyond"), [(0, 0, 0), (2, 0, 3), (1, 2, 0)])
def test_rows_and_targets_are_those_of_a_loop(level, holes, lags, steps, known, past, beyond):
    times, series = 20, 3
    h = history_of(0, times, series, known, past, holes, beyond)
    layout = WindowLayout(lags, steps, level, known, past)
    origins = np.array([lags - 1, lags + 2, times - 2, times - 1])
    rows = rows_at(h, layout, origins)
    targets = targets_at(h, layout, origins, rows.level)
    seen = windows_with_values(h, lags, origins)
    at = 0
    for i, origin in enumerate(origins):
        for s in range(series):
            window = h.loc[origin - lags + 1 : origin + 1, s].astype(float)
            there = [v for v in window if not math.isnan(v)]
            assert rows.has_values[at] == seen[i, s] == bool(there)
            middle = float(np.mean(there)) if there else 0.0
            spread = float(np.var(there)) if len(there) > 1 else 1.0
            filled = [middle if math.isnan(v) else v for v in window]
            variance = [
                spread if math.isnan(v) else h.variance[origin - lags + 1 + k, s]
                for k, v in enumerate(window)
            ]
            start = {"last": there[-1] if there else 0.0, "mean": np.mean(filled), "none": 0.0}
            assert rows.level[at] == pytest.approx(start[level], abs=1e-5)
            values, spreads = [], []
            for k in range(lags):
                values += [filled[k] - start[level]]
                spreads += [variance[k]]
                for c in range(past):
                    value = h.past_covariates[origin - lags + 1 + k, s, c]
                    values += [0.0 if math.isnan(value) else value]
                    spreads += [float(math.isnan(value))]
            ahead = []
            for c in range(known):
                for k in range(steps):
                    t = origin + 1 + k
                    value = (
                        h.future_covariates[t, s, c] if t < len(h.future_covariates) else math.nan
                    )
                    ahead += [value]
            values += [0.0 if math.isnan(v) else v for v in ahead]
            spreads += [float(math.isnan(v)) for v in ahead]
            assert rows.loc[at] == pytest.approx(values, abs=1e-5)
            found = np.zeros(len(values)) if rows.variance is None else rows.variance[at]
            assert found == pytest.approx(spreads, abs=1e-5)
            for k in range(steps):
                t = origin + 1 + k
                known_value = t < times and not h.variance[t, s] and not math.isnan(h.loc[t, s])
                expected = h.loc[t, s] - rows.level[at] if known_value else math.nan
                assert targets[at, k] == pytest.approx(expected, abs=1e-5, nan_ok=True)
            at += 1


@pytest.mark.parametrize("times", [60, 97, 300, 599, 600, 1000])
@pytest.mark.parametrize("reach", [1, 7, 24])
@pytest.mark.parametrize("validation", [None, 1, 20])
@pytest.mark.parametrize("recursive", [False, True])
def test_held_out_windows_are_after_all_that_was_learned(times, reach, validation, recursive):
    config = ModelConfig(1 if recursive else reach, recursive_steps=reach if recursive else 0)
    splits = TimeSplits(config, history_of(0, times, 1, 0, 0, 0.0), validation)
    params = HyperParameters(5)
    assert splits.splits
    assert splits.splits[-1].last == times
    for before, after in zip(splits.splits, splits.splits[1:], strict=False):
        assert before.last == after.first
    for split in splits.splits:
        if validation is not None:
            assert split.last - split.first == validation
        learned = splits.training_origins(params, split.first)
        assert learned[0] == params.lags - 1
        assert learned[-1] + 1 <= split.first - 1  # the first target at least
        whole = [o for o in range(params.lags - 1, times) if o + config.steps <= split.first - 1]
        if len(whole) >= 60:
            assert learned.tolist() == whole
        assert len(splits.history_until(split.first)) == split.first
        judged = splits.validation_origins(params, split)
        assert judged[0] == split.first - 1  # its first target is the first held-out value
        partly = times < 600 or split.last - split.first < reach
        assert judged[-1] + (1 if partly else reach) == split.last - 1


@pytest.mark.parametrize("memory", [1, 3.5, 100])
@pytest.mark.parametrize("start", [None, 2.0])
def test_averages_over_recent_errors_are_those_of_a_loop(memory, start):
    g = np.random.default_rng(0)
    z2 = (g.standard_normal((40, 2, 3)) ** 2).astype(np.float32) * 8
    z2[g.random(z2.shape) < 0.2] = np.nan
    first = None if start is None else np.full((2, 3), start, np.float32)
    made, last = error_ewma(z2, memory, first)
    r = np.full((2, 3), 1.0 if start is None else start)
    for i in range(40):
        for s in range(2):
            for k in range(3):
                origin = i - 1 - k  # whose step k is the value at origin i
                if origin >= 0 and np.isfinite(z2[origin, s, k]):
                    r[s, k] += (min(z2[origin, s, k], 25.0) - r[s, k]) / memory
        assert made[i] == pytest.approx(r, rel=1e-4, abs=1e-5)
    assert last == pytest.approx(r, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("begin", [100, 260, 300])
def test_error_bars_of_a_backtest_are_those_of_a_stream_that_does_not_learn(begin):
    y = np.stack([wave(360), wave(360, seed=1)], axis=1)
    y[150:153, 0] = np.nan
    options = {"lags": 8, "normalize_by": "last", "epochs": 1, "batch_size": 16, "n_validation": 60}
    model = Forecaster("linear", 3, error_window=7, season_length=12, **options).fit(y[:260])
    state = model.state_
    history = scaled_history(state, read_panel(y))
    origins = np.arange(begin - 1, 357)
    found = rolling_error_ewma(state, history, origins, 260)
    seen = 260 if begin >= 260 else 0
    run_in = max(seen - 4, 7) if seen else max(begin - 1 - 3 - 21, 7)
    every = np.arange(min(run_in, begin - 1), 357)
    e = ForecastErrors.of_model(state.model, history, every)
    z2 = e.error**2 / e.variance(state.calibration.noise_factors)
    r = state.error_ewma.copy() if seen else np.ones((2, 3), np.float32)
    for now in every:
        for k in range(3):
            origin = now - 1 - k
            if origin >= every[0] and now >= seen:
                value = z2[origin - every[0], :, k]
                r[:, k] = np.where(
                    np.isnan(value), r[:, k], r[:, k] + (np.minimum(value, 25) - r[:, k]) / 7
                )
        if now >= origins[0]:
            assert found[now - origins[0]] == pytest.approx(r, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("season", [1, 4, 7])
@pytest.mark.parametrize("steps", [1, 4, 9])
def test_naive_forecasts_and_their_spread_are_those_of_a_loop(season, steps):
    y = wave(80)[:, None].copy()
    y[[30, 31, 45, 60], 0] = np.nan

    def naive(origin, k):
        t = origin + k - season * math.ceil(k / season)
        while t >= 0 and math.isnan(y[t, 0]):
            t -= season
        return y[t, 0] if t >= 0 else math.nan

    origins = np.arange(80 - steps)
    found = seasonal_naive(y, season, origins, steps)
    for origin in origins:
        expected = [naive(origin, k) for k in range(1, steps + 1)]
        assert found[origin, 0].tolist() == pytest.approx(expected, nan_ok=True)
    options = {"lags": 6, "normalize_by": "last", "epochs": 1, "batch_size": 16, "n_validation": 20}
    model = Forecaster("linear", steps, season_length=season, **options).fit(y[:60])
    scores = model.backtest(y, start=40).baseline
    for k in range(1, steps + 1):
        past = [
            (y[o + k, 0] - naive(o, k)) ** 2
            for o in range(season - 1, 40 - steps)
            if not math.isnan(y[o + k, 0] - naive(o, k))
        ]
        variance = np.mean(past)
        errors = [y[o + k, 0] - naive(o, k) for o in range(39, 80 - steps)]
        errors = np.array([e for e in errors if not math.isnan(e)])
        assert scores.mse[k - 1, 0] == pytest.approx(np.mean(errors**2))
        assert scores.mae[k - 1, 0] == pytest.approx(np.mean(np.abs(errors)))
        density = -0.5 * (errors**2 / variance + np.log(2 * np.pi * variance))
        assert scores.log_likelihood[k - 1, 0] == pytest.approx(density.mean())
        inside = np.abs(errors) <= 1.6448536269514722 * math.sqrt(variance)
        assert scores.coverage[0.9][k - 1, 0] == pytest.approx(inside.mean())


def test_a_backtest_has_every_origin_of_which_all_steps_are_known():
    y = wave(120)
    options = {"lags": 6, "normalize_by": "last", "epochs": 1, "batch_size": 16, "n_validation": 20}
    model = Forecaster("linear", 5, **options).fit(y[:90])
    for stride in (1, 3, 7):
        found = model.backtest(y, stride=stride, keep_forecasts=True)
        assert found.origins.tolist() == list(range(89, 115, stride))
        for i, origin in enumerate(found.origins):
            assert found.actual[i, :, 0].tolist() == y[origin + 1 : origin + 6].tolist()
    assert model.backtest(y, start=6).origins[0] == 5  # a whole window before it
    with pytest.raises(InvalidInput, match="needs 6 values before it, got 5"):
        model.backtest(y, start=5)
    assert model.backtest(y, start=115).origins.tolist() == [114]
    with pytest.raises(InvalidInput, match="no origin has 5 known values after it: 4 are left"):
        model.backtest(y, start=116)
    scored = model.anomalies(y)
    assert np.flatnonzero(np.isfinite(scored.z_score)).tolist() == list(range(6, 120))


@pytest.mark.parametrize(
    ("stamps", "following"),
    [
        (["2021-01-31", "2021-03-31", "2021-05-31", "2021-07-31"], ["2021-09-30", "2021-11-30"]),
        (["2021-08-31", "2021-10-31", "2021-12-31"], ["2022-02-28", "2022-04-30"]),
        (["2020-12-31", "2021-03-31", "2021-06-30"], ["2021-09-30", "2021-12-31"]),
        (["2021-02-28", "2022-02-28", "2023-02-28"], ["2024-02-28", "2025-02-28"]),
        (["2021-01-28", "2021-02-28", "2021-03-28"], ["2021-04-28", "2021-05-28"]),
        (["2016-02-29", "2020-02-29", "2024-02-29"], ["2028-02-29", "2032-02-29"]),
    ],
)
def test_stamps_go_on_at_the_same_day_or_the_end_of_the_month(stamps, following):
    grid = infer_grid(to_timestamps(stamps))
    assert grid.stamps(len(stamps), 2).astype("M8[D]").astype(str).tolist() == following
    assert grid.steps_from_start(to_timestamps(following)).tolist() == [
        len(stamps),
        len(stamps) + 1,
    ]


@pytest.mark.parametrize("zone", ["Europe/Paris", "America/New_York", "Australia/Lord_Howe", "UTC"])
def test_hours_of_a_zone_have_no_gap_where_clocks_change(zone):
    index = pd.date_range("2024-01-01", "2024-12-31", freq="h", tz=zone)
    grid = infer_grid(to_timestamps(index))
    assert grid.steps_from_start(to_timestamps(index)).tolist() == list(range(len(index)))


def test_business_days_are_days_with_gaps():
    index = pd.bdate_range("2024-01-01", periods=60)
    grid = infer_grid(to_timestamps(index))
    assert grid.step_name == "1 day"
    assert grid.season_length == 7
    assert grid.steps_from_start(to_timestamps(index)).tolist() == (index - index[0]).days.tolist()


@pytest.mark.parametrize("year", [1600, 1970, 2255, 2500])
def test_stamps_far_from_1970_are_exact(year):
    stamps = np.datetime64(f"{year}-03-01T00:00:01", "s") + 60 * np.arange(100)
    grid = infer_grid(to_timestamps(stamps))
    assert (grid.stamps(0, 200)[:100] == stamps).all()
