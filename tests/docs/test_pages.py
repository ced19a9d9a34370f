"""The documentation: its code runs and prints what it says, its figures come from that code."""

import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import tractable
from docs import pages
from tests.docs.names import resolve
from tractable import gaussian
from tractable.cli.commands import studies

DOCS, ROOT = pages.DOCS, pages.DOCS.parent
MADE_BY_AN_EXAMPLE = {"three_learners.png": "examples/three_learners.py"}
NOT_IN_THE_REFERENCE = {"native", "versions"}  # api/index.md says why


def name(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


@pytest.fixture
def rules_as_they_were():
    """A page may register rules of its own."""
    gaussian.functions_with_rule()  # fills the table, which is empty before its first use
    before = dict(gaussian._RULES)
    yield
    gaussian._RULES.clear()
    gaussian._RULES.update(before)


@pytest.mark.parametrize("page", [p for p in pages.pages() if pages.blocks(p)], ids=name)
def test_a_page_does_what_it_says(page, tmp_path, rules_as_they_were):
    for block, printed in pages.run(page, tmp_path):
        assert pages.as_said(block, printed), (
            f"{page.name}, line {block.line} prints\n{printed}instead of\n{block.output}"
        )
        if block.kind == "python" and block.output is None:
            assert printed == "", (
                f"{page.name}, line {block.line} prints {printed!r} and says not so"
            )
    made = {path.name for path in tmp_path.glob("*.png")}
    assert made == set(pages.figures(page))
    for figure in made:
        assert size(tmp_path / figure) == size(pages.FIGURES / figure), "run `make figures`"


@pytest.mark.parametrize("page", pages.pages(), ids=name)
def test_outputs_are_numbers_and_words_not_truth_values(page):
    """A reader wants the number and its truth; ``surer inside: True`` is for a test."""
    for block in pages.blocks(page):
        assert not re.search(r"\b(True|False)$", block.output or "", flags=re.MULTILINE), block.line


def test_numbers_may_differ_a_little_and_words_may_not():
    said = pages.Block("python", "", 1, "error 0.93, truly 1.00 of 12\n")
    assert pages.as_said(said, "error 0.95, truly 1.00 of 12\n")
    assert not pages.as_said(said, "error 0.79, truly 1.00 of 12\n")
    assert not pages.as_said(said, "error 0.93, truly 1.00 of 13\n")
    assert not pages.as_said(said, "loss 0.93, truly 1.00 of 12\n")
    assert not pages.as_said(said, "error 0.93, truly 1.00 of 12\nmore\n")


def size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG file, as its header has them."""
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])


def test_every_task_has_a_figure_and_no_figure_is_left_over():
    for page in [DOCS / "tutorial.md", *(DOCS / "guide").glob("*.md")]:
        assert pages.figures(page), f"{page.name} shows no figure"
    shown = {figure for page in pages.pages() for figure in pages.figures(page)}
    there = {path.name: path.stat().st_size for path in pages.FIGURES.glob("*")}
    assert shown == there.keys()
    assert max(there.values()) < 40_000


def test_figures_of_examples_are_made_by_them():
    for figure, script in MADE_BY_AN_EXAMPLE.items():
        assert (DOCS / figure).is_file()
        assert figure in (ROOT / script).read_text()


@pytest.mark.parametrize("page", pages.pages(), ids=name)
def test_no_code_escapes_the_tests(page):
    """Every fence is of a kind that is run, or plainly not Python, and stands at the margin."""
    fences = re.findall(r"^( *)```(\w*)", page.read_text(), flags=re.MULTILINE)
    for (indent, kind), closing in zip(fences[::2], fences[1::2], strict=True):
        assert indent == "", f"{page.name} has an indented block, which is not run"
        assert kind in {"python", "console", "text", "sh"}
        assert closing == ("", "")
    ran = sum(kind in {"python", "console"} for _, kind in fences)
    assert ran == len(pages.blocks(page))
    outputs = sum(kind == "text" for _, kind in fences)
    assert outputs == sum(block.output is not None for block in pages.blocks(page))


@pytest.mark.parametrize("page", pages.pages(), ids=name)
def test_links_lead_somewhere(page):
    text = page.read_text()
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([\w-]+))?\)", text):
        path = page.parent / target if target else page
        assert path.is_file(), f"{page.name} links to {target}"
        if anchor:
            heads = re.findall(r"^#+ (.+)$", path.read_text(), flags=re.MULTILINE)
            assert anchor in {slug(head) for head in heads}, f"{page.name} links to #{anchor}"
    for path in re.findall(r"`((?:tests|src|docs|benchmarks|studies|examples)/[\w./-]+)`", text):
        assert (ROOT / path).exists(), f"{page.name} names {path}"


def slug(heading: str) -> str:
    """As the site makes anchors of headings."""
    words = re.sub(r"[^\w\s-]", "", heading).strip().lower()
    return re.sub(r"[-\s]+", "-", words)


def test_the_navigation_has_every_page():
    yaml = pytest.importorskip("yaml")
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())

    def files(entry):
        if isinstance(entry, str):
            return [entry]
        parts = entry.values() if isinstance(entry, dict) else entry
        return [file for part in parts for file in files(part)]

    listed = files(config["nav"])
    assert len(listed) == len(set(listed))
    assert set(listed) == {path.relative_to(DOCS).as_posix() for path in pages.pages()}


@pytest.mark.parametrize("page", pages.pages(), ids=name)
def test_studies_that_are_named_exist(page):
    text = page.read_text()
    for study in re.findall(r"tractable run ([a-z][\w-]*)", text):
        assert study in studies.names(), f"{page.name} names {study}"


def test_the_reference_has_every_module_and_only_what_exists():
    text = "".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
    shown = re.findall(r"^::: ([\w.]+)$", text, flags=re.MULTILINE)
    assert len(shown) == len(set(shown))
    for identifier in shown:
        assert resolve(identifier) is not None
    modules = {m.name for m in pkgutil.iter_modules(tractable.__path__) if m.name[0] != "_"}
    for package in ("learners", "persistence", "testing", "training"):
        public = importlib.import_module(f"tractable.{package}")
        for name in getattr(public, "__all__", ()):
            thing = getattr(public, name)
            if not isinstance(thing, type) and not inspect.isfunction(thing):
                continue  # a type alias has no page of its own
            assert any(resolve(identifier) is thing for identifier in shown) or (
                thing.__module__ in shown
            ), f"tractable.{package}.{name} is not in the reference"
    for module in modules - NOT_IN_THE_REFERENCE:
        assert any(
            identifier.startswith(f"tractable.{module}")
            or getattr(resolve(identifier), "__module__", "").startswith(f"tractable.{module}")
            for identifier in shown
        ), f"tractable.{module} is not in the reference"
    for public in tractable.__all__:
        thing = getattr(tractable, public)
        if not hasattr(thing, "__path__") and not isinstance(thing, type(sys)):
            assert any(resolve(identifier) is thing for identifier in shown), public
