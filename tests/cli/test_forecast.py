"""``tractable forecast``: reads a series; writes a table, a figure, a model and a report."""

import csv
import json
import re

import numpy as np
import pytest

from tests.cli.conftest import write
from tractable.forecast import Forecaster


@pytest.fixture
def sales(tmp_path):
    t = np.arange(260)
    y = 50 + 10 * np.sin(2 * np.pi * t / 7) + np.random.default_rng(0).standard_normal(260)
    days = np.datetime64("2024-01-01") + t
    rows = [[str(day), round(float(value), 2)] for day, value in zip(days, y, strict=True)]
    return write(tmp_path / "sales.csv", ["day", "sold"], rows)


def test_a_series_is_forecast(call, sales):
    done = call("forecast", sales, "--time", "day", "--target", "sold", "--horizon", 7, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["metrics"]["model"]["mse"] < found["metrics"]["seasonal naive"]["mse"]
    with open(found["forecast"]) as stream:
        rows = list(csv.DictReader(stream))
    assert [row["time"] for row in rows] == [f"2024-09-{17 + k}" for k in range(7)]
    truth = 50 + 10 * np.sin(2 * np.pi * np.arange(260, 267) / 7)
    assert [float(row["mean"]) for row in rows] == pytest.approx(truth, abs=3)
    assert all(float(row["lower"]) < float(row["mean"]) < float(row["upper"]) for row in rows)
    page = sales.parent / found["report"]
    assert "data:image/png;base64" in page.read_text()
    assert "seasonal naive" in page.read_text()
    again = Forecaster.load(found["model"]).predict()
    assert again.mean == pytest.approx([float(row["mean"]) for row in rows], rel=1e-4)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--time", "date", "--target", "sold"], "sales.csv has no column 'date'"),
        (["--target", "sold", "--horizon", 500], "horizon of 500 steps is too long for a series"),
        (["--time", "day", "--target", "day"], "is not a number"),
        (["--time", "sold", "--target", "sold"], "time|stamp|sold"),
        (["--time", "day", "--target", "sold", "--test", "2"], "--test must lie between"),
        (
            ["--target", "sold", "--future-covariate", "sold"],
            "--future-covariate needs the next 7 values",
        ),
    ],
)
def test_errors_are_one_line(call, sales, words, told):
    horizon = [] if "--horizon" in words else ["--horizon", 7]
    done = call("forecast", sales, *words, *horizon)
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert re.search(told, done.stderr)
