"""``density``, ``sample``, ``compare``, ``impute``: tables without a target."""

import csv
import json
import math

import numpy as np
import pytest
from scipy import stats

from tests.cli.conftest import write


def plants(rows=300, seed=0):
    """Return rows with related length and width, by kind; a serial number and a constant."""
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(rows):
        kind = "fern" if rng.random() < 0.6 else "moss"
        length = rng.normal(30 if kind == "fern" else 5, 3 if kind == "fern" else 0.5)
        width = 0.5 * length + rng.normal(0, 0.3)
        lines.append([f"p{i}", round(length, 2), round(width, 3), kind, 7])
    return ["id", "length", "width", "kind", "always"], lines


def table(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_density_finds_an_out_of_distribution_row(call, tmp_path):
    header, lines = plants()
    lines[17][2] = 1.0  # a fern of usual length, far too narrow
    path = write(tmp_path / "plants.csv", header, lines)
    result = call("density", path, "--id", "id")
    assert result.exit_code == 0, result.output
    out = tmp_path / "out" / "plants-density"
    found = table(out / "novelty.csv")
    worst = max(found, key=lambda row: float(row["novelty_share"]))
    assert (worst["id"], worst["row"]) == ("p17", "18")
    assert worst["least_likely_column"] in ("width", "length")
    novelty = [float(row["novelty_share"]) for row in found]
    assert stats.kstest(novelty, "uniform").pvalue > 0.01  # rows like the others: uniform
    assert {p.name for p in out.iterdir()} >= {"model.tr", "report.html", "novelty.png"}
    assert "p17" in result.output
    twice = call("density", path, "--id", "id")
    assert twice.exit_code == 2
    assert "not empty" in twice.output
    words = ("--id", "id", "--force", "--json", "--components", 2)
    again = json.loads(call("density", path, *words).output)
    assert again["most_unusual"][0]["row"] == 18


def test_samples_are_indistinguishable_from_rows(call, tmp_path):
    path = write(tmp_path / "plants.csv", *plants(600))
    assert call("density", path, "--id", "id").exit_code == 0
    made = call("sample", tmp_path / "out" / "plants-density", "-n", 500, "-o", "new.csv")
    assert made.exit_code == 0, made.output
    new = table(tmp_path / "new.csv")
    assert len(new) == 500
    assert set(new[0]) == {"length", "width", "kind", "always"}
    assert {row["kind"] for row in new} == {"fern", "moss"}
    assert {row["always"] for row in new} == {"7"}
    assert all(len(row["length"].partition(".")[2]) == 2 for row in new)
    assert np.mean([row["kind"] == "fern" for row in new]) == pytest.approx(0.6, abs=0.08)
    fern = np.array([[float(r["length"]), float(r["width"])] for r in new if r["kind"] == "fern"])
    assert np.corrcoef(fern.T)[0, 1] > 0.9
    other = write(tmp_path / "other.csv", *plants(600, seed=5))
    found = json.loads(call("compare", other, "new.csv", "--drop", "id", "--json").output)
    assert found["auroc"] < 0.62
    one, two = (call("sample", "out/plants-density", "-n", 3, "--seed", s).output for s in (1, 1))
    assert one == two
    assert len(json.loads(call("sample", "out/plants-density", "-n", 3, "--json").output)) == 3


def test_compare_reports_differences(call, tmp_path):
    a = write(tmp_path / "a.csv", *plants(300))
    b = write(tmp_path / "b.csv", *plants(300, seed=1))
    same = json.loads(call("compare", a, b, "--drop", "id", "--json").output)
    assert not same["differ"]
    assert not any(column["differs"] for column in same["columns"])
    header, lines = plants(300, seed=2)
    for line in lines:
        line[2] = round(line[2] + 1.5, 3)
    c = write(tmp_path / "c.csv", header, lines)
    found = json.loads(call("compare", a, c, "--drop", "id", "--json").output)
    assert found["differ"]
    assert found["p_value"] < 1e-6
    assert found["columns"][0]["column"] == "width"
    low, high = found["js_interval"]
    assert 0 < low < found["js"] < high <= math.log(2)
    text = call("compare", a, c, "--drop", "id").output
    assert "The tables differ" in text
    assert "width" in text


@pytest.mark.parametrize("shuffled", [False, True])
def test_compare_of_matching_rows_reports_the_changes(call, tmp_path, shuffled):
    """A fifth of a column is imputed: no classifier detects it, as each row has a copy."""
    header, lines = plants(100)
    holes = [[*line[:2], "" if i % 5 == 0 else line[2], *line[3:]] for i, line in enumerate(lines)]
    lines[7][3] = "moss" if lines[7][3] == "fern" else "fern"
    if shuffled:
        order = np.random.default_rng(0).permutation(100)
        lines = [lines[k] for k in order]
    a = write(tmp_path / "a.csv", header, holes)
    b = write(tmp_path / "b.csv", header, lines)
    found = json.loads(call("compare", a, b, "--drop", "id", "--json").output)
    assert found["differ"]
    assert (found["paired"], found["changed_rows"], found["only"]) == (100, 21, [0, 0])
    assert found["columns"][:2] == [
        {"column": "width", "changed": 20, "filled": 20, "emptied": 0},
        {"column": "kind", "changed": 1, "filled": 0, "emptied": 0},
    ]
    text = " ".join(call("compare", a, b, "--drop", "id").output.split())
    assert "100 rows are in both, so they are compared row by row; 21 of them differ" in text
    more = write(tmp_path / "c.csv", header, [*lines, ["p100", 99.0, 1.0, "fern", 7]])
    assert json.loads(call("compare", a, more, "--drop", "id", "--json").output)["only"] == [0, 1]


def test_coinciding_values_do_not_match_rows(call, tmp_path):
    rng = np.random.default_rng(0)
    tables = []
    for name in ("a.csv", "b.csv"):
        lines = [["xy"[k], "uv"[m]] for k, m in rng.integers(0, 2, (80, 2))]
        tables.append(write(tmp_path / name, ["one", "two"], lines))
    assert json.loads(call("compare", *tables, "--json").output)["paired"] == 0


def test_compare_detects_changes_of_categories_and_missing_values(call, tmp_path):
    header, lines = plants(300)
    a = write(tmp_path / "a.csv", header, lines)
    others = plants(300, seed=1)[1]
    swapped = [[*line[:3], "moss" if i % 3 else line[3], line[4]] for i, line in enumerate(others)]
    b = write(tmp_path / "b.csv", header, swapped)
    found = json.loads(call("compare", a, b, "--drop", "id", "--json").output)
    assert found["columns"][0]["column"] == "kind"
    assert found["columns"][0]["differs"]
    holes = [[line[0], "" if i % 4 == 0 else line[1], *line[2:]] for i, line in enumerate(others)]
    c = write(tmp_path / "c.csv", header, [*lines[:60], *holes[60:]])
    found = json.loads(call("compare", a, c, "--drop", "id", "--json").output)
    assert found["differ"]
    assert "60 rows are in both tables" in found["notes"][0]
    assert "length" in found["notes"][1]


def test_kolmogorov_smirnov_test_agrees_with_scipy():
    from tractable.cli.commands.compare import _kolmogorov_smirnov

    rng = np.random.default_rng(0)
    for shift in (0.0, 0.2, 0.5):
        a, b = rng.standard_normal(200), rng.standard_normal(150) + shift
        theirs = stats.ks_2samp(a, b).pvalue
        assert _kolmogorov_smirnov(a, b) == pytest.approx(theirs, rel=0.15, abs=1e-4)


def test_impute_numbers_and_categories(call, tmp_path):
    header, lines = plants(400)
    truth = [list(line) for line in lines]
    for i in range(0, 400, 4):
        lines[i][2] = ""
    for i in range(1, 400, 8):
        lines[i][3] = "NA"
    path = write(tmp_path / "plants.csv", header, lines)
    result = call("impute", path, "-o", "full.csv", "--id", "id", "--level", 0.9)
    assert result.exit_code == 0, result.output
    assert "150 values imputed (width 100, kind 50)" in result.output
    full = table(tmp_path / "full.csv")
    error = [float(full[i]["width"]) - truth[i][2] for i in range(0, 400, 4)]
    assert np.std(error) < 0.45  # 0.3 is the noise
    inside = [
        float(full[i]["width_lower"]) <= truth[i][2] <= float(full[i]["width_upper"])
        for i in range(0, 400, 4)
    ]
    assert 0.8 < np.mean(inside) <= 1
    assert np.mean([full[i]["kind"] == truth[i][3] for i in range(1, 400, 8)]) > 0.95
    assert [row["length"] for row in full] == [f"{line[1]}" for line in truth]
    assert full[1]["width_lower"] == ""


def test_impute_with_a_model_of_another_table(call, tmp_path):
    path = write(tmp_path / "plants.csv", *plants(400))
    assert call("density", path, "--id", "id", "--components", 2).exit_code == 0
    header, lines = plants(30, seed=9)
    lines = [[*line[:2], "", *line[3:]] for line in lines]
    new = write(tmp_path / "new.csv", header, lines)
    found = call("impute", new, "--model", "out/plants-density", "--json", "--sample")
    rows = json.loads(found.output)
    error = [
        float(row["width"]) - line[2] for row, line in zip(rows, plants(30, seed=9)[1], strict=True)
    ]
    assert np.std(error) < 1.2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["density", "none.csv"], "no file none.csv"),
        (["density", "plants.csv", "--drop", "lenght"], "did you mean 'length'?"),
        (["density", "plants.csv"], "--drop"),
        (["density", "plants.csv", "--id", "id", "--components", "0"], "at least 1, got 0"),
        (["density", "plants.csv", "--id", "id", "--level", "2"], "--level must lie"),
        (["density", "copies.csv"], "columns 'a' and 'b' are copies"),
        (["density", "short.csv"], "has 3 rows: expected at least 10"),
        (["sample", "none"], "none"),
        (["sample", "plants.csv"], "plants.csv"),
        (["compare", "plants.csv", "short.csv"], "expected at least 20"),
        (["compare", "plants.csv", "copies.csv"], "no columns in common"),
        (["impute", "plants.csv", "--id", "id"], "has no missing values"),
        (["impute", "plants.csv", "--n-samples", "1"], "--n-samples must be at least 2"),
        (["impute", "plants.csv", "-o", "no/where.csv"], "no folder no"),
    ],
)
def test_errors_are_one_line(call, tmp_path, words, message):
    write(tmp_path / "plants.csv", *plants(60))
    write(tmp_path / "short.csv", ["x"], [[1], [2], [4]])
    write(tmp_path / "copies.csv", ["a", "b"], [[i * i, 2 * i * i + 1] for i in range(40)])
    result = call(*words)
    assert result.exit_code == 2
    assert message in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_a_foreign_or_damaged_model_is_refused(call, tmp_path, houses):
    assert call("fit", houses, "--target", "price", "--id", "name", "--epochs", 1).exit_code == 0
    result = call("sample", "out/houses")
    assert result.exit_code == 2
    assert "tractable density" in result.output
