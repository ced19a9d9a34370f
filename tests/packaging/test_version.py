"""The version is the same wherever it is written."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_the_version_is_semantic():
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)


def test_the_citation_has_the_version():
    assert re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M)[1] == VERSION


def test_the_newest_section_of_the_changelog_is_of_the_version():
    """In the form of Keep a Changelog: the version in brackets, and its date."""
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert re.fullmatch(rf"\[{re.escape(VERSION)}\] - (Unreleased|\d{{4}}-\d\d-\d\d)", headings[0])
    sections = re.findall(r"^### (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    allowed = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(sections) <= allowed
