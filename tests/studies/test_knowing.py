"""The studies of model diagnostics, at sizes that take seconds."""

import pytest

from tractable.cli.commands import studies
from tractable.report.results import Results

SMALL = {
    "double-descent": "--widths 2 8 --rows 60 --test-rows 40 --epochs 2 --tagi-epochs 2",
    "honesty": "--sets boston --learners TAGI Backprop --epochs 1",
    "remedies": "--sets boston --epochs 1",
    "transfer": "--first-rows 60 --rows 10 --test-rows 40 --epochs 1 --learners TAGI",
}


@pytest.mark.parametrize("name", SMALL)
def test_a_small_run(name, tmp_path, real_data):
    studies.find(name).main()(["--quick", *SMALL[name].split(), "--out", str(tmp_path)])
    results = Results.read(tmp_path / "results.json")
    assert results.name == name
    assert results.comparison
    assert (tmp_path / "report.html").is_file()
    if name == "double-descent":
        assert results.metrics["TAGI"]["sizes"][0]["size"] == 2
        assert len(results.charts) == 3
    if name == "transfer":
        runs = results.metrics["runs"]["TAGI"]["10"]
        assert set(runs) == {"posterior", "fresh"}
        chosen = results.metrics["chosen"]["TAGI"]["10"]["posterior"]
        tried = {s: sum(r["validation"] for r in group) for s, group in runs["posterior"].items()}
        assert chosen["strength"] == min(tried, key=tried.get)
