"""Folders of results; files of other studies are unchanged."""

import importlib
import json
import shlex
from pathlib import Path

import pytest
from matplotlib.figure import Figure

import tractable_studies
from tractable.cli.commands import studies
from tractable.cli.errors import UsageError
from tractable.report import provenance
from tractable.report.results import RESULTS, Comparison, Results
from tractable_studies.framework.progress import PartsProgress
from tractable_studies.framework.record import RunRecord

ROOT = Path(tractable_studies.__file__).parent


def make(name: str) -> RunRecord:
    return RunRecord(studies.find(name), seeds=[1], settings={"size": 3}, argv=["--seed", "1"])


def committed() -> list[Path]:
    """All results in the folders of the studies."""
    return sorted(
        p
        for p in ROOT.rglob("*.json")
        if {"experiment", "metrics"} & set(json.loads(p.read_text()))
    )


def test_a_folder_of_its_own_gets_results_and_report(tmp_path):
    assert make("uci").write(tmp_path) == tmp_path / RESULTS
    assert (tmp_path / "report.html").is_file()
    assert make("uci").write(tmp_path) == tmp_path / RESULTS  # again: replaced


def test_a_shared_folder_gets_a_file_for_each_study(tmp_path):
    old = tmp_path / "attack-mnist.json"
    old.write_text(json.dumps({"experiment": "attack-mnist", "figures": {}}))
    (tmp_path / "notes.json").write_text("[1, 2]")
    for name in ("uci", "blackbox", "uci"):
        assert make(name).write(tmp_path) == tmp_path / f"{name}.json"
    assert json.loads(old.read_text()) == {"experiment": "attack-mnist", "figures": {}}
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "attack-mnist.json", "blackbox.json", "notes.json", "uci.json",
    ]  # fmt: skip


def test_another_study_s_results_are_not_replaced(tmp_path):
    make("uci").write(tmp_path)
    assert make("blackbox").write(tmp_path) == tmp_path / "blackbox.json"
    assert Results.read(tmp_path / RESULTS).name == "uci"


@pytest.mark.parametrize("path", committed(), ids=lambda path: path.parent.name + "-" + path.stem)
def test_committed_results_stay_valid(path):
    found = Results.read(path)
    assert found.name in studies.names()
    assert found.metrics  # called figures in older files


def test_every_study_has_committed_results_and_a_page_that_names_its_command():
    assert {Results.read(path).name for path in committed()} == set(studies.names())
    for name in studies.names():
        folder = ROOT / studies.find(name).module.split(".")[1]
        assert f"tractable run {name}" in (folder / "README.md").read_text()


def committed_commands() -> list[str]:
    found = (Results.read(path).command for path in committed())
    return sorted({command for command in found if command})


@pytest.mark.parametrize("command", committed_commands())
def test_committed_commands_are_still_understood(command, capsys):
    """Every option of the command is known: only the wrong one that we add is refused."""
    words = shlex.split(command)
    if words[0] == "tractable":
        main, words = studies.find(words[2]).main(), words[3:]
    else:
        assert words[:2] == ["python", "-m"]
        parts = words[2].split(".")  # tractable.experiments.NAME, as it was called once
        if parts[1] == "experiments":
            parts = ["tractable_studies", parts[2], "run"]
        file = parts[2] if len(parts) > 2 else "run"
        main = importlib.import_module(f"tractable_studies.{parts[1]}.{file}").main
        words = words[3:]
    with pytest.raises(SystemExit):
        main([*words, "--threads", "0"])
    assert "--threads must be at least 1" in capsys.readouterr().err


def test_what_is_written_can_be_read(tmp_path):
    kept = make("uci")
    kept.comparison = [Comparison("RMSE", 3.1, float("nan"), better="smaller")]
    kept.metrics = {"values": (1.5, float("inf"))}
    chart = kept.learning_curves({"a": [{"epoch": 1, "loss": 2.0}, {"loss": 1.0}], "b": []}, "loss")
    kept.charts = [chart]
    sheet = Figure(figsize=(1, 1))
    kept.picture(tmp_path, sheet, "one", "a caption")
    found = Results.read(kept.write(tmp_path))
    assert found.comparison == [Comparison("RMSE", 3.1, None, better="smaller")]
    assert found.metrics == {"values": [1.5, None]}
    assert found.charts[0].curves == {"a": [[1, 2], [2.0, 1.0]]}
    assert found.images[0].file == "uci-one.png"
    assert found.title.startswith("Seven UCI")
    assert found.command == "python -m tractable_studies.uci.run --seed 1"
    assert kept.learning_curves({"a": [{"epoch": 1}]}, "loss") is None


def test_a_picture_that_cannot_be_drawn_leaves_nothing(tmp_path):
    class Broken:
        def savefig(self, path, dpi):
            path.write_bytes(b"half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        make("uci").picture(tmp_path, Broken())
    assert list(tmp_path.iterdir()) == []


def test_the_command_is_the_users(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/some/bin/tractable", "run", "uci", "--out", "/some/x/y"])
    assert provenance.command_line("uci", ["--out", "/some/x/y"]) == "tractable run uci --out y"


def test_unknown_studies_get_the_nearest_names():
    with pytest.raises(UsageError, match="did you mean 'regression'"):
        studies.find("regresion")


def test_every_entry_point_is_the_study_it_names():
    assert len(studies.names()) >= 14
    for name in studies.names():
        study = studies.find(name)
        assert study.name == name
        assert study.title
        assert study.source
        assert study.module.startswith("tractable_studies.")


def test_parts_say_how_many_are_done(capsys):
    with PartsProgress(5, "parts", done=2) as parts:
        for text in ("first", "second", "third"):
            parts.step(text)
    assert capsys.readouterr().out.splitlines() == [
        "first (3 of 5 parts)", "second (4 of 5 parts)", "third (5 of 5 parts)",
    ]  # fmt: skip
