"""Time stamps: even steps are inferred, gaps are missing, all else is refused by name."""

import numpy as np
import pandas as pd
import pytest

from tractable.errors import InvalidInput
from tractable.forecast.data_frames import ColumnRoles
from tractable.forecast.panel import read_panel
from tractable.forecast.time_index import infer_grid, to_timestamps


@pytest.mark.parametrize(
    ("frequency", "season"),
    [("h", 24), ("D", 7), ("MS", 12), ("ME", 12), ("QS", 4), ("15min", 96), ("YS", 1), ("W", 52)],
)
def test_frequencies_of_pandas_go_on_as_pandas_does(frequency, season):
    index = pd.date_range("2019-01-31", periods=40, freq=frequency)
    grid = infer_grid(to_timestamps(index[:30]))
    assert grid.season_length == season
    assert (grid.stamps(30, 10) == index[30:].to_numpy().astype("datetime64[us]")).all()
    assert grid.steps_from_start(to_timestamps(index)).tolist() == list(range(40))


def test_numbers_and_texts_are_stamps():
    assert infer_grid(np.array([5, 7, 11])).stamps(0, 4).tolist() == [5, 7, 9, 11]
    assert infer_grid(np.array([0.0, 0.1, 0.2, 0.4])).steps_from_start(
        np.array([0.5])
    ).tolist() == [5]
    grid = infer_grid(to_timestamps(["2024-01", "2024-02", "2024-04"]))
    assert grid.steps_from_start(to_timestamps(["2024-12"])).tolist() == [11]
    zoned = pd.date_range("2024-03-30", periods=60, freq="h", tz="Europe/Paris")
    assert infer_grid(to_timestamps(zoned)).season_length == 24  # the night on which clocks change


@pytest.mark.parametrize(
    ("stamps", "words"),
    [
        (["2024-01-01", "2024-01-02", "2024-01-02"], "repeated time stamp: 2024-01-02"),
        (["2024-01-01T00", "2024-01-01T01", "2024-01-01T02", "2024-01-01T03:20"], "T03:20"),
        ([0, 1, 2, 3.5, 4], "irregular time stamps: 3.5 comes after 2"),
        (["2024-01-01", "yesterday"], "'yesterday' in row 1 is neither a date"),
        (["2024-01-01", None], "missing stamp in row 1"),
    ],
)
def test_bad_stamps_are_named(stamps, words):
    with pytest.raises(InvalidInput, match=words):
        read_panel(np.arange(len(stamps)) * 1.0, times=stamps)


def test_gaps_become_missing_and_order_does_not_matter():
    frame = pd.DataFrame({"t": pd.to_datetime(["2024-01-04", "2024-01-01", "2024-01-02"])})
    frame["y"] = [4.0, 1.0, 2.0]
    panel = read_panel(frame, ColumnRoles(time_col="t", target_cols="y"))
    assert np.array_equal(panel.values[:, 0], [1, 2, np.nan, 4], equal_nan=True)
    assert panel.squeezed
    assert str(panel.stamps[2]).startswith("2024-01-03")


def series(rows=6):
    return pd.DataFrame(
        {"a": np.arange(rows) * 1.0, "b": np.arange(rows) * 2.0},
        index=pd.date_range("2024-01-01", periods=rows, freq="D"),
    )


def test_wide_long_and_mappings_are_the_same_panel():
    wide = series()
    long = wide.rename_axis("t").reset_index().melt("t", var_name="who", value_name="y")
    parts = [
        read_panel(wide),
        read_panel(long, ColumnRoles(time_col="t", id_col="who", target_cols="y")),
        read_panel({"a": wide["a"], "b": wide["b"]}),
        read_panel({"a": wide["a"].to_numpy(), "b": wide["b"].tolist()}, times=wide.index),
    ]
    for panel in parts:
        assert panel.series_names == ("a", "b")
        assert (panel.values == wide.to_numpy()).all()
        assert (panel.stamps == wide.index.to_numpy().astype("datetime64[us]")).all()


def test_repeated_stamps_of_one_series_are_named():
    long = pd.DataFrame({"t": [1, 2, 1, 2, 2], "who": list("aabbb"), "y": np.arange(5.0)})
    with pytest.raises(InvalidInput, match="repeated time stamp of 'b': 2"):
        read_panel(long, ColumnRoles(time_col="t", id_col="who", target_cols="y"))


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (["a", "b"], "must be numbers"),
        (np.array(["2024-01-01"], "datetime64[D]"), "must be numbers"),
        ([1.0, np.inf], "infinite value in row 1"),
        ([], "no values"),
        (np.zeros((2, 2, 2)), "one- or two-dimensional"),
    ],
)
def test_what_is_not_numbers_is_refused(y, words):
    with pytest.raises(InvalidInput, match=words):
        read_panel(y)


def test_columns_that_are_not_there_get_the_nearest_name():
    with pytest.raises(InvalidInput, match="Did you mean 'prices'"):
        read_panel(pd.DataFrame({"prices": [1.0]}), ColumnRoles(target_cols="price"))
    with pytest.raises(InvalidInput, match="column 'y' must be numbers"):
        read_panel(pd.DataFrame({"y": ["one", "two"]}), ColumnRoles(target_cols="y"))
