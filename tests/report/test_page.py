"""Pages: whole, self-contained, escaped, and true to the results."""

import base64
import json
import re

import pytest

from tests.report.pages import Page
from tractable.report import (
    Calibration,
    Chart,
    Comparison,
    InvalidResults,
    Picture,
    Results,
    find_results,
    write_index,
    write_report,
)
from tractable.report.drawing import MOST_POINTS, draw

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
EVIL = "<script>alert('x')</script>\"&"


def results(**more) -> Results:
    held = {
        "experiment": "uci",
        "title": "Seven sets",
        "command": "tractable run uci --quick",
        "seeds": [1, 2],
        "comparison": [
            Comparison("RMSE", 3.15, 2.83, better="smaller", learner="tagi", note="a note"),
            Comparison("accuracy", 99.0, 98.0, "%", better="larger", learner="tagi"),
            Comparison("speed", None, 5.0, "ms", learner="tagi"),
        ],
        "charts": [Chart("Loss", "epoch", "loss", {"a": ([1, 2, 3], [3.0, None, 1.0])})],
        "calibration": Calibration("coverage", {"tagi": ([0.5, 0.9], [0.6, 0.8])}, {"tagi": 0.1}),
        "pictures": [Picture("one.png", "first"), Picture("gone.png")],
        "seconds": 75.0,
        "peak_memory_mib": 512.4,
        "commit": "abc123",
        "versions": {"tractable": "0.1.0"},
    }
    return Results(**(held | more))


def page_of(folder, found: Results) -> tuple[Page, str]:
    text = write_report(found, folder).read_text(encoding="utf-8")
    return Page(text), text


def test_a_report_says_what_was_run_and_found(tmp_path):
    (tmp_path / "one.png").write_bytes(PNG)
    page, _ = page_of(tmp_path, results())
    for words in (
        "tractable run uci --quick", "1 min 15 s", "512 MiB", "1, 2", "abc123", "0.1.0",
        "Beside the paper: 1 better, 1 worse", "▲ better", "▼ worse", "−0.32", "−1",
        "a note",         "Coverage of central intervals", "10 %", "gone.png",
    ):  # fmt: skip
        assert words in page.text, words


def test_it_needs_nothing_else(tmp_path):
    (tmp_path / "one.png").write_bytes(PNG)
    page, text = page_of(tmp_path, results())
    assert not re.search(r"https?://", text)
    assert "@import" not in text
    assert "url(" not in text
    links = page.values("src") + page.values("href")
    assert links
    assert all(link.startswith("data:") for link in links)
    (uri,) = page.values("src")
    assert base64.b64decode(uri.partition(",")[2]) == PNG


def test_everything_is_escaped(tmp_path):
    found = results(
        experiment=EVIL, title=EVIL, command=EVIL, commit=EVIL, notes=[EVIL],
        comparison=[Comparison(EVIL, 1.0, 2.0, EVIL, better="smaller", learner=EVIL, note=EVIL)],
        charts=[Chart(EVIL, EVIL, EVIL, {EVIL: ([1], [2.0])})],
        calibration=Calibration("reliability", {EVIL: ([0.5], [0.5])}, {EVIL: 0.0}),
        pictures=[Picture("one.png", EVIL), Picture(EVIL)],
        settings={EVIL: EVIL}, metrics={EVIL: EVIL}, versions={EVIL: EVIL},
    )  # fmt: skip
    (tmp_path / "one.png").write_bytes(PNG)
    page, text = page_of(tmp_path, found)
    assert "<script>alert" not in text
    assert EVIL in page.text
    scripts = [tag for tag, *_ in page.attributes if tag == "script"]
    assert text.count("<script") == len(scripts) + 1  # ours has no attributes
    found.write(tmp_path / "results.json")
    index = write_index(tmp_path, find_results(tmp_path)).read_text()
    assert "<script>alert" not in index
    Page(index)


def test_values_for_the_script_are_those_of_the_chart(tmp_path):
    _, text = page_of(tmp_path, results())
    blocks = re.findall(r'<script type="application/json">(.*?)</script>', text, re.S)
    drawn = [json.loads(block) for block in blocks]
    assert [[p[:2] for p in line["points"]] for line in drawn[1]] == [[[1.0, 3.0], [3.0, 1.0]]]


def test_a_gap_breaks_a_curve_and_long_ones_are_thinned():
    gap = draw(Chart("t", "x", "y", {"a": ([1, 2, 3, 4], [1.0, 2.0, None, 1.0])})).lines[0]
    assert len(gap.paths) == 2
    long = list(range(5000))
    line = draw(Chart("t", "x", "y", {"a": (long, [float(v) for v in long])})).lines[0]
    assert len(line.points) == MOST_POINTS
    assert line.points[0][0] == 0
    assert line.points[-1][0] == 4999
    with pytest.raises(ValueError, match="2 places and 1 values"):
        Chart("t", "x", "y", {"a": ([1, 2], [1.0])})


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (Comparison("a", 1.0, 2.0, better="smaller"), "worse"),
        (Comparison("a", 1.0, 2.0, better="larger"), "better"),
        (Comparison("a", 1.0, 2.0), ""),
        (Comparison("a", None, 2.0, better="larger"), ""),
        (Comparison("a", 1.0, None, better="larger"), ""),
        (Comparison("a", 1.0, 1.0, better="larger"), "equal"),
        (Comparison("a", 1.0, 1.2, better="larger", spread=0.3), "equal"),
        (Comparison("a", 1.0, 1.5, better="larger", spread=0.3), "better"),
        (Comparison("a", 0.9, 1.05, better="nearer", goal=1.0), "better"),
        (Comparison("a", 0.9, 1.05, better="nearer"), ""),
    ],
)
def test_verdicts(row, verdict):
    assert row.verdict == verdict


def test_an_index_joins_runs_and_compares_learners(tmp_path):
    for name, rmse in (("tagi", 2.0), ("bbb", 3.0)):
        folder = tmp_path / name
        folder.mkdir()
        found = results(
            pictures=[],
            comparison=[Comparison("RMSE", 2.5, rmse, better="smaller", learner=name)],
        )
        found.write(folder / "results.json")
        write_report(found, folder)
    (tmp_path / "other.json").write_text("[]")
    runs = find_results(tmp_path)
    assert [run.label(tmp_path) for run in runs] == ["bbb", "tagi"]
    page = Page(write_index(tmp_path, runs).read_text())
    assert {"bbb/report.html", "tagi/report.html"} <= set(page.values("href"))
    assert "tagi (tagi) 2 best" in page.text
    assert "bbb (bbb) 3" in page.text
    assert "bbb (bbb) 3 best" not in page.text


def test_old_results_without_the_new_fields_have_a_page(tmp_path):
    old = {"experiment": "uci", "figures": {"boston": {"rmse": 2.8}}, "seconds": 3.0}
    (tmp_path / "results.json").write_text(json.dumps(old))
    page, _ = page_of(tmp_path, Results.read(tmp_path / "results.json"))
    assert '"rmse": 2.8' in page.text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not a JSON file"),
        ("[]", "does not hold the results"),
        ('{"experiment": "a", "comparison": [{"nam": 1}]}', "as they are now"),
    ],
)
def test_foreign_files_are_refused(tmp_path, content, words):
    path = tmp_path / "results.json"
    path.write_text(content)
    with pytest.raises(InvalidResults, match=words):
        Results.read(path)
    with pytest.raises(InvalidResults):
        find_results(tmp_path)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "results.json"
    results().write(path)
    before = path.read_text()
    with pytest.raises(TypeError, match="plain values only"):
        results(metrics={"a": object()}).write(path)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]
