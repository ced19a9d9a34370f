"""Pages of results: complete, self-contained, escaped; reading and writing of result files."""

import base64
import json
import math
import re
from dataclasses import asdict

import pytest

from tests.report.pages import Page
from tractable import errors
from tractable.report import (
    BarData,
    Calibration,
    Chart,
    Comparison,
    ImageFile,
    InvalidResults,
    Results,
    ScatterData,
    Section,
    find_results,
    write_index,
    write_report,
)
from tractable.report.charts import MAX_POINTS, draw_chart

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
EVIL = "<script>alert('x')</script>\"&"


def results(**more) -> Results:
    held = {
        "name": "uci",
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
        "images": [ImageFile("one.png", "first"), ImageFile("gone.png")],
        "seconds": 75.0,
        "peak_memory_mib": 512.4,
        "commit": "abc123",
        "versions": {"tractable": "0.1.0"},
    }
    return Results(**(held | more))


def page_of(folder, found: Results) -> tuple[Page, str]:
    text = write_report(found, folder).read_text(encoding="utf-8")
    return Page(text), text


def test_a_report_has_command_metrics_and_provenance(tmp_path):
    (tmp_path / "one.png").write_bytes(PNG)
    page, _ = page_of(tmp_path, results())
    for words in (
        "tractable run uci --quick", "1 min 15 s", "512 MiB", "1, 2", "abc123", "0.1.0",
        "Compared with the paper: 1 better, 1 worse", "▲ better", "▼ worse", "−0.32", "−1",
        "a note",         "Coverage of central intervals", "10 %", "gone.png",
    ):  # fmt: skip
        assert words in page.text, words


def test_a_page_loads_nothing(tmp_path):
    (tmp_path / "one.png").write_bytes(PNG)
    page, text = page_of(tmp_path, results())
    assert not re.search(r"https?://", text)
    assert "@import" not in text
    assert "url(" not in text
    assert "<script" not in text
    links = page.values("src") + page.values("href")
    assert links
    inside = [f"#{name}" for name in page.values("id")]
    assert len(set(inside)) == len(inside)
    assert all(link.startswith("data:") or link in inside for link in links)
    (uri,) = page.values("src")
    assert base64.b64decode(uri.partition(",")[2]) == PNG


def test_everything_is_escaped(tmp_path):
    found = results(
        name=EVIL, title=EVIL, command=EVIL, commit=EVIL, notes=[EVIL],
        comparison=[Comparison(EVIL, 1.0, 2.0, EVIL, better="smaller", learner=EVIL, note=EVIL)],
        charts=[Chart(EVIL, EVIL, EVIL, {EVIL: ([1], [2.0])})],
        calibration=Calibration("reliability", {EVIL: ([0.5], [0.5])}, {EVIL: 0.0}),
        images=[ImageFile("one.png", EVIL), ImageFile(EVIL)],
        settings={EVIL: EVIL}, metrics={EVIL: EVIL}, versions={EVIL: EVIL},
    )  # fmt: skip
    (tmp_path / "one.png").write_bytes(PNG)
    page, text = page_of(tmp_path, found)
    assert "<script>alert" not in text
    assert EVIL in page.text
    assert "<script" not in text
    assert f"{EVIL}: {EVIL} over {EVIL}" in page.values("aria-label")
    found.write(tmp_path / "results.json")
    index = write_index(tmp_path, find_results(tmp_path)).read_text()
    assert "<script>alert" not in index
    Page(index)


def test_a_chart_has_a_table_of_its_values(tmp_path):
    page, _ = page_of(tmp_path, results())
    assert "first last lowest highest a 3 1 1 3" in page.text
    assert ("svg", "aria-label", "Loss: loss over epoch") in page.attributes
    assert [tag for tag, name, value in page.attributes if (name, value) == ("role", "img")]


