"""The examples: each runs to its end, where it asserts what is known."""

import os
import re
import runpy
from pathlib import Path

import matplotlib as mpl
import pooch
import pytest

from tractable.data import download

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NUMBERED = sorted(EXAMPLES.glob("[0-9][0-9]_*.py"))
NEED_DATA = {"05_drifting_series"}


@pytest.mark.parametrize("path", NUMBERED, ids=lambda path: path.stem)
def test_an_example_runs(path, tmp_path, monkeypatch, capsys):
    if path.stem in NEED_DATA and not os.environ.get(download.FOLDER):
        pytest.skip(f"{download.FOLDER} does not name a folder with the real data sets")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.count("\n") >= 2, "it says what it found"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", NUMBERED, ids=lambda path: path.stem)
def test_an_example_asserts_what_is_known_and_says_how_to_run_it(path):
    text = path.read_text()
    assert len(re.findall(r"^ +assert ", text, flags=re.MULTILINE)) >= 2
    assert f"python examples/{path.name}" in text


def test_they_are_numbered_without_gaps():
    assert [int(path.name[:2]) for path in NUMBERED] == list(range(1, len(NUMBERED) + 1))
    assert len(NUMBERED) >= 8


def test_without_data_the_series_example_says_so_and_stops(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv(download.FOLDER, raising=False)
    monkeypatch.setattr(download, "_MIRRORS", {})
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / project)
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(EXAMPLES / "05_drifting_series.py"), run_name="__main__")
    assert stopped.value.code == 1
    assert "needs the sunspot series" in capsys.readouterr().err


def test_the_figure_of_the_readme_is_made(tmp_path, monkeypatch):
    """The whole way, with few epochs: the learners' fits are shortened."""
    import tractable as tr

    mpl.use("Agg")
    target = tmp_path / "three.png"
    fit = tr.Learner.fit
    monkeypatch.setattr(
        tr.Learner, "fit", lambda self, x, y, **options: fit(self, x, y, epochs=2, batch_size=50)
    )
    monkeypatch.setattr("sys.argv", ["three_learners.py", str(target)])
    runpy.run_path(str(EXAMPLES / "three_learners.py"), run_name="__main__")
    assert target.stat().st_size > 10_000
