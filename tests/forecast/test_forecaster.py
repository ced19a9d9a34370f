"""How a forecaster is used: series of all kinds, gaps, streams, files, bad input."""

import numpy as np
import pandas as pd
import pytest
import torch

import tractable as tr
from tests.forecast.conftest import wave
from tractable.errors import InvalidInput, InvalidModelFile, NotFitted
from tractable.forecast import Forecaster


@pytest.fixture(scope="module")
def fitted():
    quick = {
        "net": "linear",
        "lags": 24,
        "normalize_by": "last",
        "season_length": 12,
        "learner_kwargs": {"gain": 0.01},
    }
    return Forecaster(horizon=6, **quick).fit(wave())


def test_frames_name_what_is_forecast(quick):
    index = pd.date_range("2020-01-01", periods=400, freq="MS")
    frame = pd.DataFrame({"a": wave(400), "b": -3 * wave(400, seed=1)}, index=index)
    model = Forecaster(horizon=5, **{**quick, "season_length": None}).fit(frame)
    assert model.state_.season_length == 12
    found = model.predict()
    assert found.mean.shape == (5, 2)
    assert found.times[0] == np.datetime64("2053-05-01")
    table = found.to_frame()
    assert list(table.columns) == ["mean", "std", "lower", "upper"]
    assert table.index.names == ["time", "series"]
    assert len(table) == 10
    one = Forecaster(horizon=5, **quick).fit(frame, target_cols="a").predict()
    assert one.mean.shape == (5,)
    assert one.to_frame(0.5).index.name == "time"
    assert found.sample(7).shape == (7, 5, 2)
    truth = 5 + 2 * np.sin(2 * np.pi * np.arange(400, 405) / 12)
    assert found.mean[:, 0] == pytest.approx(truth, abs=0.5)
    assert found.mean[:, 1] == pytest.approx(-3 * truth, abs=1.5)


def test_settings_are_chosen_on_held_out_windows():
    model = Forecaster(horizon=6, season_length=12, epochs=4).fit(wave(500))
    assert len(model.cv_results_["params"]) >= 4
    assert model.best_params_["lags"] >= 24
    assert "horizon=6" in repr(model)
    assert model.get_params()["season_length"] == 12
    assert model.set_params(horizon=3).horizon == 3
    with pytest.raises(ValueError, match="no parameter 'depth'"):
        model.set_params(depth=3)


def test_gaps_cost_little(quick):
    y = wave(600)
    holes = y.copy()
    holes[np.random.default_rng(3).random(600) < 0.15] = np.nan
    holes[300:330] = np.nan
    model = Forecaster(horizon=6, epochs=3, batch_size=16, refit=False, **quick).fit(holes[:500])
    found = model.backtest(np.concatenate([holes[:500], y[500:]]))
    assert np.sqrt(found.mse) < 0.55
    assert 0.8 < found.coverage(0.9) < 0.99


def test_a_missing_value_in_a_stream_is_what_was_forecast(fitted, tmp_path):
    fitted.save(tmp_path / "f.tr")
    model = Forecaster.load(tmp_path / "f.tr")
    said = model.predict()
    before = model.state_.model.learner.posterior.loc.clone()
    model.update(np.nan)
    history = model.state_.history
    scale, mean = model.state_.scaler.scale[0], model.state_.scaler.mean[0]
    assert history.loc[-1, 0] * scale + mean == pytest.approx(said.mean[0], abs=1e-4)
    assert history.variance[-1, 0] > 0
    assert torch.equal(before, model.state_.model.learner.posterior.loc)  # no message
    model.update([7.0, 6.9])  # targets with a gap in them send none either, here
    after = model.predict()
    assert np.isfinite(after.std).all()


def test_a_stream_goes_on_learning_within_bounds(quick):
    y = wave(400)
    model = Forecaster(horizon=3, memory_rows=300, error_window=50, **quick).fit(y)
    size = model.state_.history.loc.shape
    moved = 20 + wave(400, seed=2)
    for value in moved:
        model.update(value)
    assert model.state_.history.loc.shape == size
    assert model.state_.n_updates == 400
    truth = 25 + 2 * np.sin(2 * np.pi * np.arange(400, 403) / 12)
    assert model.predict().mean == pytest.approx(truth, abs=0.7)
    assert model.predict().times[0] == 800


