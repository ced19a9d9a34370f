"""Messages and comments that point to a page or a heading: it is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCES = [
    *sorted((ROOT / "src").rglob("*.py")),
    *sorted((ROOT / "studies").rglob("*.py")),
    ROOT / "pyproject.toml",
]
HEADING = re.compile(r"[Ss]ee\s+['\"]([^'\"]+)['\"]\s+in\s+([\w./-]+\.md)")
PAGE = re.compile(r"(?<![\w/.])((?:docs|studies|tests)/[\w./-]+\.md)(?:#([\w-]+))?")
LOST = re.compile(r"\bDESIGN\b|\bdesign document\b")


def text(path: Path) -> str:
    """The text of a source file, with the parts of implicitly joined strings as one."""
    return re.sub(r"[\"']\s*\n\s*f?[\"']", "", path.read_text(encoding="utf-8"))


def headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)


def slug(heading: str) -> str:
    """The anchor of a heading, as MkDocs makes it."""
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower())).strip("-")


def pointers(pattern: re.Pattern[str]) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (path.relative_to(ROOT).as_posix(), found.groups())
        for path in SOURCES
        for found in pattern.finditer(text(path))
    ]


def test_headings_that_messages_name_exist():
    found = pointers(HEADING)
    assert any(where == "src/tractable/gaussian.py" for where, _ in found)
    assert [(w, h, p) for w, (h, p) in found if h not in headings(ROOT / p)] == []


def test_pages_and_anchors_that_sources_name_exist():
    for where, (page, anchor) in pointers(PAGE):
        assert (ROOT / page).is_file(), (where, page)
        if anchor:
            assert anchor in map(slug, headings(ROOT / page)), (where, page, anchor)


def test_nothing_points_to_documents_outside_the_repository():
    assert [path for path in SOURCES if LOST.search(path.read_text(encoding="utf-8"))] == []
