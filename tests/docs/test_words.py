"""Docstrings state what is exact, argument descriptions are complete, the glossary is short."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import tractable as tr
from docs import pages
from tractable import rules

RULES = [m.name for m in pkgutil.iter_modules(rules.__path__) if m.name != "autograd"]
PUBLIC = [getattr(tr, name) for name in tr.__all__]
LEARNERS = [
    kind
    for kind in PUBLIC
    if isinstance(kind, type) and issubclass(kind, tr.Learner) and kind is not tr.Learner
]


@pytest.mark.parametrize("module", RULES)
def test_every_rule_states_what_is_exact_and_approximate(module):
    text = importlib.import_module(f"tractable.rules.{module}").__doc__
    assert "Exact:" in text
    assert "Approximate:" in text


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda kind: kind.__name__)
def test_every_learner_states_what_is_exact_and_approximate(learner):
    assert "Exact:" in learner.__doc__
    assert "Approximate:" in learner.__doc__


def test_no_argument_description_begins_with_of():
    """An incomplete description such as ``seed: of the weights`` is hard to read."""
    home = Path(tr.__file__).parent
    found = [
        f"{path.relative_to(home)}: {line.strip()}"
        for path in home.rglob("*.py")
        for line in path.read_text().splitlines()
        if re.match(r" {8,12}\w+: of ", line)
    ]
    assert not found, "\n".join(found)


def test_the_glossary_is_short_and_every_term_is_linked():
    """A term of the glossary is linked where it is used; other terms are those of the field."""
    glossary = pages.DOCS / "developer" / "glossary.md"
    terms = re.findall(r"^## (.+)$", glossary.read_text(), flags=re.MULTILINE)
    assert terms
    assert len(terms) <= 25
    text = "".join(page.read_text() for page in pages.pages())
    linked = set(re.findall(r"glossary\.md#([\w-]+)", text))
    assert {term.lower().replace(" ", "-") for term in terms} == linked