def test_updates_know_the_time(quick):
    index = pd.date_range("2024-01-01", periods=300, freq="h")
    model = Forecaster(horizon=3, **quick).fit(pd.Series(wave(300), index=index))
    model.update([5.0], times=["2024-01-13T12:00"])
    model.update(5.5, times=np.datetime64("2024-01-13T15:00"))  # two were left out
    assert model.state_.now == 303
    assert model.predict().times[0] == np.datetime64("2024-01-13T16:00")
    for stamp, words in (
        ("2024-01-13T15:00", "repeated: the next is 2024-01-13T16"),
        ("2024-01-13T14:00", "out of order"),
        ("2024-01-13T16:30", "irregular time stamps: 2024-01-13T16:30"),
    ):
        with pytest.raises(InvalidInput, match=words):
            model.update(1.0, times=stamp)
    assert model.state_.now == 303


def test_a_backtest_forecasts_as_predict_does(fitted):
    y = np.concatenate([wave(), wave(760)[700:]])
    found = fitted.backtest(y, keep_forecasts=True)
    said = fitted.predict()
    assert found.mean[0, :, 0] == pytest.approx(said.mean, rel=1e-4)
    assert found.std[0, :, 0] == pytest.approx(said.std, rel=1e-3)
    error = found.actual - found.mean
    assert found.mse == pytest.approx((error**2).mean(), rel=1e-6)
    density = -0.5 * ((error / found.std) ** 2 + np.log(2 * np.pi * found.std**2))
    assert found.log_likelihood == pytest.approx(density.mean(), rel=1e-6)
    assert found.origins[0] == 699
    assert len(fitted.backtest(y, stride=10).origins) == len(found.origins[::10])
    assert fitted.backtest(y, start=0.9).origins[0] == int(0.9 * 760) - 1
    assert list(found.to_frame().index) == ["model", "seasonal naive"]


def test_anomalies_stand_out(fitted):
    y = wave()
    y[400] += 6
    found = fitted.anomalies(y)
    assert found.z_score.shape == (700,)
    assert np.isnan(found.z_score[:24]).all()
    assert 400 in found.outliers(8).tolist()
    assert found.nll[400] > 50
    calm = np.delete(found.z_score[24:390], [])
    assert np.std(calm) == pytest.approx(1, abs=0.25)
    assert found.p_value[400] < 1e-9


def test_files_bring_everything_back(fitted, tmp_path):
    fitted.save(tmp_path / "f.tr")
    again = Forecaster.load(tmp_path / "f.tr")
    assert (again.predict().mean == fitted.predict().mean).all()
    assert (again.predict().sample(3) == fitted.predict().sample(3)).all()
    assert again.best_params_ == fitted.best_params_
    assert again.get_params()["horizon"] == 6
    one = Forecaster.load(tmp_path / "f.tr").update(7.0).predict()
    two = Forecaster.load(tmp_path / "f.tr").update(7.0).predict()
    assert (one.mean == two.mean).all()
    assert (one.mean != fitted.predict().mean).any()
    learner = tr.TAGI(torch.nn.Linear(1, 1), tr.likelihoods.Normal())
    learner.save(tmp_path / "l.tr")
    with pytest.raises(InvalidModelFile, match="no forecaster"):
        Forecaster.load(tmp_path / "l.tr")
    damaged = (tmp_path / "f.tr").read_bytes()
    (tmp_path / "d.tr").write_bytes(damaged[:-40])
    with pytest.raises(InvalidModelFile):
        Forecaster.load(tmp_path / "d.tr")


def test_a_stream_goes_on_from_a_file_as_if_it_had_not_stopped(tmp_path):
    rng = np.random.default_rng(0)
    y, past = wave(760), rng.standard_normal((760, 1))
    past[695:697] = np.nan
    model = Forecaster(
        "linear", 6, season_length=12, lags=12, epochs=2, n_validation=300, error_window=100.0
    ).fit(y[:700], past_covariates=past[:700])  # fmt: skip
    for rows in (slice(700, 702), slice(702, 715)):  # fewer forecasts than steps, and more
        model.update(y[rows], past_covariates=past[rows])
        model.save(tmp_path / "f.tr")
        again = Forecaster.load(tmp_path / "f.tr")
        assert np.array_equal(
            again.state_.history.past_covariates,
            model.state_.history.past_covariates,
            equal_nan=True,
        )
        assert (again.predict().std == model.predict().std).all()
        twin = Forecaster.load(tmp_path / "f.tr")
        for one in (again, twin):
            one.update(y[715:730], past_covariates=past[715:730])
        assert (again.predict().std == twin.predict().std).all()
    model.update(y[715:730], past_covariates=past[715:730])
    assert (again.predict().mean == model.predict().mean).all()
    assert (again.predict().std == model.predict().std).all()


