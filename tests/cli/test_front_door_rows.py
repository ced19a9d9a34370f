"""Command lines for rows and series with odd input: exit code and first line of each.

The same files as for ``fit`` and ``predict``; none may end in an unexpected error or in a
silently wrong result.
"""

# ruff: noqa: E501

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.cli.conftest import answers
from tests.cli.test_front_door import HEADER, ROWS, files, rows, text
from tractable.cli.app import app

ONE = ["--components", "1", "--force"]
AHEAD = ["--target", "y", "--horizon", "3", "--force"]


def series(folder: Path) -> None:
    """Return two months of days in a common written format."""
    days = [f"{d:02d}.{m:02d}.2024" for m in (1, 3) for d in range(1, 32)]
    days[31:31] = [f"{d:02d}.02.2024" for d in range(1, 30)]
    lines = [
        [day, f"{10 + (k % 7) + 0.25 * (k % 3):.2f}".replace(".", ",")]
        for k, day in enumerate(days)
    ]
    (folder / "days.csv").write_text(text(["day", "y"], lines, ";"), encoding="utf-8")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder, before = tmp_path_factory.mktemp("rows"), Path.cwd()
    files(folder)
    series(folder)
    os.chdir(folder)
    quick = pytest.MonkeyPatch()  # reports have separate tests
    quick.setattr("tractable.cli.commands.density.write_report", lambda results, folder: None)
    quick.setattr("tractable.cli.commands.forecast.write_report", lambda results, folder: None)
    done = CliRunner().invoke(app, ["density", "german_dates.csv", "--out", "g", *ONE])
    assert done.exit_code == 0, done.stderr
    yield folder
    quick.undo()
    os.chdir(before)


