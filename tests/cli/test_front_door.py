"""A table of command lines, most with odd input: exit code and first line of each.

None may end in an unexpected error (exit code 1), and none in a silently wrong result: messages
report how odd input was treated.
"""

# ruff: noqa: E501

from __future__ import annotations

import csv
import gzip
import io
import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.cli.conftest import answers
from tractable.cli.app import app
from tractable.cli.tables.model_file import estimator_class

ROWS = 60
FAST = ["--hidden", "", "--epochs", "2", "--force"]
FIT = ["--target", "y", *FAST]


def rows() -> list[list[str]]:
    rng = np.random.default_rng(0)
    made = []
    for i in range(ROWS):
        size, town = rng.normal(100, 20), ("Aix", "Brno", "Cork")[i % 3]
        y = 2 * size + 30 * (town == "Brno") + rng.normal(0, 5)
        kind = "big" if y > 210 else "small"
        day = f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}"
        made.append([f"{size:.2f}", town, day, kind, f"{y:.2f}"])
    return made


HEADER = ["size", "town", "day", "kind", "y"]


def text(header: list[str], lines: list[list[str]], delimiter: str = ",") -> str:
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter, lineterminator="\n").writerows([header, *lines])
    return stream.getvalue()


def changed(column: str, cell, at: int | None = None) -> str:
    """The table with one cell, or a whole column, changed."""
    lines, place = rows(), HEADER.index(column)
    for i, line in enumerate(lines):
        if at is None or i == at:
            line[place] = cell(line[place], i) if callable(cell) else cell
    return text(HEADER, lines)


def comma(lines: list[list[str]]) -> list[list[str]]:
    return [[cell.replace(".", ",") for cell in line] for line in lines]


