"""The example ``first_ten_minutes``: every command succeeds, with little computing time."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples/first_ten_minutes.py"


@pytest.mark.slow
def test_first_ten_minutes_example_succeeds_quickly(capsys):
    busy = runpy.run_path(str(SCRIPT))["main"](rows=80)
    said = capsys.readouterr().out
    assert said.count("$ tractable") == 5
    assert "no better than" not in said
    assert busy < 120
