"""Backtests use what was known at each origin, and are of values that were not learned."""

import numpy as np
import pytest

import tractable as tr
from tests.forecast.conftest import wave
from tractable.errors import InvalidInput
from tractable.forecast import Forecaster

TRAIN, ROWS = 240, 300
SETTINGS = {
    "direct": {},
    "error_window": {"error_window": 20},
    "mean": {"normalize_by": "mean"},
    "none": {"normalize_by": "none"},
    "hidden_layer_sizes": {"net": (4,)},
    "log": {"transform": "log1p"},
    "covariates": {"future_covariates": True, "past_covariates": True},
    "ensemble": {"n_estimators": 2},
    "backprop": {"learner": "Backprop", "learner_kwargs": {"lr": 0.01}},
    "recursive": {"strategy": "recursive"},
    "recursive with covariates": {"strategy": "recursive", "future_covariates": True},
    "paths": {"strategy": "recursive", "uncertainty": "paths"},
    "keeps_target_units": {"likelihood": tr.likelihoods.Poisson()},
    "panel": {"series": 3, "error_window": 15},
}


def case(name):
    """A fitted forecaster, its whole series, and covariates."""
    options = dict(SETTINGS[name])
    series = options.pop("series", 1)
    y = np.stack([wave(ROWS, seed=seed) for seed in range(series)], axis=1)
    y = np.rint(y) if name == "keeps_target_units" else y
    x = np.random.default_rng(5).standard_normal((ROWS, 1))
    given = {key: x for key in ("future_covariates", "past_covariates") if options.pop(key, False)}
    plain = {
        "net": "linear",
        "horizon": 4,
        "lags": 8,
        "season_length": 12,
        "normalize_by": "last",
        "epochs": 1,
        "batch_size": 16,
        "n_validation": 60,
        "learner_kwargs": {"gain": 0.01},
    }
    model = Forecaster(**{**plain, **options})
    model.fit(y[:TRAIN], **{key: part[:TRAIN] for key, part in given.items()})
    return model, y, given


@pytest.mark.parametrize("name", SETTINGS)
def test_forecasts_do_not_change_with_any_value_after_their_origin(name):
    model, y, given = case(name)
    found = model.backtest(y, keep_forecasts=True, **given)
    assert found.origins[0] == TRAIN - 1
    rng = np.random.default_rng(0)
    for origin in (TRAIN - 1, TRAIN + 29, ROWS - 5):
        future = y.copy()
        future[origin + 1 :] = np.rint(20 * rng.random(future[origin + 1 :].shape))
        later = dict(given)
        if "past_covariates" in given:
            later["past_covariates"] = given["past_covariates"].copy()
            later["past_covariates"][origin + 1 :] = 100 * rng.standard_normal(
                later["past_covariates"][origin + 1 :].shape
            )
        other = model.backtest(future, keep_forecasts=True, **later)
        upto = origin - found.origins[0] + 1
        assert np.array_equal(found.mean[:upto], other.mean[:upto])
        assert np.array_equal(found.std[:upto], other.std[:upto])
        assert origin == ROWS - 5 or not np.array_equal(found.mean, other.mean)
        one, two = (
            model.anomalies(v, **g).expected[: origin + 2] for v, g in ((y, given), (future, later))
        )
        assert np.array_equal(one, two, equal_nan=True)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_backtest_changes_nothing_and_forecasts_what_predict_does(name):
    model, y, given = case(name)
    ahead = (
        {"future_covariates": given["future_covariates"][TRAIN : TRAIN + 4]}
        if "future_covariates" in given
        else {}
    )
    before = model.predict(**ahead)
    found = model.backtest(y, keep_forecasts=True, **given)
    after = model.predict(**ahead)
    assert np.array_equal(before.mean, after.mean)
    assert np.array_equal(before.std, after.std)
    mean, std = (part.reshape(4, -1) for part in (before.mean, before.std))
    drawn = name == "paths"  # 200 of them, others than those of predict
    assert found.mean[0] == pytest.approx(mean, rel=0.06 if drawn else 1e-4)
    assert found.std[0] == pytest.approx(std, rel=0.3 if drawn else 1e-3)


