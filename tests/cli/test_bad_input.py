"""Bad input: a one-line error message, the exit code 2, and no output files."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import house_rows, write
from tractable.persistence import model_file as storage


def refused(done, *words: str) -> None:
    """Check that the error is one line with all these parts, and the exit code is 2."""
    assert done.exit_code == 2, (done.stdout, done.stderr)
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
    assert done.stdout == ""


def changed(tmp_path: Path, row: int, column: int, value: object) -> Path:
    header, rows = house_rows(40)
    rows[row - 1][column] = value
    return write(tmp_path / "bad.csv", header, rows)


FIT = ("--target", "price", "--drop", "name", "--epochs", 1)


def test_text_in_a_numeric_column(call, tmp_path):
    done = call("fit", changed(tmp_path, 17, 1, "large"), *FIT)
    refused(done, "bad.csv", "column 'area'", "row 17", "'large' is not a number")
    assert not (tmp_path / "out").exists()


def test_numbers_that_are_not_finite(call, tmp_path):
    refused(call("fit", changed(tmp_path, 2, 1, "inf"), *FIT), "'area'", "row 2", "not finite")


def test_text_in_a_numeric_target(call, tmp_path):
    done = call("fit", changed(tmp_path, 9, 4, "dear"), *FIT)
    refused(done, "column 'price'", "row 9", "'dear'")


def test_missing_values(call, tmp_path):
    done = call("fit", changed(tmp_path, 5, 1, ""), *FIT, "--missing", "refuse")
    refused(done, "column 'area'", "1 missing values", "row 5", "--missing drop", "--missing mean")


def test_an_unknown_missing_mode(call, houses):
    refused(call("fit", houses, *FIT, "--missing", "means"), "did you mean 'mean'?")


def test_a_target_with_one_class(call, tmp_path):
    data = write(tmp_path / "d.csv", ["x", "y"], [[i, "same"] for i in range(30)])
    refused(call("fit", data, "--target", "y"), "'y' has only one class, 'same'")


def test_a_target_that_does_not_vary(call, tmp_path):
    data = write(tmp_path / "d.csv", ["x", "y"], [[i, 1.5] for i in range(30)])
    refused(call("fit", data, "--target", "y", "--task", "regression"), "only one value, '1.5'")


def test_as_many_classes_as_rows(call, tmp_path):
    data = write(tmp_path / "d.csv", ["x", "y"], [[i, f"t{i}"] for i in range(30)])
    refused(call("fit", data, "--target", "y"), "30 classes in 30 rows")


def test_an_unknown_learner(call, houses):
    refused(call("fit", houses, *FIT, "--learner", "tagy"), "no learner 'tagy'", "'tagi'?")


def test_an_unknown_task(call, houses):
    refused(call("fit", houses, *FIT, "--task", "regresion"), "did you mean 'regression'?")


@pytest.mark.parametrize("option", ["--target", "--drop", "--id", "--categorical"])
def test_an_unknown_column(call, houses, option):
    words = ["--target", "price"] if option != "--target" else []
    refused(call("fit", houses, *words, option, "arae"), "'arae'", "did you mean 'area'")


def test_an_unknown_study(call):
    refused(call("run", "optimise1d"), "no study 'optimise1d'", "did you mean 'optimize1d'")


def test_an_unknown_command_and_option(call, houses):
    refused(call("fitt", houses), "fitt")
    refused(call("fit", houses, *FIT, "--lerner", "tagi"), "--lerner")
    refused(call("fit", houses), "--target")


def test_bad_numbers(call, houses):
    refused(call("fit", houses, *FIT, "--test", 1.5), "--test must lie between 0 and 1, got 1.5")
    refused(call("fit", houses, *FIT, "--hidden", "a,b"), "--hidden", "'a,b'")
    refused(call("fit", houses, *FIT, "--hidden", "0"), "--hidden")
    refused(call("fit", houses, "--target", "price", "--epochs", 0), "--epochs")
    refused(call("fit", houses, *FIT, "--seed", -1), "--seed")


def test_an_output_folder_that_cannot_be_written(call, houses, tmp_path):
    (tmp_path / "file").write_text("in the way")
    refused(call("fit", houses, *FIT, "--out", "file/below"), "file is not a folder")
    refused(call("run", "optimize1d", "--out", "file/below"), "file is not a folder")
    refused(call("predict", "m", houses, "-o", "file/below.csv"), "file is not a folder")
    refused(call("predict", "m", houses, "-o", "nowhere/below.csv"), "no folder nowhere")


def test_no_permission_to_write(call, houses, tmp_path, monkeypatch):
    # Simulated, because a superuser may write anywhere.
    monkeypatch.setattr("os.access", lambda path, mode, **more: not mode & os.W_OK)
    refused(call("fit", houses, *FIT, "--out", "m"), "no permission to write in")


def test_a_folder_in_use_is_not_replaced(call, houses, tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m/mine.txt").write_text("precious")
    refused(call("fit", houses, *FIT, "--out", "m"), "the folder m is not empty", "--force")
    assert (tmp_path / "m/mine.txt").read_text() == "precious"
    failed = call("fit", houses, "--target", "price", "--out", "m", "--force")  # names are text
    refused(failed, "column 'name': text with 120 distinct values", "--id", "--categorical")
    assert (tmp_path / "m/mine.txt").read_text() == "precious"
    assert call("fit", houses, *FIT, "--out", "m", "--force").exit_code == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["houses.csv", "m"]
    assert not (tmp_path / "m/mine.txt").exists()


def test_a_failed_fit_leaves_no_output(call, houses, tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("the\nroof fell in")

    monkeypatch.setattr("tractable.learners.TAGI.fit", fail)
    done = call("fit", houses, *FIT, "--out", "deep/er/m")
    assert done.exit_code == 1
    assert done.stderr == "error: training failed: the roof fell in\n"
    assert [p.name for p in tmp_path.iterdir()] == ["houses.csv"]
    done = call("fit", houses, *FIT, "--out", "deep/er/m", "--debug")
    assert "Traceback" in done.stderr


def test_a_missing_or_empty_file(call, tmp_path):
    refused(call("fit", "none.csv", *FIT), "no file none.csv")
    refused(call("fit", tmp_path, *FIT), "is a folder, not a CSV file")
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    refused(call("fit", empty, *FIT), "empty.csv is empty")
    empty.write_text("area,price\n")
    refused(call("fit", empty, *FIT), "a header and no rows")
    empty.write_bytes(b"\x00\x01\x02\xff\x81" * 20)
    refused(call("fit", empty, *FIT), "not text in UTF-8")


def test_inconsistent_headers_and_rows(call, tmp_path):
    data = tmp_path / "d.csv"
    data.write_text("area,price,area\n1,2,3\n")
    refused(call("fit", data, *FIT), "more than one column named 'area'")
    data.write_text("area,price\n1,2\n1,2,3\n")
    refused(call("fit", data, *FIT), "row 2: 3 values, but the header has 2 columns")
    data.write_text("price\n1\n2\n")
    refused(call("fit", data, "--target", "price"), "no columns to predict 'price' from")
    data.write_text("area,price\n1,2.5\n2,3.5\n")
    refused(call("fit", data, "--target", "price", "--task", "regression"), "2 rows are too few")
    data.write_text("area,price\n" + "\n".join(f"5,{i}.5" for i in range(20)))
    refused(call("fit", data, "--target", "price"), "all input columns of d.csv are constant")


def test_the_target_cannot_be_dropped(call, houses):
    refused(call("fit", houses, "--target", "price", "--drop", "price"), "cannot be an --id or")


@pytest.fixture
def model(call, houses, tmp_path) -> Path:
    assert call("fit", houses, *FIT, "--out", "m").exit_code == 0
    return tmp_path / "m/model.tr"


def test_a_model_of_another_version(call, model, houses, tmp_path):
    tensors, header = storage.read(model)
    table = {**header["table"], "format": 99}
    storage.write(tmp_path / "new.tr", tensors, {**header, "table": table})
    refused(call("predict", "new.tr", houses), "table format 99, this version reads 1")
    storage.write(tmp_path / "future.tr", tensors, {**header, "format": 7})
    refused(call("predict", "future.tr", houses), "file format 7, this version reads 2")


def test_files_that_are_not_models(call, model, houses, tmp_path):
    refused(call("predict", "none.tr", houses), "no model file at none.tr")
    refused(call("predict", houses, houses), "houses.csv is not a whole model file")
    tensors, header = storage.read(model)
    plain = {key: value for key, value in header.items() if key != "table"}
    storage.write(tmp_path / "plain.tr", tensors, plain)
    refused(call("predict", "plain.tr", houses), "not one of `tractable fit`")
    table = {**header["table"], "learner": "oracle"}
    storage.write(tmp_path / "odd.tr", tensors, {**header, "table": table})
    refused(call("predict", "odd.tr", houses), "damaged model file", "oracle")
    (tmp_path / "half.tr").write_bytes(model.read_bytes()[:2000])
    refused(call("predict", "half.tr", houses), "not a whole model file")


def test_data_incompatible_with_the_model(call, model, houses, tmp_path):
    header, rows = house_rows(5)
    other = write(tmp_path / "d.csv", ["Area", "colour"], [[1, "red"]])
    refused(call("predict", model, other), "'area'", "did you mean 'Area'?")
    rows[2][2] = "purple"
    done = call("predict", model, write(tmp_path / "d.csv", header, rows), "--unknown", "refuse")
    refused(
        done,
        "column 'colour', row 3: 'purple' is not in the",
        "known levels: 'blue', 'green', 'red'",
    )
    refused(call("predict", model, houses, "--level", 1), "--level must lie between 0 and 1")
    refused(call("predict", model, houses, "--missing", "drop"), "'drop'")


def test_a_failed_prediction_keeps_the_existing_file(call, model, houses, tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("old")
    header, rows = house_rows(5)
    rows[4][1] = "wide"
    bad = write(tmp_path / "d.csv", header, rows)
    refused(call("predict", model, bad, "-o", out), "row 5", "'wide' is not a number")
    assert out.read_text() == "old"


def test_reports_without_results(call, tmp_path):
    refused(call("report", "nowhere"), "no folder nowhere")
    (tmp_path / "empty").mkdir()
    refused(call("report", "empty"), "no results below empty")
    (tmp_path / "empty/results.json").write_text(json.dumps({"a": 1}))
    refused(call("report", "empty"), "does not hold results")


@pytest.mark.parametrize(
    "content", [{"seconds": "3"}, {"comparison": [{"name": "a", "paper": "1", "ours": 2}]},
                {"charts": {}}, {"notes": 1}, {"seeds": {}}, {"settings": 1}],
    ids=str,
)  # fmt: skip
def test_reports_refuse_results_of_wrong_types(call, tmp_path, content):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/results.json").write_text(json.dumps({"experiment": "a", **content}))
    done = call("report", "runs")
    refused(done, "runs/results.json", "has an invalid value", "must be")
    assert [p.name for p in (tmp_path / "runs").iterdir()] == ["results.json"]


def test_reports_show_no_images_of_other_folders(call, tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "secret.png").write_bytes(b"\x89PNG\r\n\x1a\nsecret")
    pictures = [{"file": "../secret.png"}, {"file": str(tmp_path / "secret.png")}]
    content = {"experiment": "a", "pictures": pictures}
    (tmp_path / "runs/results.json").write_text(json.dumps(content))
    assert call("report", "runs").exit_code == 0
    page = (tmp_path / "runs/report.html").read_text()
    assert "Not shown" in page
    assert "data:image" not in page
