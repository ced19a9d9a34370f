"""Typed columns of Excel and Parquet files match those of the same CSV file."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from tractable.cli.errors import UsageError
from tractable.cli.tables import cell_formats, reader, row_table, writer
from tractable.cli.tables.columns import infer_column
from tractable.cli.tables.prepare import FitOptions, prepare

pandas = pytest.importorskip("pandas")
pytest.importorskip("openpyxl")
pytest.importorskip("pyarrow")

N = 48
TYPED = ("xlsx", "parquet")


def stamps(**options):
    return pandas.Series(pandas.date_range("2024-03-30", periods=N, **options))


def holed(series, every=7):
    """Return the values with a missing value in every seventh row."""
    return series.where(np.arange(N) % every != 3)


COLUMNS = {
    "days": stamps(freq="D"),
    "hours": stamps(freq="h"),
    "hours with gaps": holed(stamps(freq="h")),
    "five minutes": stamps(freq="5min"),
    "quarters of a second": stamps(freq="250ms"),
    "quarters of a second with gaps": holed(stamps(freq="250ms")),
    "midnights": stamps(freq="2D"),
    "integers": pandas.Series(np.arange(N) - 5),
    "integers with gaps": holed(pandas.Series(np.arange(N)).astype("Int64")),
    "floats": pandas.Series(np.arange(N) / 8 - 1),
    "floats with gaps": holed(pandas.Series(np.arange(N) / 8)),
    "small and large floats": pandas.Series(10.0 ** (np.arange(N) - 20)),
    "booleans": pandas.Series(np.arange(N) % 3 == 0),
    "text": pandas.Series([("Aix", "Brno", " Cork ")[i % 3] for i in range(N)]),
    "text with gaps": holed(pandas.Series([("Aix", "Brno")[i % 2] for i in range(N)])),
    "text of dates": pandas.Series([f"{1 + i % 28:02d}.12.2024" for i in range(N)]),
    "text with decimal commas": pandas.Series([f"{i},5" for i in range(N)]),
    "text with thousands": pandas.Series([f"${i + 1},250.75" for i in range(N)]),
    "nothing": pandas.Series([None] * N, dtype=object),
    "numbers and a word": pandas.Series([*range(N - 1), "many"], dtype=object),
}
ZONED = {
    "hours in a zone": stamps(freq="h", tz="Europe/Berlin"),  # over the change of clocks
    "days in a zone": stamps(freq="D", tz="America/New_York"),
    "quarters of a second in a zone": stamps(freq="250ms", tz="UTC"),
}


def save(series, folder, ending, name="t"):
    """Return a file with the column and a column of numbers."""
    frame = pandas.DataFrame({"x": np.arange(len(series)) * 1.5, name: series})
    path = folder / f"data.{ending}"
    if ending == "csv":
        frame.to_csv(path, index=False)
    elif ending == "xlsx":
        frame.to_excel(path, index=False)
    else:
        if any(isinstance(v, str) for v in series) and any(isinstance(v, int) for v in series):
            frame[name] = series.astype(str)  # a Parquet column has one type
        frame.to_parquet(path, index=False)
    return reader.read_table(path)


def encoded(table, name="t"):
    """Return kind, levels and numbers of the column, or the error without the file name."""
    try:
        column = infer_column(table, name)
        return column.kind, column.levels, column.encode(table)
    except UsageError as error:
        return str(error).partition(",")[2], (), np.zeros(0)


@pytest.mark.parametrize("ending", TYPED)
@pytest.mark.parametrize("what", [*COLUMNS, *ZONED])
def test_a_typed_file_has_the_columns_of_the_csv_file(tmp_path, what, ending):
    if what in ZONED and ending == "xlsx":
        pytest.skip("Excel has no time zones")
    if (what, ending) == ("numbers and a word", "parquet"):
        pytest.skip("a Parquet column has one type")
    series = {**COLUMNS, **ZONED}[what]
    kind, levels, values = encoded(save(series, tmp_path, "csv"))
    theirs = encoded(save(series, tmp_path, ending))
    assert theirs[:2] == (kind, levels)
    assert kind in ("numeric", "categorical", "date") or "'many' is not a number" in kind
    np.testing.assert_allclose(theirs[2], values, rtol=1e-12)
    if "of a second" in what:
        assert len(np.unique(values[~np.isnan(values[:, 0]), 0])) == series.notna().sum()


@pytest.mark.parametrize("ending", TYPED)
@pytest.mark.parametrize(
    ("texts", "levels"),
    [
        (["1", "2", "3"], ("1", "2", "3")),
        (["007", "010", "7"], ("007", "010", "7")),
        (["1e3", "2", "NA"], ("1e3", "2")),
        (["0.5", "1.5", "x"], ("0.5", "1.5", "x")),
    ],
    ids=str,
)
def test_text_that_looks_like_numbers_stays_text(tmp_path, ending, texts, levels):
    series = pandas.Series([texts[i % 3] for i in range(N)])
    table = save(series, tmp_path, ending)
    found = infer_column(table, "t")
    assert (found.kind, found.levels) == ("categorical", levels)
    assert row_table.infer_columns(table).columns[1].levels
    data = tmp_path / f"data.{ending}"
    chosen = FitOptions(data, "t", tmp_path / "out")
    assert prepare(chosen).target.task == "classification"
    if "x" not in texts:  # an option of the user has priority
        wanted = prepare(FitOptions(data, "t", tmp_path / "out", task="regression"))
        assert wanted.target.values.dtype == float
    many = save(pandas.Series([f"{i:03d}" for i in range(N)]), tmp_path, ending)
    with pytest.raises(
        UsageError, match=r"text with 48 distinct values.*save the column as numbers"
    ):
        infer_column(many, "t")


@pytest.mark.parametrize("ending", TYPED)
def test_a_column_of_numbers_and_texts_is_one_of_numbers(tmp_path, ending):
    """Numbers stored as text do not make the whole column text."""
    if ending == "parquet":
        pytest.skip("a Parquet column has one type")
    series = pandas.Series([str(i) if i % 4 else i for i in range(N)], dtype=object)
    kind, _, values = encoded(save(series, tmp_path, ending))
    assert kind == "numeric"
    assert values[:, 0].tolist() == list(range(N))


def test_float32_numbers_are_written_without_extra_digits(tmp_path):
    table = save(pandas.Series(np.arange(N) / 10, dtype="float32"), tmp_path, "parquet")
    assert table.column("t")[:4] == ["0.0", "0.1", "0.2", "0.3"]


def test_timestamps_are_truncated_to_microseconds(tmp_path):
    values = encoded(save(stamps(freq="2500ns"), tmp_path, "parquet"))[2]
    assert len(np.unique(values[:, 0])) > N / 2


def test_parquet_columns_of_one_name_are_refused(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"])
    parquet.write_table(table, tmp_path / "twice.parquet")
    with pytest.raises(UsageError, match="more than one column named 'a'"):
        reader.read_table(tmp_path / "twice.parquet")


@pytest.mark.parametrize(
    ("cells", "form"),
    [
        (["2024-01-01T00:05:00+00:00", "2024-01-01T01:05:00+01:00"], "%Y-%m-%dT%H:%M:%S%z"),
        (["2024-01-01T00:05:00Z", "2024-01-01T01:05:00Z"], "%Y-%m-%dT%H:%M:%SZ"),
        (["2024-01-01 00:00:00.25", "2024-01-01 00:00:00.5"], "%Y-%m-%d %H:%M:%S.%f"),
        (["2024-01-01 00:00:00", "2024-01-01 00:00:00.250000"], "%Y-%m-%d %H:%M:%S.%f"),
        (["2024-01-01", "2024-01-01 12:00:00"], "%Y-%m-%d %H:%M:%S"),
        (["31.12.2024", "2024-12-30"], "%d.%m.%Y"),
        (["31.12.2024", "2024-13-30"], None),
        (["2024-01-01 00:00:00", "2024-01-01 00:00:00+01:00"], None),
    ],
    ids=str,
)
def test_formats_of_dates(cells, form):
    assert cell_formats.infer_date_format(cells) == form


@pytest.mark.parametrize("way", ["%d.%m.%Y %H:%M", "%Y-%m-%d %H:%M:%S"])
@pytest.mark.parametrize("ending", TYPED)
def test_a_model_of_a_csv_file_predicts_for_typed_files(call, tmp_path, ending, way):
    """This includes stamps at midnight only, which show no time."""
    frame = pandas.DataFrame({"t": stamps(freq="12h"), "y": np.arange(N) % 7 + 0.5})
    frame.to_csv("train.csv", index=False, date_format=way)
    words = ("--target", "y", "--hidden", "", "--epochs", 2, "--out", "m")
    assert call("fit", "train.csv", *words).exit_code == 0
    for part in (frame, frame[::2]):
        part.to_csv("new.csv", index=False, date_format=way)
        to = {"xlsx": part.to_excel, "parquet": part.to_parquet}[ending]
        to(f"new.{ending}", index=False)
        first, second = (call("predict", "m", f"new.{end}") for end in ("csv", ending))
        assert first.exit_code == second.exit_code == 0, second.stderr
        assert first.stdout == second.stdout
    daily = stamps(freq="D").dt.strftime("%d.%m.%Y")
    pandas.DataFrame({"t": daily, "y": frame["y"]}).to_csv("train.csv", index=False)
    assert call("fit", "train.csv", *words, "--force").exit_code == 0
    done = call("predict", "m", f"new.{ending}")
    assert done.exit_code == 0, done.stderr
    to(f"new.{ending}", index=False)
    frame.assign(t=stamps(freq="7h")).to_csv("new.csv", index=False)
    assert "is not a date" in call("predict", "m", "new.csv").stderr  # its hours would be lost


def readings(call, ending):
    """Return a file with an hourly stamp, a time of day, a code and a reading."""
    generator = np.random.default_rng(0)
    count = 5 * N
    load = 10 + 3 * np.sin(np.arange(count) / 12 * np.pi) + generator.normal(0, 0.2, count)
    frame = pandas.DataFrame({
        "t": pandas.date_range("2024-01-01", periods=count, freq="h"),
        "code": [("007", "010")[i % 2] for i in range(count)],
        "load": np.round(load, 2),
    })  # fmt: skip
    frame["twice"] = (2 * frame["load"] + generator.normal(0, 0.1, count)).round(2)
    frame.to_parquet("data.parquet", index=False)
    frame.to_excel("data.xlsx", index=False)
    frame.to_csv("data.csv", index=False)
    gaps = frame.copy()
    gaps.loc[::9, "load"] = np.nan
    gaps.loc[4::9, "t"] = pandas.NaT
    {"parquet": gaps.to_parquet, "xlsx": gaps.to_excel}[ending](f"gaps.{ending}", index=False)
    return frame


@pytest.mark.parametrize("ending", TYPED)
def test_all_commands_read_and_write_typed_files(call, monkeypatch, ending):
    for name in ("density", "forecast", "fit"):
        monkeypatch.setattr(f"tractable.cli.commands.{name}.write_report", lambda *some: None)
    frame = readings(call, ending)
    read = {"parquet": pandas.read_parquet, "xlsx": pandas.read_excel}[ending]
    data, quick = f"data.{ending}", ("--hidden", "", "--epochs", 2)

    def done(*words):
        found = call(*words)
        assert found.exit_code == 0, found.stderr
        return found

    # fit and predict: columns keep their types
    done("fit", data, "--target", "twice", *quick, "--out", "m")
    done("predict", "m", data, "--keep", "all", "-o", f"p.{ending}")
    kept = read(f"p.{ending}", **({"dtype": {"code": str}} if ending == "xlsx" else {}))
    assert (kept["t"] == frame["t"]).all()
    assert kept["code"].map(type).eq(str).all()
    np.testing.assert_allclose(kept["load"], frame["load"])
    again = done("predict", "m", f"p.{ending}").stdout
    assert again == done("predict", "m", data).stdout
    prepared = prepare(FitOptions(Path(f"p.{ending}"), "twice", Path("o")))
    assert prepared.columns[1].kind == "categorical"

    # density, sample, impute
    done("density", data, "--components", 2, "--out", "d")
    done("sample", "d", "-n", 30, "-o", f"s.{ending}")
    made = read(f"s.{ending}", **({"dtype": {"code": str}} if ending == "xlsx" else {}))
    assert str(made["t"].dtype).startswith("datetime64")
    assert set(made["code"]) <= {"007", "010"}
    assert made["load"].dtype == float
    done("compare", data, f"s.{ending}")
    done("impute", f"gaps.{ending}", "--model", "d", "--level", 0.9, "-o", f"i.{ending}")
    full = read(f"i.{ending}")
    assert str(full["t"].dtype).startswith("datetime64")
    assert full[["t", "load"]].notna().all().all()
    assert (full["t_lower"] <= full["t_upper"])[full["t_lower"].notna()].all()
    there = np.arange(len(full)) % 9 != 4
    assert (full["t"] == frame["t"])[there].all()

    # compare: the same rows in another kind of file
    found = json.loads(done("compare", data, "data.csv", "--drop", "code", "--json").stdout)
    assert (found["paired"], found["changed_rows"]) == (len(frame), 0)

    # forecast
    for name in (data, "data.csv"):
        done(
            "forecast", name, "--time", "t", "--target", "load", "--horizon", 3, "--out", name + "f"
        )
    first, second = (Path(f"{name}f/forecast.csv").read_text() for name in (data, "data.csv"))
    assert first == second
    assert first.splitlines()[1].startswith("2024-01-11")


def test_numbers_of_a_csv_file_are_numbers_in_a_typed_output(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a;b;c;d;e\n"1,5";007;x;31.12.2024;\n"2,25";010;y;;NA\n')
    table = reader.read_table(path)
    ways = writer.column_formats(table, table.header)
    assert ways == {"a": "comma", "d": "%d.%m.%Y"}
    made = writer.typed_rows(table.header, table.rows, ways, tmp_path / "t.parquet")
    assert made[0][0] == 1.5
    assert made[0][1:3] == ["007", "x"]
    assert made[0][3].isoformat() == "2024-12-31T00:00:00"
    assert made[1][3] is None
    text = writer.typed_rows(table.header, table.rows, ways, tmp_path / "t.csv")
    assert text == table.rows
    writer.write_table(tmp_path / "t.parquet", table.header, made)
    assert pandas.read_parquet(tmp_path / "t.parquet")["a"].tolist() == [1.5, 2.25]


def test_output_columns_avoid_names_of_the_input(call, tmp_path):
    stream = io.StringIO()
    csv.writer(stream).writerows(
        [["x", "x_lower"], *([i, "" if i % 5 == 0 else 2 * i + i % 3] for i in range(40))]
    )
    (tmp_path / "t.csv").write_text(stream.getvalue())
    words = ("impute", "t.csv", "--level", 0.9, "--drop", "x")
    pandas.DataFrame({"x": [None, *range(39)], "x_lower": range(40)}).to_csv("u.csv", index=False)
    done = call("impute", "u.csv", "--level", 0.9, "-o", "u.parquet")
    assert done.exit_code == 0, done.stderr
    assert list(pandas.read_parquet("u.parquet").columns) == [
        "x",
        "x_lower",
        "x_lower_2",
        "x_upper",
    ]
    assert call(*words).exit_code == 0