@pytest.mark.parametrize("name", ["direct", "error_window", "panel", "covariates", "recursive"])
@pytest.mark.parametrize("saved", [False, True])
def test_a_backtest_after_updates_begins_after_them(name, saved, tmp_path):
    model, y, given = case(name)
    rows = slice(TRAIN, TRAIN + 30)
    model.update(y[rows], **{key: part[rows] for key, part in given.items()})
    if saved:
        model.save(tmp_path / "f.tr")
        model = Forecaster.load(tmp_path / "f.tr")
    assert model.backtest(y, **given).origins[0] == TRAIN + 29
    ahead = (
        {"future_covariates": given["future_covariates"][TRAIN + 30 : TRAIN + 34]}
        if "future_covariates" in given
        else {}
    )
    found = model.backtest(y, keep_forecasts=True, **given)
    said = model.predict(**ahead)
    assert found.mean[0] == pytest.approx(said.mean.reshape(4, -1), rel=1e-4)
    assert found.std[0] == pytest.approx(said.std.reshape(4, -1), rel=1e-3)


def test_updates_with_gaps_move_the_default_start_too():
    model, y, _ = case("direct")
    days = np.datetime64("2024-01-01") + np.arange(ROWS)
    model.fit(y[:TRAIN], times=days[:TRAIN])
    model.update(y[TRAIN + 9], times=[days[TRAIN + 9]])
    assert model.backtest(y, times=days).origins[0] == days[TRAIN + 9]
    assert model.backtest(y[100:], times=days[100:]).origins[0] == days[TRAIN + 9]


def test_recent_errors_after_updates_are_not_those_of_later_values():
    """A wild future must not widen the error bars at the first origin of a backtest."""
    model, y, _ = case("error_window")
    model.update(y[TRAIN : TRAIN + 30])
    wild = y.copy()
    wild[TRAIN + 30 :] += 50 * np.random.default_rng(0).standard_normal((30, 1))
    calm, stormy = (model.backtest(v, keep_forecasts=True).std for v in (y, wild))
    assert np.array_equal(calm[0], stormy[0])
    assert (stormy[-1] > calm[-1]).any()


def test_times_of_a_later_panel_have_the_step_of_the_fit():
    model, y, _ = case("direct")
    start = np.datetime64("2024-01-01T00")
    model.fit(y[:TRAIN], times=start + np.arange(TRAIN))
    with pytest.raises(InvalidInput, match=r"fitted to steps of 1 hour, got .* steps of 1 day"):
        model.backtest(y, times=start + 24 * np.arange(ROWS))
    with pytest.raises(InvalidInput, match=r"fitted to steps of 1 hour, got .* steps of 2 hours"):
        model.anomalies(y, times=start + 2 * np.arange(ROWS))


@pytest.mark.parametrize("stamps", [None, np.arange(ROWS), 1000 + np.arange(ROWS)], ids=str)
def test_a_file_keeps_whether_times_were_counted(stamps, tmp_path):
    model, y, _ = case("direct")
    time = {} if stamps is None else {"times": stamps[:TRAIN]}
    model.fit(y[:TRAIN], **time)
    model.save(tmp_path / "f.tr")
    again = Forecaster.load(tmp_path / "f.tr")
    later = {} if stamps is None else {"times": stamps}
    found, other = (m.backtest(y, **later) for m in (model, again))
    assert np.array_equal(found.origins, other.origins)
    dates = np.datetime64("2024-01-01") + np.arange(ROWS)
    if stamps is None:
        found, other = (m.backtest(y, times=dates) for m in (model, again))
        assert found.origins[0] == other.origins[0] == dates[TRAIN - 1]
