"""The README and the contributing guide: their code runs, and what they name exists."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def blocks(name: str) -> list[tuple[str, str]]:
    """Python blocks of a page, each with the plain block right after it, if there is one."""
    text = (ROOT / name).read_text()
    found = re.findall(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", text, flags=re.DOTALL)
    return [(re.sub(r"^   ", "", code, flags=re.MULTILINE), output) for code, output in found]


def test_the_contributing_guide_leaves_code_to_the_pages_that_run():
    assert blocks("CONTRIBUTING.md") == []
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    for target in re.findall(r"`make ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text()):
        assert target in targets


def test_the_readme_prints_what_it_says():
    ((code, output),) = blocks("README.md")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue() == output
    assert output.count("+-") == 2


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/equations.md"])
def test_pages_name_files_that_exist(page):
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / page).parent.joinpath(target).exists(), target
    for path in re.findall(r"`((?:tests|src|docs|benchmarks|studies)/[\w./-]+)`", text):
        assert (ROOT / path).exists(), path
