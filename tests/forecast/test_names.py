"""Frames with labels of any kind: numbers, tuples, names of attributes and methods, duplicates."""

import numpy as np
import pandas as pd
import pytest

import tractable as tr
from tests.forecast.conftest import wave
from tractable.errors import InvalidInput
from tractable.forecast import Forecaster
from tractable.forecast.data_frames import ColumnRoles
from tractable.forecast.panel import read_panel

LABELS = [
    ("a", "b"),
    (0, 1),
    (2021, "y"),
    (1.5, -2),
    (("north", "sales"), ("south", "sales")),
    (pd.Timestamp("2024-01-01"), "total"),
    ("times", "values"),
    ("columns", "index"),
    ("mean", "std"),
    ("fit", "shape"),
    ("naïve", "売上"),
    ("", " "),
    (True, None),
]


def frame_of(labels, rows=120):
    values = np.stack([wave(rows, seed=seed) + 10 * seed for seed in range(len(labels))], axis=1)
    frame = pd.DataFrame(values)
    frame.columns = pd.Index(list(labels), dtype=object, tupleize_cols=False)
    return frame


@pytest.fixture
def fast(quick):
    return {**quick, "lags": 6, "epochs": 1, "n_validation": 20, "horizon": 2}


@pytest.mark.parametrize("labels", LABELS, ids=str)
def test_any_labels_are_names_of_series(labels, fast, tmp_path):
    frame = frame_of(labels)
    model = Forecaster(**fast).fit(frame)
    plain = Forecaster(**fast).fit(frame.to_numpy())
    assert model.state_.series_names == tuple(map(str, labels))
    found = model.predict()
    assert np.array_equal(found.mean, plain.predict().mean)
    assert np.array_equal(found.std, plain.predict().std)
    assert list(found.to_frame().index.get_level_values("series")[:2]) == [str(n) for n in labels]
    model.save(tmp_path / "f.tr")
    again = Forecaster.load(tmp_path / "f.tr")
    assert np.array_equal(again.predict().mean, found.mean)
    later = frame_of(labels, 140)
    one, two = (m.backtest(later) for m in (again, plain.fit(frame.to_numpy())))
    assert one.series_names == tuple(map(str, labels))
    assert one.mse == two.mse


@pytest.mark.parametrize("labels", LABELS, ids=str)
def test_any_labels_are_targets_times_and_covariates(labels, fast, tmp_path):
    frame = frame_of([*labels, "x", 7])
    frame["x"] = pd.date_range("2024-01-01", periods=len(frame))
    one, other = labels
    model = Forecaster(**fast).fit(
        frame, time_col="x", target_cols=one, future_covariates=[other], past_covariates=7
    )
    raw = frame.to_numpy()
    plain = Forecaster(**fast).fit(
        raw[:, 0].astype(float),
        future_covariates=raw[:, 1].astype(float),
        past_covariates=raw[:, 3].astype(float),
    )
    ahead = frame.iloc[:2]
    found = model.predict(future_covariates=ahead)
    assert found.mean.shape == (2,)
    expected = plain.predict(future_covariates=raw[:2, 1].astype(float))
    assert np.array_equal(found.mean, expected.mean)
    shuffled = ahead[ahead.columns[::-1]]
    assert np.array_equal(model.predict(future_covariates=shuffled).mean, found.mean)
    model.update(frame.iloc[:1, 0], future_covariates=shuffled[:1], past_covariates=shuffled[:1])
    plain.update(
        raw[:1, 0].astype(float),
        future_covariates=raw[:1, 1].astype(float),
        past_covariates=raw[:1, 3],
    )
    expected = plain.predict(future_covariates=raw[:2, 1].astype(float))
    assert np.array_equal(model.predict(future_covariates=ahead).mean, expected.mean)
    model.save(tmp_path / "f.tr")
    assert np.array_equal(
        Forecaster.load(tmp_path / "f.tr").predict(future_covariates=ahead).mean, expected.mean
    )


def test_several_targets_of_any_labels():
    frame = frame_of((0, ("a", 1), "b"))
    assert read_panel(frame, ColumnRoles(target_cols=[0, ("a", 1)])).series_names == (
        "0",
        "('a', 1)",
    )
    assert read_panel(frame, ColumnRoles(target_cols=("a", 1))).squeezed  # a tuple that is a label
    assert read_panel(frame, ColumnRoles(target_cols=(0, "b"))).series_names == (
        "0",
        "b",
    )  # a tuple of labels
    assert read_panel(frame, ColumnRoles(target_cols=0)).squeezed
    assert not read_panel(frame, ColumnRoles(target_cols=[0])).squeezed
    assert read_panel(frame, ColumnRoles(future_covariates=["b"])).series_names == ("0", "('a', 1)")
    nested = pd.DataFrame(
        frame.to_numpy(), columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "x")])
    )
    assert read_panel(nested, ColumnRoles(target_cols=("a", "y"))).series_names == ("('a', 'y')",)
    assert read_panel(nested).values.shape == (120, 3)


def test_duplicate_labels_are_refused_only_if_they_are_used():
    frame = frame_of(("a", "b", "a"))
    with pytest.raises(InvalidInput, match="2 columns of the frame are called 'a'"):
        read_panel(frame)
    with pytest.raises(InvalidInput, match="2 columns of the frame are called 'a'"):
        read_panel(frame, ColumnRoles(target_cols="b", future_covariates=["a"]))
    assert read_panel(frame, ColumnRoles(target_cols="b")).values.shape == (120, 1)
    mixed = frame_of((1, "1"))
    with pytest.raises(InvalidInput, match="2 columns of the frame are called '1'"):
        read_panel(mixed)