def strokes(chart: Chart) -> list[str]:
    """The paths of the curves of one chart, in their colours."""
    found = re.findall(
        r'<path d="([^"]*)" style="[^"]*stroke: var\(--plot-\d', draw_chart(chart, "s").svg
    )
    return [path for path in found if "C" not in path]  # dots are round


def test_a_gap_breaks_a_curve_and_long_ones_are_thinned():
    (gap,) = strokes(Chart("t", "x", "y", {"a": ([1, 2, 3, 4, 5], [1.0, 2.0, None, 1.0, 3.0])}))
    assert gap.count("M") == 2
    assert gap.count("L") == 2
    long = [float(v) for v in range(5000)]
    wave = [float(v % 7) for v in range(5000)]
    (path,) = strokes(Chart("t", "x", "y", {"a": (long, wave)}))
    assert 100 < path.count("L") < MAX_POINTS
    with pytest.raises(ValueError, match="2 x values and 1 y values"):
        Chart("t", "x", "y", {"a": ([1, 2], [1.0])})


def test_pages_are_the_same_every_time(tmp_path):
    first = page_of(tmp_path, results())[1]
    assert page_of(tmp_path, results())[1] == first


def test_only_images_beside_the_results_are_shown(tmp_path):
    folder = tmp_path / "run"
    (folder / "below").mkdir(parents=True)
    for name in ("secret.png", "run/one.png", "run/below/two.png"):
        (tmp_path / name).write_bytes(PNG)
    (folder / "text.png").write_text("no image")
    (folder / "notes.txt").write_bytes(PNG)
    (folder / "folder.png").mkdir()
    (folder / "out.png").symlink_to(tmp_path / "secret.png")
    (folder / "in.png").symlink_to("one.png")
    refused = [
        "../secret.png", str(tmp_path / "secret.png"), "below/two.png", "./one.png", "text.png",
        "notes.txt", "folder.png", "out.png", "..\\secret.png", "a\0.png", "", ".", "..",
    ]  # fmt: skip
    found = results(images=[ImageFile(name) for name in [*refused, "one.png", "in.png"]])
    page, text = page_of(folder, found)
    assert len(page.values("src")) == 2
    assert page.values("alt") == ["one.png", "in.png"]
    assert text.count(base64.b64encode(PNG).decode()) == 2
    assert "next to the results: ../secret.png, " in page.text


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (Comparison("a", 1.0, 2.0, better="smaller"), "worse"),
        (Comparison("a", 1.0, 2.0, better="larger"), "better"),
        (Comparison("a", 1.0, 2.0), ""),
        (Comparison("a", None, 2.0, better="larger"), ""),
        (Comparison("a", 1.0, None, better="larger"), ""),
        (Comparison("a", 1.0, 1.0, better="larger"), "equal"),
        (Comparison("a", 1.0, 1.2, better="larger", std_error=0.3), "equal"),
        (Comparison("a", 1.0, 1.5, better="larger", std_error=0.3), "better"),
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
            images=[],
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


def test_former_names_of_fields_are_read(tmp_path):
    old = {
        "experiment": "uci", "figures": {"boston": {"rmse": 2.8}}, "seconds": 3.0,
        "comparison": [{"name": "a", "paper": 1.0, "ours": 2.0, "spread": 0.5}],
        "pictures": [{"file": "one.png"}],
        "sections": [{"title": "a", "words": ["text"], "points": None}],
    }  # fmt: skip
    (tmp_path / "results.json").write_text(json.dumps(old))
    found = Results.read(tmp_path / "results.json")
    page, _ = page_of(tmp_path, found)
    assert '"rmse": 2.8' in page.text
    found.write(tmp_path / "results.json")
    new = json.loads((tmp_path / "results.json").read_text())
    assert new["metrics"] == old["figures"]
    assert not {"experiment", "figures", "pictures"} & set(new)
    assert (new["name"], new["images"][0]["file"]) == ("uci", "one.png")
    assert new["comparison"][0]["std_error"] == 0.5
    assert new["sections"][0]["paragraphs"] == ["text"]
    assert Results.read(tmp_path / "results.json").metrics == old["figures"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not a JSON file"),
        ("[]", "does not hold results"),
        ('{"experiment": "a", "comparison": [{"nam": 1}]}', "has an invalid value"),
    ],
)
def test_other_files_are_refused(tmp_path, content, words):
    path = tmp_path / "results.json"
    path.write_text(content)
    with pytest.raises(errors.InvalidResults, match=words):
        Results.read(path)
    with pytest.raises(InvalidResults):
        find_results(tmp_path)
    assert InvalidResults is errors.InvalidResults