COMMANDS: list[tuple[list[str], int, str]] = [
    (["density"], 2, "Missing argument 'DATA'."),
    (["density", "none.csv"], 2, "no file none.csv"),
    (["density", "data.pdf"], 2, "data.pdf is a PDF: save it as CSV"),
    (["density", "t.csv", *ONE], 0, "Dates, encoded as days: day."),
    (["density", "t.csv.gz", *ONE], 0, "report: out/t-density/report.html"),
    (["density", "pandas.csv", *ONE], 0, "Left out the first column, an unnamed row index"),
    (["density", "latin.csv", *ONE], 0, "Not UTF-8: read as Windows-1252 (Western Europe)"),
    (["density", "latin.csv", *ONE, "--encoding", "utf-8"], 2, "latin.csv is not text in UTF-8"),
    (["density", "german.csv", *ONE], 0, "60 rows of 5 columns"),
    (["density", "ambiguous.csv", *ONE], 2, "ambiguous.csv, column 'size': '1,000' is ambiguous"),
    (["density", "ambiguous.csv", *ONE, "--decimal", ","], 0, "60 rows of 5 columns"),
    (["density", "t.csv", *ONE, "--decimal", "x"], 2, "--decimal must be , or ., got 'x'"),
    (["density", "two_ways.csv", *ONE], 2, "two_ways.csv, column 'day': dates such as '01/01/2024' are"),
    (["density", "names.csv", *ONE], 2, "names.csv, column 'town': text with 60 distinct values in 60"),
    (["density", "names.csv", *ONE, "--id", "town"], 0, "60 rows of 4 columns"),
    (["density", "gaps.csv", *ONE], 0, "Missing values of size are integrated out"),
    (["density", "column_gone.csv", *ONE], 2, "column_gone.csv, column 'size' has no values: --drop it"),
    (["density", "few.csv", *ONE], 2, "few.csv has 5 rows: expected at least 10"),
    (["density", "t.csv", *ONE, "--level", "99"], 2, "--level must lie between 0 and 1, got 99.0"),
    (["sample", "none"], 2, "no model file at none"),
    (["sample", "notamodel.tr"], 2, "notamodel.tr is not a whole model file"),
    (["sample", "g", "-n", "0"], 2, "--n-samples must be from 1 to"),
    (["sample", "g", "-n", "3"], 0, "size,town,day,kind,y"),
    (["sample", "g", "-n", "3", "-o", "s.feather"], 2, "s.feather must end in .csv"),
    (["sample", "g", "-n", "3", "-o", "no/s.csv"], 2, "no folder no for s.csv"),
    (["sample", "g", "-n", "3", "-o", "s.csv.gz"], 0, "3 rows written to s.csv.gz"),
    (["impute", "t.csv"], 2, "t.csv has no missing values in size, town, day, kind, y"),
    (["impute", "gaps.csv", "-o", "i.csv"], 0, "15 values imputed (size 15): i.csv"),
    (["impute", "gaps.csv", "-o", "i.docx"], 2, "i.docx must end in .csv"),
    (["impute", "gaps.csv", "--model", "none"], 2, "no model file at none"),
    (["impute", "gaps.csv", "--n-samples", "1"], 2, "--n-samples must be at least 2, got 1"),
    (["compare", "t.csv"], 2, "Missing argument 'B'."),
    (["compare", "t.csv", "none.csv"], 2, "no file none.csv"),
    (["compare", "t.csv", "few.csv"], 2, "few.csv has 5 rows: expected at least 20"),
    (["compare", "t.csv", "bom.csv"], 0, "The tables are the same: 60 rows are in both"),
    (["compare", "t.csv", "days.csv", "--drop", "day", "--drop", "y"], 2, "t.csv and days.csv have no columns"),
    (["forecast", "days.csv", "--target", "y"], 2, "Missing option '--horizon'."),
    (["forecast", "days.csv", *AHEAD, "--time", "day"], 0, "time step 1 day, season length 7"),
    (["forecast", "days.csv", *AHEAD, "--time", "dya"], 2, "days.csv has no column 'dya': did you mean 'day'"),
    (["forecast", "days.csv", *AHEAD, "--learner", "tagy"], 2, "no learner 'tagy': did you mean 'tagi'?"),
    (["forecast", "two_ways.csv", *AHEAD, "--time", "day"], 2, "two_ways.csv, column 'day': dates such as"),
    (["forecast", "t.csv", *AHEAD, "--time", "day"], 2, "t.csv: "),
    (["forecast", "word.csv", "--target", "size", "--horizon", "3"], 2, "word.csv, column 'size', row 17: 'large' is not a number"),
    (["diagnose", "t.csv"], 2, "Missing option '--target'."),
    (["diagnose", "few.csv", "--target", "y"], 2, "5 rows are too few: expected at least 10"),
    (["diagnose", "latin.csv", "--target", "y", "--encoding", "utf-8"], 2, "latin.csv is not text in UTF-8"),
    (["diagnose", "ambiguous.csv", "--target", "y"], 2, "ambiguous.csv, column 'size': '1,000' is ambiguous"),
    (["diagnose", "t.csv", "--target", "y", "--learner", "tagy"], 2, "no learner 'tagy': did you mean 'tagi'?"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code", "said"), COMMANDS, ids=[" ".join(words) for words, *_ in COMMANDS]
)
def test_a_command(place, words, code, said):
    answers(words, code, said)


def test_samples_have_the_format_of_the_table(place):
    made = CliRunner().invoke(app, ["sample", "g", "-n", "20", "-o", "new.csv"])
    assert made.exit_code == 0, made.stderr
    with (place / "new.csv").open(newline="") as stream:
        new = list(csv.DictReader(stream))
    old = [dict(zip(HEADER, row, strict=True)) for row in rows()]
    assert all(len(row["size"].partition(",")[2]) == 2 for row in new)  # a decimal comma
    days = [row["day"].split(".") for row in new]
    assert all(len(d) == 3 and d[2] in ("2023", "2024", "2025") for d in days)
    assert {row["town"] for row in new} <= {row["town"] for row in old}
    again = CliRunner().invoke(app, ["impute", "new.csv", "--model", "g"])
    assert again.stderr.startswith("error: new.csv has no missing values")


@pytest.mark.parametrize("ending", ["xlsx", "parquet"])
def test_imputed_rows_and_samples_have_the_requested_file_type(place, ending):
    pytest.importorskip("openpyxl" if ending == "xlsx" else "pyarrow")
    pandas = pytest.importorskip("pandas")
    read = pandas.read_excel if ending == "xlsx" else pandas.read_parquet
    run = CliRunner()
    done = run.invoke(app, ["impute", "gaps.csv", "--level", "0.9", "-o", f"i.{ending}"])
    assert done.exit_code == 0, done.stderr
    filled = read(place / f"i.{ending}")
    assert len(filled) == ROWS
    assert filled["size"].dtype == float  # numbers, not text
    assert filled["size"].notna().all()
    assert filled["size_lower"].notna().sum() == 15
    holes = filled["size_lower"].notna()
    assert (filled["size_lower"] < filled["size_upper"])[holes].all()
    done = run.invoke(app, ["sample", "g", "-n", "4", "-o", f"s.{ending}"])
    assert done.exit_code == 0, done.stderr
    assert list(read(place / f"s.{ending}").columns) == HEADER


def test_a_missing_date_is_imputed_by_a_date(place):
    lines = [[*row[:2], "" if i % 9 == 0 else row[2], *row[3:]] for i, row in enumerate(rows())]
    (place / "no_day.csv").write_text(text(HEADER, lines))
    done = CliRunner().invoke(
        app, ["impute", "no_day.csv", "--level", "0.9", "-o", "days_filled.csv"]
    )
    assert done.exit_code == 0, done.stderr
    with (place / "days_filled.csv").open(newline="") as stream:
        found = list(csv.DictReader(stream))
    for row in found[::9]:
        assert row["day_lower"] < row["day"] < row["day_upper"]
        assert "2023-01" < row["day"] < "2025-12"
    assert [row["day"] for row in found][1:9] == [line[2] for line in lines][1:9]
