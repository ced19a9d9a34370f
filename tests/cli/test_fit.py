"""Fit and predict on CSV files: evaluation on held-out rows, and self-contained model files."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import house_rows, write
from tractable.cli.tables import model_file
from tractable.persistence import model_file as storage
from tractable.report import Results
from tractable.sklearn import TAGIRegressor


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_fit_and_predict_a_regression(call, houses, tmp_path):
    done = call("fit", houses, "--target", "price", "--id", "name", "--epochs", 10, "--out", "m")
    assert done.exit_code == 0, done.stderr
    for words in (
        "Regression of price", "96 training rows, 24 test rows", "colour (3)",
        "constant columns: always", "coverage of 90 % intervals", "coverage of intervals (nominal",
    ):  # fmt: skip
        assert words in done.stdout
    results = Results.read(tmp_path / "m/results.json")
    metrics = results.metrics
    assert metrics["rmse"] < 0.3 * metrics["rmse_of_the_mean"]
    assert 0.6 < metrics["coverage"]["0.9"] <= 1
    assert results.calibration.kind == "coverage"
    assert "Coverage of central" in (tmp_path / "m/report.html").read_text()
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == [
        "model.tr", "report.html", "results.json",
    ]  # fmt: skip

    done = call("predict", "m", houses, "-o", "out.csv", "--level", 0.5)
    assert done.exit_code == 0, done.stderr
    rows = rows_of(tmp_path / "out.csv")
    assert list(rows[0]) == ["name", "mean", "std", "lower", "upper", "distance"]
    assert [row["name"] for row in rows] == [f"h{i}" for i in range(120)]
    mean, std, upper = (np.array([float(r[k]) for r in rows]) for k in ("mean", "std", "upper"))
    truth = np.array([float(r["price"]) for r in rows_of(houses)])
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.3 * truth.std()
    np.testing.assert_allclose(upper, mean + 0.6744898 * std, rtol=1e-6)  # half of a normal


def test_test_rows_are_not_used_for_training(call, houses, tmp_path):
    """Different targets in the test rows must give the same model."""
    call("fit", houses, "--target", "price", "--drop", "name", "--epochs", 3, "--out", "a")
    from tractable.cli.tables.target import TargetColumn, split_rows

    header, rows = house_rows()
    numbers = np.array([float(row[-1]) for row in rows])
    train, test = split_rows(TargetColumn("regression", numbers, ""), 0.2, 0)
    assert not set(train) & set(test)
    for place in test:
        rows[place][-1] = -12345.0
    changed = write(tmp_path / "changed.csv", header, rows)
    call("fit", changed, "--target", "price", "--drop", "name", "--epochs", 3, "--out", "b")
    first = call("predict", "a", houses).stdout
    assert first == call("predict", "b", houses).stdout
    found = [Results.read(tmp_path / name / "results.json").metrics["rmse"] for name in "ab"]
    assert found[1] > 3 * found[0]


def test_fit_and_predict_a_classification(call, kinds, tmp_path):
    done = call("fit", kinds, "--target", "kind", "--epochs", 10, "--out", "m", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["task"] == "classification"
    assert found["metrics"]["accuracy"] > 0.8
    assert found["metrics"]["classes"] == ["cat", "dog"]
    assert 0 <= found["metrics"]["ece"] < 0.5
    done = call("predict", found["model"], kinds, "--json")
    rows = json.loads(done.stdout)
    assert list(rows[0]) == ["label", "p_cat", "p_dog", "distance"]
    for row in rows:
        assert row["p_cat"] + row["p_dog"] == pytest.approx(1)
        assert row["label"] == ("cat" if row["p_cat"] >= row["p_dog"] else "dog")
    truth = [row["kind"] for row in rows_of(kinds)]
    assert np.mean([row["label"] == t for row, t in zip(rows, truth, strict=True)]) > 0.8


@pytest.mark.parametrize("learner", ["bbb", "net", "laplace"])
def test_other_learners(call, houses, learner, tmp_path):
    words = ("--target", "price", "--drop", "name", "--epochs", 2, "--hidden", "8")
    done = call("fit", houses, *words, "--learner", learner, "--out", learner)
    assert done.exit_code == 0, done.stderr
    done = call("predict", learner, houses)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("mean,std,lower,upper,distance\n")
    low, high, distance = np.loadtxt(done.stdout.splitlines(), delimiter=",", skiprows=1)[:, 2:].T
    assert (distance >= 0).all()
    assert (distance == 0).mean() > 0.8  # most rows are training rows
    assert (low < high).all()


def test_the_same_seed_gives_the_same_file(call, houses, tmp_path):
    words = ("fit", houses, "--target", "price", "--drop", "name", "--epochs", 2)
    call(*words, "--out", "a", "--seed", 5)
    call(*words, "--out", "b", "--seed", 5)
    call(*words, "--out", "c", "--seed", 6)
    a, b, c = (call("predict", name, houses).stdout for name in "abc")
    assert a == b
    assert a != c


def test_missing_values_are_imputed_or_dropped(call, tmp_path):
    header, rows = house_rows()
    rows[3][1], rows[5][2], rows[7][4] = "", "NA", "?"
    data = write(tmp_path / "gaps.csv", header, rows)
    words = ("fit", data, "--target", "price", "--drop", "name", "--epochs", 2)
    done = call(*words, "--missing", "drop", "--out", "a")
    assert "Left out 3 of 120 rows" in done.stdout
    done = call(*words, "--missing", "mean", "--out", "b")
    assert "Left out 1 of 120 rows" in done.stdout
    assert "Missing values of area (1), colour (1): replaced by the mean" in done.stdout
    area, colour = model_file.load(tmp_path / "b").columns
    assert sum(colour.fill) == pytest.approx(1)  # frequencies of the levels
    assert 30 < area.fill[0] < 200
    assert call("predict", "b", data).exit_code == 0  # as when fitted
    done = call("predict", "a", data, "--missing", "refuse")
    assert done.exit_code == 2
    assert "column 'area': 1 missing values, the first in row 4" in done.stderr
    wide = call("predict", "a", data)
    assert (
        "missing values are imputed, and intervals are wider accordingly: area (1), colour (1)"
        in wide.stderr
    )
    std = [float(line.split(",")[1]) for line in wide.stdout.splitlines()[1:]]
    assert std[3] > 3 * np.median(std)  # without its area
    filled = call("predict", "a", data, "--missing", "mean")
    assert len(filled.stdout.splitlines()) == 121


def test_other_delimiters_and_byte_order_marks(call, tmp_path):
    header, rows = house_rows(40)
    text = "\n".join(";".join(map(str, row)) for row in [header, *rows])
    data = tmp_path / "semi.csv"
    data.write_text("\ufeff" + text + "\n\n")
    done = call("fit", data, "--target", "price", "--id", "name", "--epochs", 1, "--out", "m")
    assert done.exit_code == 0, done.stderr
    assert "separated by ';'" in done.stdout


def test_integers_with_few_values_are_classes_by_default(call, tmp_path):
    rows = [[i / 10, i % 4] for i in range(60)]
    data = write(tmp_path / "grades.csv", ["x", "grade"], rows)
    done = call("fit", data, "--target", "grade", "--epochs", 1, "--out", "a")
    assert "Classification of grade (integers with 4 distinct values" in done.stdout
    done = call(
        "fit", data, "--target", "grade", "--epochs", 1, "--out", "b", "--task", "regression"
    )
    assert "Regression of grade (given by --task)" in done.stdout


def test_model_file_can_be_loaded_as_an_estimator(call, houses, tmp_path):
    call("fit", houses, "--target", "price", "--drop", "name", "--epochs", 2, "--out", "m")
    held = model_file.load(tmp_path / "m/model.tr")
    own = TAGIRegressor.load(tmp_path / "m/model.tr")
    x = np.array([[100.0, 0, 0, 1]])
    assert own.predict(x) == pytest.approx(held.estimator.predict(x))


def test_an_id_column_may_be_called_mean(call, tmp_path):
    header, rows = house_rows(30)
    header[0] = "mean"
    data = write(tmp_path / "d.csv", header, rows)
    call("fit", data, "--target", "price", "--id", "mean", "--epochs", 1, "--out", "m")
    assert call("predict", "m", data).stdout.startswith("mean,mean_2,std,lower,upper,distance\n")


def test_the_model_is_written_once(call, houses, monkeypatch):
    written = []
    write_file = storage.write

    def counted(path, tensors, header):
        written.append(sorted({"table", "estimator", "learner"} & header.keys()))
        write_file(path, tensors, header)

    monkeypatch.setattr(storage, "write", counted)
    done = call("fit", houses, "--target", "price", "--drop", "name", "--epochs", 1, "--out", "m")
    assert done.exit_code == 0, done.stderr
    assert written == [["estimator", "learner", "table"]]


def test_a_failed_write_keeps_the_existing_model(call, houses, monkeypatch, tmp_path):
    words = ("fit", houses, "--target", "price", "--drop", "name", "--epochs", 1, "--out", "m")
    assert call(*words).exit_code == 0
    before = call("predict", "m", houses).stdout

    def full(*arguments):
        raise OSError("No space left on device")

    monkeypatch.setattr(storage, "write", full)
    done = call(*words, "--seed", 1, "--force")
    assert done.exit_code == 1
    assert "No space left" in done.stderr
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert call("predict", "m", houses).stdout == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["houses.csv", "m"]


def test_ids_and_labels_are_escaped_against_formulas(call, tmp_path):
    """A spreadsheet executes cells that begin with these characters as formulas."""
    ids = ['=HYPERLINK("http://a.example")', "@SUM(A1)", "+49 171", "-x", "-3.5", "a=b"]
    labels = ["=cmd", "plain"]
    rows = [[ids[i % 6], (i % 2) + i / 100, labels[i % 2]] for i in range(60)]
    data = write(tmp_path / "d.csv", ["=who", "x", "kind"], rows)
    done = call("fit", data, "--target", "kind", "--id", "=who", "--epochs", 5, "--out", "m")
    assert done.exit_code == 0, done.stderr
    assert call("predict", "m", data, "-o", "out.csv").exit_code == 0
    found = rows_of(tmp_path / "out.csv")
    assert list(found[0]) == ["'=who", "label", "p_=cmd", "p_plain", "distance"]
    safe = [f"'{text}" for text in ids[:4]] + ids[4:]
    assert [row["'=who"] for row in found] == [safe[i % 6] for i in range(60)]
    assert {row["label"] for row in found} == {"'=cmd", "plain"}
    printed = call("predict", "m", data).stdout
    assert printed == (tmp_path / "out.csv").read_text()
    exact = json.loads(call("predict", "m", data, "--json").stdout)  # spreadsheets do not read JSON
    assert exact[0]["=who"] == ids[0]