@pytest.mark.parametrize("strategy", ["direct", "recursive"])
def test_files_of_other_forecasters(strategy, tmp_path, quick):
    frame = pd.DataFrame({"y": wave(300), "x": wave(300, seed=3)})
    frame.iloc[50:60, 0] = np.nan
    model = Forecaster(horizon=3, strategy=strategy, epochs=2, **quick)
    model.fit(frame, target_cols="y", future_covariates=["x"])
    model.save(tmp_path / "f.tr")
    again = Forecaster.load(tmp_path / "f.tr")
    ahead = frame[["x"]].iloc[:3]
    assert again.predict(future_covariates=ahead).mean == pytest.approx(
        model.predict(future_covariates=ahead).mean
    )
    with pytest.raises(InvalidInput, match="1 future covariates: give their next 3"):
        again.predict()


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.full(200, 3.0), "'y' is constant"),
        (np.arange(20.0), "horizon of 24 steps is longer than the series"),
        (np.full(200, np.nan), "no values at all"),
        (np.r_[wave(150), np.full(60, np.nan)], "no validation window has a value in it"),
        (["a"] * 100, "must be numbers"),
        (np.where(np.arange(200) % 40 == 0, wave(200), np.nan), "window|missing"),
    ],
)
def test_bad_series_are_refused(y, words, quick):
    with pytest.raises(InvalidInput, match=words):
        Forecaster(**{**quick, "lags": 8}).fit(y).predict()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"horizon": 0}, "horizon must be a whole number"),
        ({"horizon": None}, "horizon must be a whole number"),
        ({"error_window": 0}, "error_window must be 'auto', None or a number from 1"),
        ({"error_window": "long"}, "error_window must be 'auto', None or a number from 1"),
        (
            {"error_window": 9, "strategy": "recursive"},
            "error_window=9: intervals cannot follow recent",
        ),
        (
            {"error_window": 9, "likelihood": tr.likelihoods.StudentT()},
            "error_window=9: .* normal likelihood",
        ),
        ({"normalize_by": "median"}, "normalize_by must be one of"),
        ({"transform": "cube"}, "transform must be one of"),
        ({"transform": "log"}, "needs larger values: row 3"),
        ({"strategy": "both"}, "strategy must be"),
        ({"net": "deep"}, "net must be 'linear'"),
        ({"net": torch.nn.Linear(3, 24)}, "give lags="),
        ({"lags": 150}, "too few for windows of 150"),
    ],
)
def test_bad_settings_are_refused(options, words):
    y = wave(160)
    y[3] = -1
    with pytest.raises(ValueError, match=words):
        Forecaster(**{"horizon": 24, **options}).fit(y)


def test_bad_questions_are_refused(fitted):
    with pytest.raises(NotFitted):
        Forecaster().predict()
    with pytest.raises(NotFitted):
        Forecaster().save("nowhere")
    with pytest.raises(InvalidInput, match="outputs for 6 steps, and 7"):
        fitted.predict(7)
    with pytest.raises(InvalidInput, match="fitted with 0 future_covariates"):
        fitted.predict(future_covariates=np.zeros((6, 1)))
    with pytest.raises(InvalidInput, match="no origin has 6 known values after it"):
        fitted.backtest(wave(), start=698)
    with pytest.raises(InvalidInput, match="needs 24 values before it"):
        fitted.backtest(wave(), start=3)
    with pytest.raises(InvalidInput, match="fitted to 1 series, got 2"):
        fitted.anomalies(np.stack([wave(), wave()], 1))
    with pytest.raises(ValueError, match="level must lie"):
        fitted.predict().interval(1.5)
    assert fitted.predict(2).mean == pytest.approx(fitted.predict().mean[:2])
