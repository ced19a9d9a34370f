"""Unusual tables: no row or value is dropped or used silently."""

from __future__ import annotations

import csv
import io
import json
import math

import numpy as np
import pytest

from tests.cli.conftest import write
from tractable.cli.errors import UsageError
from tractable.cli.tables import reader

QUICK = ("--target", "y", "--hidden", "", "--epochs", 2, "--out", "m")


def table(rows: int = 60, seed: int = 0) -> list[list[object]]:
    generator = np.random.default_rng(seed)
    return [
        [round(x, 3), round(z, 3), ("a", "b", "c")[i % 3], round(x + z, 3)]
        for i, (x, z) in enumerate(generator.normal(size=(rows, 2)))
    ]


HEADER = ["x", "z", "kind", "y"]


@pytest.fixture(autouse=True)
def without_reports(monkeypatch):
    for name in ("fit", "density", "forecast"):
        monkeypatch.setattr(f"tractable.cli.commands.{name}.write_report", lambda *some: None)


@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_rows_with_only_missing_values_are_kept(call, tmp_path, ending):
    """Predictions match the rows of the file, whatever is missing."""
    write(tmp_path / "t.csv", HEADER, table())
    assert call("fit", "t.csv", *QUICK).exit_code == 0
    rows: list[list[object]] = [[0.5, 0.1, "a"], ["", "", ""], [0.5, 0.1, "b"], ["", "", ""]]
    if ending == "csv":
        write(tmp_path / "new.csv", HEADER[:3], rows)
    else:
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        for row in [HEADER[:3], *rows]:
            book.active.append([cell if cell != "" else None for cell in row])
        book.active.cell(40, 3).font = openpyxl.styles.Font(bold=True)  # a sheet with empty rows
        book.save("new.xlsx")
    done = call("predict", "m", f"new.{ending}")
    found = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(found) == 3  # empty rows at the end are ignored
    assert found[0]["mean"] != found[1]["mean"]
    assert float(found[1]["std"]) > float(found[0]["std"])


def test_blank_lines_are_ignored(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("\ufeff ,, \n\nx,y\n\n1,2\n   \n,\n3,4\n,\n\n , \n", encoding="utf-8")
    found = reader.read_table(path)
    assert found.header == ("x", "y")
    assert found.rows == [["1", "2"], ["", ""], ["3", "4"]]
    assert found.numbers == [1, 2, 3]


@pytest.mark.parametrize("cell", ["1e61", "-1e300", "1" + "0" * 70])
def test_numbers_too_large_to_compute_with_are_refused(call, tmp_path, cell):
    for column, name in enumerate("xzky"):
        if name == "k":
            continue
        rows = table()
        rows[33][column] = cell
        write(tmp_path / "t.csv", HEADER, rows)
        done = call("fit", "t.csv", *QUICK)
        assert done.stderr == f"error: t.csv, column '{name}', row 34: '{cell}' is too large\n"
        done = call("density", "t.csv")
        assert done.stderr.startswith(f"error: t.csv, column '{name}', row 34: '{cell}', expected")


@pytest.mark.parametrize("target", ["y", "kind"])
@pytest.mark.parametrize("cell", ["1e13", "-1e20", "1e39"])
def test_extreme_inputs_are_refused(call, tmp_path, cell, target):
    """Only finite numbers are written."""
    write(tmp_path / "t.csv", HEADER, table())
    assert call("fit", "t.csv", *QUICK, "--target", target).exit_code == 0
    rows = table(5)
    write(tmp_path / "near.csv", HEADER, [["1e11", *rows[0][1:]], *rows])
    done = call("predict", "m", "near.csv", "--json")
    assert done.exit_code == 0, done.stderr
    numbers = [v for row in json.loads(done.stdout) for v in row.values() if not isinstance(v, str)]
    assert all(map(math.isfinite, numbers))
    rows[3][1] = cell
    write(tmp_path / "far.csv", HEADER, rows)
    done = call("predict", "m", "far.csv")
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: far.csv, column 'z', row 4: '{cell}' is more than 1e+12")


def test_columns_missing_in_one_table_have_no_distance(call, tmp_path):
    rows = table(60)
    write(tmp_path / "a.csv", HEADER, rows)
    write(tmp_path / "b.csv", HEADER, [[x, "", kind, y] for x, _, kind, y in table(60, seed=1)])
    found = json.loads(call("compare", "a.csv", "b.csv", "--json").stdout)
    first = found["columns"][0]
    assert first["column"] == "z"
    assert first["wasserstein"] is None
    assert first["differs"]
    assert found["columns"][1]["wasserstein"] is not None
    lines = call("compare", "a.csv", "b.csv").stdout.splitlines()
    assert next(line.split() for line in lines if line.startswith("z "))[3] == "–"


@pytest.mark.parametrize(
    ("cells", "counts"),
    [("012", True), ("210", True), ("0123456789", True), ("011", False), ("0a2", False)],
)
def test_an_unnamed_first_column_of_row_numbers(tmp_path, cells, counts):
    path = tmp_path / "t.csv"
    path.write_text(",x\n" + "".join(f"{cell},5\n" for cell in cells))
    assert reader.read_table(path).counter == ("column_1" if counts else None)


def test_forecast_names_rows_and_times_as_the_file_has_them(call, tmp_path):
    hours = [f"2024-01-{1 + i // 24:02d} {i % 24:02d}:00:00" for i in range(96)]
    rows: list[list[object]] = [[h, 5 + math.sin(i / 24 * 6.28)] for i, h in enumerate(hours)]
    words = ("forecast", "t.csv", "--time", "t", "--target", "y", "--horizon", 25, "--force")
    write(tmp_path / "t.csv", ["t", "y"], rows)
    assert call(*words, "--out", "f").exit_code == 0
    with (tmp_path / "f/forecast.csv").open(newline="") as stream:
        times = [row["time"] for row in csv.DictReader(stream)]
    assert times[:2] == ["2024-01-05T00:00:00", "2024-01-05T01:00:00"]
    assert times[24] == "2024-01-06T00:00:00"
    write(tmp_path / "t.csv", ["t", "y"], [*rows[:50], ["", 5], *rows[51:]])
    assert "t has a missing stamp in row 51" in call(*words).stderr
    write(tmp_path / "t.csv", ["t", "y"], [*rows[:60], [hours[60], -3], *rows[61:]])
    done = call(*words, "--transform", "log")
    assert done.stderr.startswith("error: t.csv, column 'y': transform='log' needs larger values")
    assert "row 61 has -3" in done.stderr


def test_laplace_error_lists_the_supported_likelihoods(call, tmp_path):
    write(tmp_path / "t.csv", HEADER, table())
    done = call("fit", "t.csv", *QUICK, "--learner", "laplace", "--likelihood", "poisson")
    assert done.exit_code == 2
    assert "supports only --likelihood normal and categorical, got poisson" in done.stderr


def test_duplicate_names_are_refused_whatever_blanks_are_around_them(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x, x ,y\n1,2,3\n")
    with pytest.raises(UsageError, match="more than one column named 'x'"):
        reader.read_table(path)
