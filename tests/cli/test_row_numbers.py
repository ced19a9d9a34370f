"""Messages and reports refer to rows by their numbers in the file, without the header."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.cli.conftest import write
from tractable.cli.errors import UsageError
from tractable.cli.tables.prepare import FitOptions, prepare
from tractable.report import Results

ROWS = 90
BAD = {
    "poisson": (-1, "got -1 in row"),
    "negative_binomial": (2.5, "got 2.5 in row"),
    "von_mises": (360, "got 360 in row"),
}


def counts(row: int, value: object, **cells: object) -> list[list[object]]:
    """Return rows of two inputs and a count, one of them with other values."""
    generator = np.random.default_rng(0)
    rows: list[list[object]] = [
        [round(x, 3), f"r{i}", int(generator.integers(0, 6))]
        for i, x in enumerate(generator.normal(size=ROWS), 1)
    ]
    rows[row - 1][2] = value
    for name, cell in cells.items():
        rows[int(name[1:]) - 1][0] = cell
    return rows


@pytest.mark.parametrize("likelihood", BAD)
@pytest.mark.parametrize("test", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_a_target_that_the_likelihood_excludes(tmp_path, likelihood, test, seed):
    """The row may be a training or a test row."""
    value, words = BAD[likelihood]
    path, header = tmp_path / "t.csv", ["x", "name", "y"]
    options = {"drop": ("name",), "test": test, "seed": seed, "likelihood": likelihood}
    chosen = FitOptions(write(path, header, counts(1, 1)), "y", tmp_path / "o", **options)
    split = prepare(chosen)
    for place in [*split.train[:2], *split.train[-2:], *split.test[:2], *split.test[-2:]]:
        write(path, header, counts(place + 1, value))
        message = (
            rf"t.csv, column 'y': .*{words} {place + 1}\b.*"
            rf"choose another --likelihood than {likelihood}"
        )
        with pytest.raises(UsageError, match=message):
            prepare(chosen)


def test_rows_that_are_left_out_are_counted(call, tmp_path):
    """With --missing drop, and rows without a target; nothing is left behind."""
    rows = counts(61, -3, n3="", n7="NA")
    rows[20][2] = ""
    write(tmp_path / "t.csv", ["x", "name", "y"], rows)
    for missing in ("drop", "mean", "infer"):
        done = call(
            "fit", "t.csv", "--target", "y", "--drop", "name", "--likelihood", "poisson",
            "--missing", missing,
        )  # fmt: skip
        assert done.exit_code == 2
        assert "got -3 in row 61:" in done.stderr
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("row", [1, 2, 55, ROWS])
def test_errors_of_every_command_name_the_row(call, tmp_path, row):
    rows = counts(row, 3)
    rows[row - 1][0] = "large"
    header = ["x", "name", "y"]
    write(tmp_path / "bad.csv", header, rows)
    write(tmp_path / "good.csv", header, counts(1, 1))
    for words in (
        ["fit", "bad.csv", "--target", "y", "--drop", "name"],
        ["fit", "bad.csv", "--target", "x", "--drop", "name", "--task", "regression"],
        ["diagnose", "bad.csv", "--target", "y", "--drop", "name"],
        ["density", "bad.csv", "--drop", "name"],
        ["impute", "bad.csv", "--drop", "name"],
        ["compare", "good.csv", "bad.csv", "--drop", "name"],
        ["compare", "bad.csv", "good.csv", "--drop", "name"],
        ["forecast", "bad.csv", "--target", "x", "--horizon", 2],
    ):
        done = call(*words)
        assert done.exit_code == 2
        assert done.stderr.startswith(f"error: bad.csv, column 'x', row {row}: 'large'"), words
    fitted = ("--target", "y", "--drop", "name", "--hidden", "", "--epochs", 1, "--out", "m")
    assert call("fit", "good.csv", *fitted).exit_code == 0
    done = call("predict", "m", "bad.csv")
    assert done.stderr.startswith(f"error: bad.csv, column 'x', row {row}: 'large'")
    (tmp_path / "ragged.csv").write_text("x,y\n\n" + "1,2\n" * (row - 1) + "\n1\n")
    assert f"row {row}: 1 values" in call("predict", "m", "ragged.csv").stderr


@pytest.mark.parametrize("seed", range(3))
def test_reports_name_the_worst_rows_by_their_numbers(call, tmp_path, seed, monkeypatch):
    monkeypatch.setattr("tractable.cli.commands.fit.write_report", lambda *some: None)
    monkeypatch.setattr("tractable.cli.commands.density.write_report", lambda *some: None)
    rows = [[i, i / 3, 2 * i + (i * 7919) % 3] for i in range(1, ROWS + 1)]
    rows[4][2] = ""  # is left out
    write(tmp_path / "t.csv", ["x", "z", "y"], rows)
    quick = ("--target", "y", "--drop", "z", "--hidden", "", "--epochs", 2, "--force")
    assert call("fit", "t.csv", *quick, "--seed", seed, "--out", "m").exit_code == 0
    found = Results.read(tmp_path / "m/results.json")
    worst = next(part for part in found.sections if part.title == "Rows with the largest errors")
    for number, observed, *_ in worst.rows:
        assert float(observed) == pytest.approx(float(rows[int(number) - 1][2]), rel=1e-3)
    rows = [[x, x * x % 17] for x, *_ in rows]
    rows[60] = [61, 1000]
    write(tmp_path / "d.csv", ["x", "y"], rows)
    words = ("density", "d.csv", "--components", 1, "--seed", seed, "--force", "--json")
    assert json.loads(call(*words).stdout)["most_unusual"][0]["row"] == 61
