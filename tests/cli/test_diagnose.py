"""``tractable diagnose``: a page that begins with a recommendation; JSON; invalid use."""

import json
import re

import pytest

from tests.cli.conftest import write
from tractable.cli.commands import diagnose as command


@pytest.fixture(autouse=True)
def small_budget(monkeypatch):
    """Options for few and short fits, because the numbers are not tested."""
    few = command.FitBudget(60, 3, 3, (0.4, 0.7, 1.0), (2, 4), 1, 2, ("L2 prior", "TAGI"))
    monkeypatch.setattr(command.FitBudget, "from_options", classmethod(lambda cls, choices: few))


def test_a_page_begins_with_the_recommendation(call, houses, tmp_path):
    done = call("diagnose", houses, "--target", "price", "--drop", "name", "--hidden", 4,
                "--workers", 1)  # fmt: skip
    assert done.exit_code == 0, done.output
    folder = tmp_path / "out" / "houses-diagnostics"
    page = (folder / "report.html").read_text()
    held = json.loads((folder / "diagnostics.json").read_text())
    text = re.sub(r"\s+", " ", re.sub(r"<style>.*?</style>|<title>.*?</title>|<[^>]+>", " ", page,
                                      flags=re.DOTALL)).strip()  # fmt: skip
    assert text.startswith(held["recommendation"].replace("'", "&#39;"))
    assert held["recommendation"].startswith(("Noise: ", "Bias: ", "Variance: "))
    assert held["recommendation"] in done.output
    assert page.count("<svg") == 5 == len(held["diagnostics"])
    assert held["details"]["rows"] == "60"
    assert any("60 of 120 rows" in note for note in held["notes"])
    assert "http" not in re.sub(r"http://www.w3.org/\S+", "", page)


@pytest.mark.parametrize("learner", ["tagi", "net"])
def test_classes_and_json(call, kinds, learner):
    done = call("diagnose", kinds, "--target", "kind", "--json", "--workers", 1, "--hidden", 3,
                "--learner", learner)  # fmt: skip
    assert done.exit_code == 0, done.output
    held = json.loads(done.output)
    assert next(iter(held["diagnostics"])) == "Noise, bias and variance"
    assert held["diagnostics"]["Regularization"]["error_metric"] == "error rate"


def test_column_names_are_escaped(call, tmp_path):
    rows = [[i % 7, 2 * (i % 7) + i % 3] for i in range(60)]
    data = write(tmp_path / "odd.csv", ["<b>x</b>", "<script>alert(1)</script>"], rows)
    done = call("diagnose", data, "--target", "<script>alert(1)</script>", "--workers", 1,
                "--task", "regression", "--out", tmp_path / "page")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "<script>" not in (tmp_path / "page" / "report.html").read_text()


def test_invalid_use(call, houses, tmp_path):
    for words, said in (
        (["--learner", "tagy"], "did you mean 'tagi'?"),
        (["--hidden", 0], "--hidden must be at least 1, got 0"),
        (["--rows", 5], "--rows must be at least 40, got 5"),
        (["--workers", 0], "--workers must be at least 1, got 0"),
        (["--drop", "nome"], "nome"),
    ):
        done = call("diagnose", houses, "--target", "price", *words)
        assert done.exit_code == 2, words
        assert said in done.stderr
        assert not (tmp_path / "out").exists()
    few = write(tmp_path / "few.csv", ["x", "y"], [[i, i / 3] for i in range(20)])
    done = call("diagnose", few, "--target", "y")
    assert done.exit_code == 2
    assert "20 rows are too few: expected at least 40" in done.stderr
