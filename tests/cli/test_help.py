"""Help texts list what the registries contain."""

import re

import pytest
from typer.testing import CliRunner

from tractable.cli.app import app
from tractable.cli.tables.likelihood_choice import NAMES
from tractable.cli.tables.model_file import LEARNERS


@pytest.mark.parametrize(
    ("option", "following", "names"),
    [("likelihood", "order", NAMES), ("learner", "out", LEARNERS)],
)
def test_fit_lists_all_likelihoods_and_learners(option, following, names):
    text = CliRunner().invoke(app, ["fit", "--help"]).output
    entry = text[text.index(f"--{option} ") : text.index(f"--{following} ")]
    assert [name for name in names if not re.search(rf"\b{name}\b", entry)] == []