ROW = {"name": "a", "paper": 1.0, "ours": 2.0}
CHART = {"title": "t", "x_label": "x", "y_label": "y", "curves": {"a": [[1, 2], [3.0, None]]}}
WRONG = [
    ({"seconds": "3"}, "seconds must be a number, got '3'"),
    ({"seconds": None}, "seconds must be a finite number, got None"),
    ({"seconds": math.nan}, "seconds must be a finite number, got nan"),
    ({"seconds": True}, "seconds must be a number"),
    ({"seconds": 10**400}, "seconds must be a number that a float can hold"),
    ({"peak_memory_mib": [1]}, "peak_memory_mib must be a number"),
    ({"threads": 1.5}, "threads must be an integer"),
    ({"seeds": 1}, "seeds must be a list"),
    ({"seeds": ["1"]}, "seeds[0] must be an integer"),
    ({"title": 3}, "title must be a string"),
    ({"command": ["a"]}, "command must be a string"),
    ({"commit": {}}, "commit must be a string"),
    ({"notes": "one"}, "notes must be a list"),
    ({"notes": [None]}, "notes[0] must be a string"),
    ({"settings": []}, "settings must be an object"),
    ({"figures": [1]}, "metrics must be an object"),
    ({"metrics": [1]}, "metrics must be an object"),
    ({"versions": {"torch": 2.1}}, "versions['torch'] must be a string"),
    ({"comparison": {}}, "comparison must be a list"),
    ({"comparison": None}, "comparison must be a list"),
    ({"comparison": ["a"]}, "comparison[0] must be an object"),
    ({"comparison": [{"name": "a"}]}, "comparison[0] must be an object with 'paper'"),
    ({"comparison": [{**ROW, "ours": "2"}]}, "comparison[0].ours must be a number, got '2'"),
    ({"comparison": [{**ROW, "better": "more"}]}, "comparison[0].better must be"),
    ({"comparison": [{**ROW, "better": ["larger"]}]}, "comparison[0].better must be"),
    ({"comparison": [{**ROW, "note": 1}]}, "comparison[0].note must be a string"),
    ({"charts": [3]}, "charts[0] must be an object"),
    ({"charts": [{**CHART, "log": "no"}]}, "charts[0].log must be true or false"),
    ({"charts": [{**CHART, "curves": [[1], [2]]}]}, "charts[0].curves must be an object"),
    ({"charts": [{**CHART, "curves": {"a": [[1]]}}]}, "must be a pair of lists"),
    ({"charts": [{**CHART, "curves": {"a": {"1": 2}}}]}, "must be a pair of lists"),
    ({"charts": [{**CHART, "curves": {"a": [[1], [2, 3]]}}]}, "a pair of equally long lists"),
    ({"charts": [{**CHART, "curves": {"a": [[1], ["2"]]}}]}, "['a'][1][0] must be a number"),
    ({"calibration": []}, "calibration must be an object"),
    ({"calibration": {"kind": "odd", "curves": {}}}, "calibration.kind must be 'coverage' or"),
    ({"calibration": {"kind": "coverage", "curves": {}, "error": {"a": "1"}}}, "error['a'] must"),
    ({"pictures": ["a.png"]}, "images[0] must be an object"),
    ({"pictures": [{"file": 1}]}, "images[0].file must be a string"),
]


