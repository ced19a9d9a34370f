"""The words of docstrings: what is exact is said everywhere, and arguments are whole phrases."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import tractable as tr
from tractable import rules

RULES = [m.name for m in pkgutil.iter_modules(rules.__path__) if m.name != "carrier"]
PUBLIC = [getattr(tr, name) for name in tr.__all__]
LEARNERS = [
    kind
    for kind in PUBLIC
    if isinstance(kind, type) and issubclass(kind, tr.Learner) and kind is not tr.Learner
]
OTHER_VOICES = {"adversarial.py", "agents", "attacks", "cli", "plots", "report"}


@pytest.mark.parametrize("module", RULES)
def test_every_rule_says_what_is_exact_and_what_is_not(module):
    text = importlib.import_module(f"tractable.rules.{module}").__doc__
    assert "Exact:" in text
    assert "Approximate:" in text


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda kind: kind.__name__)
def test_every_learner_says_what_is_exact_and_what_is_not(learner):
    assert "Exact:" in learner.__doc__
    assert "Approximate:" in learner.__doc__


def test_no_argument_begins_with_a_bare_genitive():
    """``seed: of the weights`` makes a reader stop; ``seed: seed of the ...`` does not."""
    home = Path(tr.__file__).parent
    found = [
        f"{path.relative_to(home)}: {line.strip()}"
        for path in home.rglob("*.py")
        if path.relative_to(home).parts[0] not in OTHER_VOICES
        for line in path.read_text().splitlines()
        if re.match(r" {8,12}\w+: of ", line)
    ]
    assert not found, "\n".join(found)
