"""Reports rendered on a desktop and a phone: no clipped text, dead links or errors."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest

from tests.browser.chromium import BROWSER, PHONE, WIDE, show
from tests.report.test_page import results as study_results
from tractable.cli.commands.density import DensityOptions, density
from tractable.cli.commands.fit import fit
from tractable.cli.commands.forecast import forecast_file
from tractable.cli.tables.prepare import FitOptions
from tractable.cli.tables.series import ForecastOptions
from tractable.report import find_results, write_index, write_report

OWN = ("price", "town", "rows", "ahead")
"""A user's own data: a regression, a classification, unusual rows, a forecast."""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A user's own reports, a study and an index, each at two widths."""
    folder = tmp_path_factory.mktemp("pages")
    rng = np.random.default_rng(0)
    lines = [
        "a column with a rather long name;town;the day it was sold;price in thousands of euros"
    ]
    for i in range(80):
        size, town = rng.normal(100, 20), ("Aix-en-Provence", "Brno", "Llanfairpwllgwyngyll")[i % 3]
        price = 2 * size + 30 * (town == "Brno") + rng.normal(0, 5)
        lines.append(f"{size:.1f};{town};2024-{1 + i % 12:02d}-{1 + i % 28:02d};{price:.2f}")
    data = folder / "flats.csv"
    data.write_text("\n".join(lines), encoding="utf-8")
    price = "price in thousands of euros"
    quick = {"data": data, "hidden": (8,), "epochs": 4}
    fit(FitOptions(target=price, out=folder / "runs/price", **quick))
    fit(FitOptions(target="town", out=folder / "runs/town", **quick))
    density(DensityOptions(data=data, out=folder / "runs/rows", components=1))
    forecast_file(ForecastOptions(data=_days(folder), time="day", target=("y",), horizon=7,
                         out=folder / "runs/ahead"))  # fmt: skip
    (folder / "runs/study").mkdir()
    study = study_results(images=[])
    study.write(folder / "runs/study/results.json")
    write_report(study, folder / "runs/study")
    write_index(folder / "runs", find_results(folder / "runs"))
    paths = [folder / "runs" / name / "report.html" for name in (*OWN, "study")]
    paths.append(folder / "runs/index.html")
    texts = [path.read_text(encoding="utf-8") for path in paths]
    pages = [(text, width) for text in texts for width in (WIDE, PHONE)]
    return paths, show(folder, pages)


def _days(folder):
    rng = np.random.default_rng(1)
    days = np.datetime64("2024-01-01") + np.arange(120)
    y = 5 + 3 * np.sin(2 * np.pi * np.arange(120) / 7) + rng.standard_normal(120)
    path = folder / "days.csv"
    path.write_text("\n".join(["day,y", *map("{},{:.2f}".format, days, y)]), encoding="utf-8")
    return path


def test_no_page_is_wider_than_its_window(shown):
    _, found = shown
    assert [seen.width for seen in found.pages] == [WIDE, PHONE] * (len(OWN) + 2)
    for seen in found.pages:
        assert seen.needs <= seen.width
        assert seen.words > 200


def test_no_text_of_a_users_report_is_cut(shown):
    for seen in shown[1].pages[: 2 * len(OWN)]:
        assert [cut for cut in seen.cut if not cut.startswith("PRE")] == []


@pytest.mark.parametrize("word", ["paper", "commit", "ours", "True", "None", "nan"])
def test_a_users_report_has_no_word_of_papers_or_programs(shown, word):
    for path in shown[0][: len(OWN)]:
        page = re.sub(r"<(style|svg|pre).*?</\1>", "", path.read_text(), flags=re.DOTALL)
        text = html.unescape(re.sub(r"<[^>]*>", " ", page))
        assert not re.search(rf"\b{word}\b", text), path


def test_drawings_can_be_read(shown):
    for seen in shown[1].pages:
        assert seen.outside == []
        assert seen.small == []


def test_links_lead_somewhere(shown):
    paths, found = shown
    for path, seen in zip(np.repeat(paths, 2), found.pages, strict=True):
        for link in seen.links:
            if link.startswith("#"):
                assert link[1:] in seen.ids
            else:
                assert (path.parent / link).is_file(), link
    assert {"price/report.html", "town/report.html"} <= set(found.pages[-1].links)


def test_browser_console_has_no_errors(shown):
    _, found = shown
    assert found.console == []
    assert all(seen.pictures == [] for seen in found.pages)


def test_a_page_that_is_cut_is_found_to_be(tmp_path):
    """The measure itself: a table too wide for a phone, and an error of a script."""
    wide = (
        "<main><div style='overflow-x:auto'><table><tr><td>" + "x" * 300 + "</table></div></main>"
    )
    page = f"<!doctype html><title>t</title>{wide}<script>nothing.at.all</script>"
    found = show(tmp_path, [(page, PHONE)])
    assert len(found.pages[0].cut) == 1
    assert len(found.console) == 1
