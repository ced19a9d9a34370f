"""The three time series."""

import numpy as np
import pytest
import torch

from tractable import data


def test_a_series_with_quotes_and_carriage_returns(make_folder):
    content = b'"Month","Passengers"\r\n"1949-01",112\r\n"1949-02",118.5'
    make_folder({"timeseries/airline-passengers.csv": content})
    series = data.airline()
    assert series.columns == ("Passengers",)
    assert series.values.tolist() == [[112], [118.5]]
    assert series.values.dtype == torch.float32
    assert series.times.tolist() == np.array(["1949-01", "1949-02"], "datetime64[M]").tolist()
    assert series.times.dtype == "datetime64[M]"


def test_a_series_with_several_columns(make_folder):
    content = b"date,HUFL,OT\n2016-07-01 00:00:00,5.8,30.5\n2016-07-01 01:00:00,5.7,27.8\n"
    make_folder({"timeseries/ETTh1.csv": content})
    series = data.etth1(dtype=torch.float64)
    assert series.columns == ("HUFL", "OT")
    assert series.values.tolist() == [[5.8, 30.5], [5.7, 27.8]]
    assert series.times[1] - series.times[0] == np.timedelta64(1, "h")


@pytest.mark.parametrize("load", [data.airline, data.sunspots, data.etth1])
def test_a_missing_series_is_named(load, monkeypatch):
    monkeypatch.delenv("TRACTABLE_DATA", raising=False)
    with pytest.raises(data.DataNotFound, match=r"data file timeseries/.*\.csv was not found"):
        load()


@pytest.mark.parametrize(
    ("load", "length", "first", "last"),
    [
        (data.airline, 144, ("1949-01", 112), ("1960-12", 432)),
        (data.sunspots, 2820, ("1749-01", 58.0), ("1983-12", 33.4)),
        (data.etth1, 17_420, ("2016-07-01T00", 5.827), ("2018-06-26T19", 10.114)),
    ],
)
def test_the_series_are_the_published_ones(real_data, load, length, first, last):
    series = load()
    assert series.values.shape == (length, len(series.columns))
    assert series.times.shape == (length,)
    assert len(set(np.diff(series.times))) == 1
    assert (str(series.times[0]), str(series.times[-1])) == (first[0], last[0])
    assert series.values[0, 0].item() == pytest.approx(first[1], rel=1e-6)
    assert series.values[-1, 0].item() == pytest.approx(last[1], rel=1e-6)


def test_the_columns_of_etth1(real_data):
    assert data.etth1().columns == ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
