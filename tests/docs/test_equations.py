"""The map from equations to functions and tests: complete, and of things that exist."""

import re
from pathlib import Path

import pytest

from tests.docs.names import resolve

ROOT = Path(__file__).parent.parent.parent
EQUATIONS = (48, 22)  # of the two papers


def tables() -> list[list[list[str]]]:
    """The rows of both tables, cells as text."""
    text = (ROOT / "docs" / "equations.md").read_text()
    found = []
    for part in text.split("| equation |")[1:]:
        lines = part.splitlines()[2:]
        rows = []
        for line in lines:
            if not line.startswith("|"):
                break
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        found.append(rows)
    return found


def numbers(cell: str) -> set[int]:
    """The equations that a cell names: ``(1), (5)`` and ``(11)–(14)``."""
    found = set()
    for first, last in re.findall(r"\((\d+)\)(?:–\((\d+)\))?", cell):
        found |= set(range(int(first), int(last or first) + 1))
    return found


@pytest.mark.parametrize("paper", [0, 1])
def test_every_equation_is_there_once(paper):
    named = [number for row in tables()[paper] for number in sorted(numbers(row[0]))]
    assert named == sorted(set(named)), "in order, none twice"
    assert set(named) == set(range(1, EQUATIONS[paper] + 1))


CHAPTERS = {5: 36, 12: 20, 13: 30}


def of_chapter(cell: str, chapter: int) -> list[int]:
    """The equations of a chapter that a cell names: ``5.7, 5.9–5.11``."""
    found: list[int] = []
    for first, last in re.findall(rf"\b{chapter}\.(\d+)(?:–{chapter}\.(\d+))?", cell):
        found += range(int(first), int(last or first) + 1)
    return found


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_equation_of_a_chapter_is_there_once(chapter):
    named = [number for row in tables()[2] for number in of_chapter(row[0], chapter)]
    assert sorted(named) == list(range(1, CHAPTERS[chapter] + 1))


def test_both_algorithms_are_there():
    entries = {row[0] for row in tables()[0]}
    assert {"algorithm 1", "algorithm 2"} <= entries


@pytest.mark.parametrize("row", [row for table in tables() for row in table], ids=lambda r: r[0])
def test_functions_and_tests_exist(row):
    _, says, functions, tests = row
    assert says
    cited = re.findall(r"`([\w.]+)`", functions)
    assert cited
    for function in cited:
        ours = function if function.startswith("tractable_studies.") else f"tractable.{function}"
        assert resolve(ours) is not None
    checked = re.findall(r"`(tests/[\w/.]+)`", tests)
    assert checked
    for path in checked:
        assert (ROOT / path).is_file(), path