def test_long_frames_with_any_labels_and_identifiers():
    wide = frame_of(("a", "b"), 30)
    for ids in ((1, 2), ("x", "y"), (1.5, 2.5), ("nan", "x"), (("t", 1), ("t", 2))):
        long = pd.DataFrame({
            0: np.tile(np.arange(30), 2),
            "times": pd.Series([ids[0]] * 30 + [ids[1]] * 30, dtype=object),
            "mean": wide.to_numpy().T.reshape(-1),
        })  # fmt: skip
        panel = read_panel(long, ColumnRoles(time_col=0, id_col="times", target_cols="mean"))
        assert panel.series_names == tuple(map(str, ids))
        assert np.array_equal(panel.values, wide.to_numpy())
    for missing in (None, np.nan, pd.NA, pd.NaT, ""):
        long["times"] = pd.Series(["a"] * 59 + [missing], dtype=object)
        with pytest.raises(InvalidInput, match="no series is named in row 59"):
            read_panel(long, ColumnRoles(time_col=0, id_col="times", target_cols="mean"))


def test_series_of_a_later_frame_may_come_in_another_order(fast):
    frame = frame_of(("a", "b"))
    later = frame_of(("a", "b"), 160)
    model = Forecaster(**fast).fit(frame)
    found, turned = (model.backtest(f, keep_forecasts=True) for f in (later, later[["b", "a"]]))
    assert np.array_equal(found.mean, turned.mean)
    assert np.array_equal(found.actual, turned.actual)
    assert np.array_equal(
        model.anomalies(later).z_score, model.anomalies(later[["b", "a"]]).z_score,
        equal_nan=True,
    )  # fmt: skip
    rows = later.iloc[120:123]
    one, two = (Forecaster(**fast).fit(frame).update(f) for f in (rows, rows[["b", "a"]]))
    assert np.array_equal(one.predict().mean, two.predict().mean)
    long = later.rename_axis("t").reset_index().melt("t", var_name="who", value_name="y")
    names = {"time_col": "t", "id_col": "who", "target_cols": "y"}
    third = Forecaster(**fast).fit(long[long.t < 120], **names)
    backwards = third.backtest(long.iloc[::-1], **names)
    assert backwards.series_names == ("a", "b")
    assert backwards.mse == third.backtest(long, **names).mse


def test_series_that_are_missing_or_new_are_named(fast):
    model = Forecaster(**fast).fit(frame_of(("a", "b")))
    with pytest.raises(InvalidInput, match=r"fitted to 2 series, got 1.*\(b in one of them only\)"):
        model.backtest(frame_of(("a",), 160))


def test_values_to_update_with_have_a_column_for_each_series(fast):
    model = Forecaster(**fast).fit(frame_of(("a", "b")))
    for wrong in (np.zeros((2, 3)), np.zeros((2, 1)), np.zeros(4), 1.0, np.zeros((1, 2, 2))):
        with pytest.raises(InvalidInput, match="the values need one column for each, got shape"):
            model.update(wrong)
    assert model.state_.now == 119
    model.update([1.0, 2.0])
    model.update(np.ones((3, 2)))
    assert model.state_.now == 123


def test_dates_of_a_series_of_pandas_count_in_an_update(fast):
    days = pd.date_range("2024-01-01", periods=130)
    y = pd.Series(wave(130), index=days)
    gap = y.drop(y.index[[121, 122]])
    by_index, by_time = (Forecaster(**fast).fit(y[:120]) for _ in range(2))
    by_index.update(gap[120:])
    by_time.update(gap[120:].to_numpy(), times=gap.index[120:])
    assert by_index.state_.now == by_time.state_.now == 129
    assert np.array_equal(by_index.predict().mean, by_time.predict().mean)
    with pytest.raises(InvalidInput, match="repeated"):
        by_index.update(y[129:])


def test_names_of_columns_belong_to_frames_only():
    y = {"a": wave(60), "b": wave(60)}
    with pytest.raises(InvalidInput, match=r"name columns of a data frame, and y is a dict"):
        read_panel(y, ColumnRoles(target_cols="a"))
    series = tr.data.timeseries.TimeSeries(
        "s", ("a", "b"), np.datetime64("2024-01-01") + np.arange(60),
        __import__("torch").zeros(60, 2),
    )  # fmt: skip
    with pytest.raises(InvalidInput, match=r"name columns of a data frame, and y is a TimeSeries"):
        read_panel(series, ColumnRoles(target_cols="a"))
    with pytest.raises(InvalidInput, match=r"has times of its own: leave out times="):
        read_panel(series, times=np.arange(60))
    assert read_panel(series).series_names == ("a", "b")
    with pytest.raises(
        InvalidInput, match="future_covariates takes names of columns; got an array"
    ):
        read_panel(
            frame_of(("a", "b")), ColumnRoles(target_cols="a", future_covariates=np.zeros(120))
        )


def test_mappings_keep_their_covariates_and_refuse_half_of_the_times():
    days = pd.date_range("2024-01-01", periods=40)
    a, b = pd.Series(wave(40), index=days), pd.Series(wave(30), index=days[10:])
    panel = read_panel(
        {"a": a, "b": b}, future_covariates=np.arange(40.0), past_covariates=np.arange(40.0) ** 2
    )
    assert panel.future_covariates[:, 0, 0].tolist() == list(range(40))
    assert panel.past_covariates.shape == (40, 2, 1)
    with pytest.raises(InvalidInput, match="series 'b' has no time stamps, and others have"):
        read_panel({"a": a, "b": b.to_numpy()})
    with pytest.raises(InvalidInput, match="some series have dates"):
        read_panel({"a": a, "b": pd.Series(wave(40), index=np.arange(5, 45))})