def files(folder: Path) -> None:
    """One file for every kind of odd table."""
    plain, whole = rows(), text(HEADER, rows())
    index = [[str(i), *line] for i, line in enumerate(plain)]
    made: dict[str, str | bytes] = {
        "t.csv": whole,
        "pandas.csv": text(["", *HEADER], index),
        "latin.csv": whole.replace("Aix", "Köln").encode("latin-1"),
        "utf16.csv": whole.encode("utf-16"),
        "bom.csv": "\ufeff" + whole,
        "t.csv.gz": gzip.compress(whole.encode()),
        "broken.gz": gzip.compress(whole.encode())[:60],
        "german.csv": text(HEADER, comma(plain), ";"),
        "tabs.csv": text(HEADER, plain, "\t"),
        "pipes.csv": text(HEADER, plain, "|"),
        "quoted_comma.csv": text(HEADER, comma(plain)),
        "thousands.csv": changed("size", lambda c, i: f"{1000 + i:,}.5"),
        "ambiguous.csv": changed("size", lambda c, i: f"{1000 + i:,}"),
        "dollars.csv": changed("size", lambda c, i: f"${c}"),
        "percent.csv": changed("size", lambda c, i: f"{c} %"),
        "us_dates.csv": changed("day", lambda c, i: f"{1 + i % 12:02d}/{1 + i % 28:02d}/2024"),
        "german_dates.csv": text(
            HEADER,
            [
                [s.replace(".", ","), t, f"{d[8:]}.{d[5:7]}.{d[:4]}", *rest]
                for s, t, d, *rest in plain
            ],
            ";",
        ),
        "two_ways.csv": changed("day", lambda c, i: f"{1 + i % 12:02d}/{1 + i % 11:02d}/2024"),
        "times.csv": changed("day", lambda c, i: f"{c} {i % 24:02d}:30"),
        "a_bad_date.csv": changed("day", "2024-13-45", 40),
        "nohead.csv": text(plain[0], plain[1:]),
        "ragged.csv": whole + "1,2\n",
        "twice.csv": text(["size", "size", "day", "kind", "y"], plain),
        "unnamed.csv": text(["size", "", "day", "kind", "y"], plain),
        "trailing.csv": "\n".join(f"{line}," for line in whole.splitlines()),
        "empty.csv": "",
        "blank.csv": "\n\n",
        "only_header.csv": text(HEADER, []),
        "gaps.csv": changed("size", lambda c, i: "" if i % 4 == 0 else c),
        "no_y.csv": changed("y", lambda c, i: "NA" if i % 10 == 0 else c),
        "all_y_gone.csv": changed("y", ""),
        "column_gone.csv": changed("size", ""),
        "infinite.csv": changed("size", "inf", 3),
        "word.csv": changed("size", "large", 16),
        "names.csv": changed("town", lambda c, i: f"n{i}"),
        "constant.csv": changed("size", "5"),
        "one_class.csv": changed("kind", "big"),
        "rare.csv": changed("kind", lambda c, i: "odd" if i == 7 else "even"),
        "same_y.csv": changed("y", "1.5"),
        "noise.csv": changed("y", lambda c, i: str((i * 7919) % 101 + 0.5)),
        "outlier.csv": changed("size", "1000000000", 5),
        "unicode.csv": text(["Größe ✓", *HEADER[1:]], plain),
        "formula.csv": changed("town", lambda c, i: "=1+1" if i % 2 else "b"),
        "few.csv": text(HEADER, plain[:5]),
        "new.csv": text(HEADER[:4], [["100", "Delft", "2024-05-01", "big"], ["90", "aix", "", ""]]),
        "fewer.csv": text(HEADER[1:], [line[1:] for line in plain]),
        "gaps_new.csv": text(HEADER[:4], [["", "Aix", "2024-05-01", "big"]]),
        "other_target.csv": text(HEADER, [["100", "Aix", "2024-05-01", "big", "cheap"]]),
        "data.pdf": b"%PDF-1.4 nothing",
        "old.xls": b"\xd0\xcf\x11\xe0 old",
        "binary.csv": bytes(range(256)) * 20,
        "zip.xlsx": b"PK\x03\x04 not a workbook",
        "bad.parquet": b"PAR1 not a table",
        "picture.csv": b"\x89PNG\r\n\x1a\n....",
        "quote.csv": whole + '"open,1,2,3,4\n',
        "notamodel.tr": "hello",
    }
    for name, content in made.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)
    (folder / "folder").mkdir()
    (folder / "used").mkdir()
    (folder / "used/mine.txt").write_text("precious")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder of odd files, and two fitted models."""
    folder, before = tmp_path_factory.mktemp("door"), Path.cwd()
    files(folder)
    os.chdir(folder)
    quick = pytest.MonkeyPatch()  # reports have tests of their own
    quick.setattr("tractable.cli.commands.fit.write_report", lambda results, folder: None)
    quick.setattr("tractable.cli.commands.report.write_report", lambda results, folder: None)
    quick.setattr("tractable.cli.commands.fit.permutation_importance", lambda *some: [])
    quick.setattr("tractable.cli.commands.fit.estimator_class", _quick)
    run = CliRunner()
    for words in (
        ["--target", "y", "--out", "m"],
        ["--target", "kind", "--drop", "y", "--out", "k"],
    ):
        done = run.invoke(app, ["fit", "t.csv", *words, *FAST])
        assert done.exit_code == 0, done.stderr
    yield folder
    quick.undo()
    os.chdir(before)


def _quick(learner: str, task: str):
    """An estimator that chooses nothing: how good it is, is not the question here."""
    kind = estimator_class(learner, task)
    return lambda **options: kind(
        **{"n_estimators": 1, "calibrate": False, "relevance": False, **options}
    )


GOOD = "48 training rows, 12 test rows; 4 columns"

#: The words, the exit code, and what is said: of a refusal its only line begins so; of work that was
#: done, what stands in standard output or error.
COMMANDS: list[tuple[list[str], int, str]] = [
    # --- the door itself
    ([], 0, "Usage: tractable [OPTIONS] COMMAND [ARGS]..."),
    (["diagnose", "--help"], 0, "Find the sources of a model's error and recommend improvements."),
    (["--help"], 0, "Bayesian neural networks for tables, time series and more."),
    (["-h"], 0, "Usage: tractable"),
    (["--version"], 0, "tractable 0."),
    (["version"], 2, "No such command 'version'."),
    (["fti"], 2, "No such command 'fti'."),
    (["fit"], 2, "Missing argument 'DATA'."),
    (["fit", "t.csv"], 2, "Missing option '--target'."),
    (["fit", "--help"], 0, "Fit a model to a table, evaluate it on held-out rows"),
    (["predict"], 2, "Missing argument 'MODEL'."),
    (["predict", "m"], 2, "Missing argument 'DATA'."),
    (["predict", "--help"], 0, "Predict the rows of a table with a saved model."),
    (["report"], 2, "Missing argument 'DIR'."),
    (["info"], 0, "tractable"),
    (["list"], 0, "missing"),
    # --- files of all kinds
    (["fit", "t.csv", *FIT], 0, GOOD),
    (["fit", "none.csv", *FIT], 2, "no file none.csv"),
    (["fit", "folder", *FIT], 2, "folder is a folder, not a CSV file"),
    (["fit", "pandas.csv", *FIT], 0, "Left out the first column, an unnamed row index"),
    (["fit", "latin.csv", *FIT], 0, "Not UTF-8: read as Windows-1252 (Western Europe)"),
    (["fit", "latin.csv", *FIT, "--encoding", "latin-1"], 0, GOOD),
    (["fit", "latin.csv", *FIT, "--encoding", "utf-8"], 2, "latin.csv is not text in UTF-8"),
    (["fit", "t.csv", *FIT, "--encoding", "klingon"], 2, "unknown encoding 'klingon'"),
    (["fit", "utf16.csv", *FIT], 0, GOOD),
    (["fit", "bom.csv", *FIT], 0, GOOD),
    (["fit", "t.csv.gz", *FIT], 0, "report: out/t/report.html"),
    (["fit", "broken.gz", *FIT], 2, "broken.gz is a damaged gzip file"),
    (["fit", "data.pdf", *FIT], 2, "data.pdf is a PDF: save it as CSV"),
    (["fit", "old.xls", *FIT], 2, "old.xls is an old Excel file (.xls): save it as CSV, Excel"),
    (["fit", "binary.csv", *FIT], 2, "binary.csv is not text in UTF-8"),
    (["fit", "picture.csv", *FIT], 2, "picture.csv is a picture"),
    (["fit", "zip.xlsx", *FIT], 2, "zip.xlsx is a"),
    (["fit", "bad.parquet", *FIT], 2, "bad.parquet is a"),
    (["fit", "empty.csv", *FIT], 2, "empty.csv is empty: expected a header line and rows"),
    (["fit", "blank.csv", *FIT], 2, "blank.csv is empty"),
    (["fit", "only_header.csv", *FIT], 2, "only_header.csv has a header and no rows"),
    (["fit", "nohead.csv", *FIT], 2, "nohead.csv has no column 'y'"),
    (["fit", "ragged.csv", *FIT], 2, "ragged.csv, row 61: 2 values, but the header has 5 columns"),
    (["fit", "quote.csv", *FIT], 2, "quote.csv is not a CSV file"),
    (["fit", "twice.csv", *FIT], 2, "twice.csv has more than one column named 'size'"),
    (["fit", "unnamed.csv", *FIT], 0, "Columns without a name are called column_2."),
    (["fit", "trailing.csv", *FIT], 0, GOOD),
    (["fit", "tabs.csv", *FIT], 0, "Values are separated by '\\t'."),
    (["fit", "pipes.csv", *FIT], 0, "Values are separated by '|'."),
    (["fit", "unicode.csv", *FIT], 0, GOOD),
    (["fit", "few.csv", *FIT], 2, "5 rows are too few: expected at least 10"),
    # --- numbers and dates
    (["fit", "german.csv", *FIT], 0, "Numbers with a decimal comma: size."),
    (["fit", "quoted_comma.csv", *FIT], 0, "Numbers with a decimal comma: size."),
    (["fit", "thousands.csv", *FIT], 0, "Numbers with thousands separators or currency signs: size."),
    (["fit", "ambiguous.csv", *FIT], 2, "ambiguous.csv, column 'size': '1,000' is ambiguous"),
    (["fit", "ambiguous.csv", *FIT, "--decimal", "."], 0, "Numbers with thousands separators"),
    (["fit", "ambiguous.csv", *FIT, "--decimal", ","], 0, "Numbers with a decimal comma: size."),
    (["fit", "t.csv", *FIT, "--decimal", ";"], 2, "--decimal must be , or ., got ';'"),
    (["fit", "dollars.csv", *FIT], 0, "Numbers with thousands separators or currency signs: size."),
    (["fit", "percent.csv", *FIT], 0, "Numbers with thousands separators or currency signs: size."),
    (["fit", "us_dates.csv", *FIT], 0, "Dates, encoded as days, day of the year and day of the week: da"),
    (["fit", "german_dates.csv", *FIT], 0, "Dates, encoded as days, day of the year and day of the week: day."),
    (["fit", "two_ways.csv", *FIT], 2, "two_ways.csv, column 'day': dates such as '01/01/2024' are"),
    (["fit", "times.csv", *FIT], 0, "Dates, encoded as days"),
    (["fit", "a_bad_date.csv", *FIT], 2, "a_bad_date.csv, column 'day': text with"),
    # --- columns
    (["fit", "t.csv", "--target", "z", *FAST], 2, "t.csv has no column 'z': choose from 'size', 'town"),
    (["fit", "t.csv", "--target", "Y", *FAST], 2, "t.csv has no column 'Y': did you mean 'y'"),
    (["fit", "t.csv", *FIT, "--drop", "sice"], 2, "t.csv has no column 'sice': did you mean 'size'"),
    (["fit", "t.csv", *FIT, "--drop", "y"], 2, "the target 'y' cannot be an --id or --drop column"),
    (["fit", "names.csv", *FIT], 2, "names.csv, column 'town': text with 60 distinct values in 60"),
    (["fit", "names.csv", *FIT, "--drop", "town"], 0, "48 training rows"),
    (["fit", "names.csv", *FIT, "--id", "town"], 0, "48 training rows"),
    (["fit", "word.csv", *FIT], 2, "word.csv, column 'size', row 17: 'large' is not a number, as th"),
    (["fit", "infinite.csv", *FIT], 2, "infinite.csv, column 'size', row 4: 'inf' is not finite"),
    (["fit", "constant.csv", *FIT], 0, "Left out constant columns: size."),
    (["fit", "outlier.csv", *FIT], 0, "Column 'size': 1 outlying value clipped."),
    (["fit", "formula.csv", *FIT], 0, "48 training rows"),
    # --- missing values
    (["fit", "gaps.csv", *FIT], 0, "Missing values of size (15): imputed from the other columns"),
    (["fit", "gaps.csv", *FIT, "--missing", "drop"], 0, "Left out 15 of 60 rows with missing value"),
    (["fit", "gaps.csv", *FIT, "--missing", "mean"], 0, "Missing values of size (15): replaced by"),
    (["fit", "gaps.csv", *FIT, "--missing", "refuse"], 2, "gaps.csv, column 'size': 15 missing val"),
    (["fit", "gaps.csv", *FIT, "--missing", "infre"], 2, "no --missing mode 'infre': did "),
    (["fit", "no_y.csv", *FIT], 0, "Left out 6 of 60 rows without 'y'."),
    (["fit", "all_y_gone.csv", *FIT], 2, "every row of all_y_gone.csv has a missing value"),
    (["fit", "column_gone.csv", *FIT], 2, "column 'size' has no values in the training rows: --dro"),
    # --- targets
    (["fit", "t.csv", "--target", "kind", "--drop", "y", *FAST], 0, "Classification of k"),
    (["fit", "t.csv", "--target", "town", "--task", "regression", *FAST], 2,
     "t.csv, column 'town', row 1: 'Aix' is not a number, and none of the 60 values is"),
    (["fit", "dollars.csv", "--target", "size", *FAST], 0, "Regression of size"),
    (["fit", "names.csv", "--target", "town", *FAST], 2, "the target 'town' has 60 classes in 60 r"),
    (["fit", "one_class.csv", "--target", "kind", *FAST], 2, "the target 'kind' has only one class,"),
    (["fit", "same_y.csv", *FIT, "--task", "regression"], 2, "the target 'y' has only one value, '1"),
    (["fit", "rare.csv", "--target", "kind", *FAST], 0, "Warning: Class 'odd' has no test r"),
    (["fit", "noise.csv", *FIT], 0, "Warning: The model is no better than predicting the mean"),
    (["fit", "t.csv", *FIT, "--task", "clasification"], 2, "no task 'clasification': did you mean '"),
    (["fit", "t.csv", *FIT, "--likelihood", "poison"], 2, "no likelihood 'poison': did you mean 'po"),
    (["fit", "t.csv", *FIT, "--likelihood", "poisson"], 2, "t.csv, column 'y': counts must be"),
    # --- options
    (["fit", "t.csv", *FIT, "--test", "0"], 0, "Warning: No rows were held out (--test 0)"),
    (["fit", "t.csv", *FIT, "--test", "2"], 2, "--test must lie between 0 and 1, got 2.0"),
    (["fit", "t.csv", "--target", "y", "--epochs", "0"], 2, "--epochs must be at least 1, got 0"),
    (["fit", "t.csv", "--target", "y", "--hidden", "x"], 2, "--hidden must be widths such as 64,64"),
    (["fit", "t.csv", *FIT, "--learner", "tagy"], 2, "no learner 'tagy': did you mean 'tagi'?"),
    (["fit", "t.csv", *FIT, "--lerner", "tagi"], 2, "No such option: --lerner"),
    (["fit", "t.csv", "--target", "y", "--out", "used"], 2, "the folder used is not empty"),
    (["fit", "t.csv", *FIT, "--out", "t.csv/x"], 2, "cannot write to t.csv/x: t.csv is not a folder"),
    # --- predictions
    (["predict", "m", "t.csv"], 0, "mean,std,lower,upper,distance"),
    (["predict", "m", "t.csv", "-o", "p.csv"], 0, "note: the file has the target 'y': on its 60 rows, the RMSE is "),
    (["predict", "k", "t.csv", "-o", "p.csv"], 0, "note: the file has the target 'kind': on its 60 rows"),
    (["predict", "m", "t.csv", "--keep", "all"], 0, "size,town,day,kind,y,mean,std,lower,upper,dist"),
    (["predict", "m", "t.csv", "--keep", "town, y"], 0, "town,y,mean,std,lower,upper,distance"),
    (["predict", "m", "t.csv", "--keep", "twon"], 2, "t.csv has no column 'twon': did you mean 'town"),
    (["predict", "m", "new.csv"], 0, "note: column 'town': 'Delft', 'aix' not in the training data, tr"),
    (["predict", "m", "new.csv", "--unknown", "refuse"], 2, "new.csv, column 'town', row 1: 'Delft' "),
    (["predict", "m", "new.csv", "--unknown", "mean"], 2, "no --unknown mode 'mean'"),
    (["predict", "m", "gaps_new.csv"], 0, "note: missing values are imputed, and intervals are wider accordingly: "),
    (["predict", "m", "gaps_new.csv", "--missing", "refuse"], 2, "gaps_new.csv, column 'size': 1 mis"),
    (["predict", "m", "gaps_new.csv", "--missing", "mean"], 0, "mean,std,lower,upper,distance"),
    (["predict", "m", "gaps_new.csv", "--missing", "zero"], 2, "no --missing mode 'zero'"),
    (["predict", "m", "other_target.csv"], 0, "mean,std,lower,upper,distance"),
    (["predict", "m", "fewer.csv"], 2, "fewer.csv has no column 'size'"),
    (["predict", "m", "word.csv"], 2, "word.csv, column 'size', row 17: 'large' is not a number"),
    (["predict", "m", "none.csv"], 2, "no file none.csv"),
    (["predict", "none", "t.csv"], 2, "no model file at none"),
    (["predict", "notamodel.tr", "t.csv"], 2, "notamodel.tr is not a whole model file"),
    (["predict", "t.csv", "m"], 2, "t.csv is not a whole model file"),
    (["predict", "m", "t.csv", "--level", "90"], 2, "--level must lie between 0 and 1, got 90.0"),
    (["predict", "m", "t.csv", "-o", "p.feather"], 2, "p.feather must end in .csv"),
    (["predict", "m", "t.csv", "-o", "no/p.csv"], 2, "no folder no for p.csv"),
    (["predict", "m", "t.csv", "-o", "folder"], 2, "folder is a folder, expected a file"),
    (["predict", "m", "t.csv", "-o", "p.csv.gz"], 0, "60 predictions of y written to p.csv.gz"),
    (["predict", "k", "new.csv", "--json"], 0, '"label"'),
    (["report", "none"], 2, "no folder none"),
    (["report", "folder"], 2, "no results below folder"),
    (["report", "t.csv"], 2, "t.csv is a file, expected a folder"),
    (["report", "."], 0, "runs: index.html"),
]  # fmt: skip


def test_number_of_cases():
    assert len(COMMANDS) >= 115
    assert len({tuple(words) for words, _, _ in COMMANDS}) == len(COMMANDS)


@pytest.mark.parametrize(
    ("words", "code", "said"), COMMANDS, ids=[" ".join(words) or "tractable" for words, *_ in COMMANDS]
)  # fmt: skip
def test_a_command(place, words, code, said):
    answers(words, code, said)
    assert (place / "used/mine.txt").read_text() == "precious"


@pytest.mark.parametrize("ending", ["xlsx", "parquet"])
def test_excel_and_parquet_round_trip(place, ending):
    pytest.importorskip("openpyxl" if ending == "xlsx" else "pyarrow")
    run = CliRunner()
    done = run.invoke(app, ["predict", "m", "t.csv", "--keep", "all", "-o", f"p.{ending}"])
    assert done.exit_code == 0, done.stderr
    done = run.invoke(app, ["predict", "m", f"p.{ending}", "--keep", "y"])
    assert done.exit_code == 0, done.stderr
    again = list(csv.DictReader(io.StringIO(done.stdout)))
    first = list(csv.DictReader(io.StringIO(run.invoke(app, ["predict", "m", "t.csv"]).stdout)))
    assert [row["mean"] for row in again] == [row["mean"] for row in first]
    assert [float(row["y"]) for row in again] == [float(line[-1]) for line in rows()]


def test_a_missing_header_line(place):
    done = CliRunner().invoke(app, ["fit", "nohead.csv", *FIT])
    assert done.stderr.endswith("; is its first line a header?\n")