@pytest.mark.parametrize(("content", "words"), WRONG, ids=lambda value: str(value)[:40])
def test_values_of_the_wrong_type_are_refused_with_their_location(tmp_path, content, words):
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"experiment": "a", **content}))
    with pytest.raises(InvalidResults, match=re.escape(words)) as caught:
        find_results(tmp_path)
    assert str(caught.value).startswith(f"{path} has an invalid value: ")


def test_json_files_of_other_programs_are_ignored(tmp_path):
    (tmp_path / "package.json").write_text('{"name": "web", "version": "1.0", "seconds": "x"}')
    assert find_results(tmp_path) == []


@pytest.mark.parametrize("text", ["[" * 100_000, '{"experiment": "\\ud800"}', "1" * 5000, b"\xff"])
def test_files_that_cannot_be_decoded_are_refused(tmp_path, text):
    path = tmp_path / "results.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidResults, match=re.escape(f"{path} is not a JSON file")):
        Results.read(path)


def test_numbers_that_are_not_finite_are_stored_as_null(tmp_path):
    nan, inf = math.nan, math.inf
    made = results(
        comparison=[Comparison("RMSE", nan, inf, std_error=nan, better="smaller", learner="tagi")],
        charts=[Chart("Loss", "epoch", "loss", {"a": ([1, nan, 3], [nan, 2.0, -inf])}, log=True)],
        calibration=Calibration("coverage", {"a": ([0.5, 0.9], [nan, 0.8])}, {"a": nan, "b": 0.1}),
        metrics={"rmse": nan},
        peak_memory_mib=nan,
    )  # fmt: skip
    made.write(tmp_path / "results.json")
    written = Results.read(tmp_path / "results.json")
    literal = json.dumps(asdict(made))  # with NaN and Infinity, which Python's JSON knows
    (tmp_path / "results.json").write_text(literal)
    for found in (written, Results.read(tmp_path / "results.json")):
        assert (found.comparison[0].paper, found.comparison[0].ours) == (None, None)
        assert found.comparison[0].verdict == ""
        assert found.charts[0].curves["a"] == [[1, None, 3], [None, 2.0, None]]
        assert found.calibration.error == {"b": 0.1}
        assert found.peak_memory_mib is None
        page, _ = page_of(tmp_path, found)
        assert "nan" not in page.text.replace("NaN", "").lower().split()
    write_index(tmp_path, find_results(tmp_path))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_sections_with_numbers_that_are_not_finite(tmp_path, bad):
    """What cannot be written as a number is a gap: it is read again, and not drawn."""
    ends = [bad, 0.5, 1.5, 2.0], [2.0, bad, 3.0, 4.0]
    places, values = [1.0, 2.0, bad, 3.0], [bad, 2.0, 2.5, 3.0]
    made = results(
        sections=[
            Section("Points?", scatter=ScatterData("x", "y", places, values, *ends)),
            Section("Bars?", bars=BarData("cost", ["a", "b"], [bad, 1.0], [0.1, bad])),
            Section("No point?", scatter=ScatterData("x", "y", [bad], [1.0])),
        ]
    )
    made.write(tmp_path / "results.json")
    found = Results.read(tmp_path / "results.json")
    assert found.sections[0].scatter.x == [1.0, 2.0, None, 3.0]
    assert found.sections[0].scatter.low == [None, 0.5, 1.5, 2.0]
    assert found.sections[1].bars == BarData("cost", ["a", "b"], [None, 1.0], [0.1, None])
    for each in (made, found):
        page, text = page_of(tmp_path, each)
        assert "<svg" in text
        assert "nan" not in page.text.lower().split()


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "results.json"
    results().write(path)
    before = path.read_text()
    with pytest.raises(TypeError, match="JSON values"):
        results(metrics={"a": object()}).write(path)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]
