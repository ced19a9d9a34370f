"""The built documentation (``make browser``), rendered wide and narrow."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urldefrag

import pytest

from tests.browser.chromium import BROWSER, PHONE, WIDE, measuring, run

SITE = Path(__file__).parents[2] / "site"
GUIDE = SITE.parent / "docs/guide"
PAGES = [page for page in sorted(SITE.glob("**/*.html")) if page.name != "404.html"]

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed"),
    pytest.mark.skipif(not PAGES, reason="the documentation is not built: make browser"),
]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    read = [page for page in PAGES if page.parent.name != "api"]
    assert {page.stem for page in read} >= {page.stem for page in GUIDE.glob("*.md")}
    chosen = [(page, width) for page in read for width in (WIDE, PHONE)]
    frames = "".join(
        f'<iframe style="border:0;width:{width}px;height:900px" src="{page.as_uri()}"></iframe>'
        for page, width in chosen
    )
    wrapper = folder / "frames.html"
    wrapper.write_text(measuring(frames), encoding="utf-8")
    return chosen, run(wrapper.as_uri(), folder, "--allow-file-access-from-files")


def test_no_page_is_wider_than_its_window(shown):
    chosen, found = shown
    wide = [
        (page.relative_to(SITE).as_posix(), seen.needs)
        for (page, _), seen in zip(chosen, found.pages, strict=True)
        if seen.needs > seen.width
    ]
    assert wide == []


def test_pictures_are_there_and_scripts_do_not_fail(shown):
    _, found = shown
    assert [seen.pictures for seen in found.pages if seen.pictures] == []
    assert [line for line in found.console if "Uncaught" in line] == []


def test_links_inside_lead_somewhere(shown):
    chosen, found = shown
    dead = []
    for (page, _), seen in zip(chosen, found.pages, strict=True):
        for link in seen.links:
            path, _ = urldefrag(link)
            if not path or ":" in path:
                continue
            target = (page.parent / path).resolve()
            if not (target.is_file() or (target / "index.html").is_file()):
                dead.append((page.relative_to(SITE).as_posix(), link))
    assert json.dumps(dead) == "[]"
