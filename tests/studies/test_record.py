"""Where results go, and that nothing of another experiment is touched."""

import importlib
import json
import shlex
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from tractable.experiments import record, registry
from tractable.experiments.progress import Countdown
from tractable.experiments.record import Record

from tractable.report.results import RESULTS, Comparison, Results


def make(name: str) -> Record:
    return Record(name, seeds=[1], settings={"size": 3}, argv=["--seed", "1"])


def test_a_folder_of_its_own_gets_results_and_report(tmp_path):
    assert make("uci").write(tmp_path) == tmp_path / RESULTS
    assert (tmp_path / "report.html").is_file()
    assert make("uci").write(tmp_path) == tmp_path / RESULTS  # again: replaced


def test_a_shared_folder_gets_a_file_for_each_experiment(tmp_path):
    old = tmp_path / "attack-mnist.json"
    old.write_text(json.dumps({"experiment": "attack-mnist", "figures": {}}))
    (tmp_path / "notes.json").write_text("[1, 2]")
    for name in ("uci", "blackbox", "uci"):
        assert make(name).write(tmp_path) == tmp_path / f"{name}.json"
    assert json.loads(old.read_text()) == {"experiment": "attack-mnist", "figures": {}}
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "attack-mnist.json", "blackbox.json", "notes.json", "uci.json",
    ]  # fmt: skip


def test_another_experiments_results_are_not_replaced(tmp_path):
    make("uci").write(tmp_path)
    assert make("blackbox").write(tmp_path) == tmp_path / "blackbox.json"
    assert Results.read(tmp_path / RESULTS).experiment == "uci"


def test_committed_results_stay_valid():
    folder = Path(registry.__file__).parents[3] / "results"
    read = 0
    for path in folder.glob("*.json"):
        if "experiment" in json.loads(path.read_text()):
            assert Results.read(path).experiment
            read += 1
    if not read:
        pytest.skip("no checkout with results")


def committed_commands() -> list[str]:
    folder = Path(registry.__file__).parents[3] / "results"
    found = (json.loads(path.read_text()).get("command", "") for path in folder.glob("*.json"))
    ours = ("python -m tractable.experiments.", "tractable run ")
    return sorted({command for command in found if command.startswith(ours)})


@pytest.mark.parametrize("command", committed_commands())
def test_committed_commands_are_still_understood(command, capsys):
    """Every option of the command is known: only the wrong one that we add is refused."""
    words = shlex.split(command)
    if words[0] == "tractable":
        main, words = registry.find(words[2]).main(), words[3:]
    else:
        main, words = importlib.import_module(words[2]).main, words[3:]
    with pytest.raises(SystemExit):
        main([*words, "--threads", "0"])
    assert "--threads must be at least 1" in capsys.readouterr().err


def test_what_is_written_can_be_read(tmp_path):
    kept = make("uci")
    kept.comparison = [Comparison("RMSE", 3.1, float("nan"), better="smaller")]
    kept.figures = {"values": (1.5, float("inf"))}
    chart = kept.learning_curves({"a": [{"epoch": 1, "loss": 2.0}, {"loss": 1.0}], "b": []}, "loss")
    kept.charts = [chart]
    sheet = Figure(figsize=(1, 1))
    kept.picture(tmp_path, sheet, "one", "a caption")
    found = Results.read(kept.write(tmp_path))
    assert found.comparison == [Comparison("RMSE", 3.1, None, better="smaller")]
    assert found.figures == {"values": [1.5, None]}
    assert found.charts[0].curves == {"a": [[1, 2], [2.0, 1.0]]}
    assert found.pictures[0].file == "uci-one.png"
    assert found.title.startswith("Seven UCI")
    assert found.command == "python -m tractable.experiments.uci --seed 1"
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
    assert record.command("uci", ["--out", "/some/x/y"]) == "tractable run uci --out y"


def test_unknown_experiments_get_the_nearest_names():
    with pytest.raises(registry.UnknownExperiment, match="did you mean regression"):
        registry.find("regresion")


def test_every_module_of_the_registry_is_an_experiment():
    for name in registry.names():
        entry = registry.EXPERIMENTS[name]
        assert entry.title
        assert entry.source
        assert entry.module.startswith("tractable.experiments.")


def test_the_time_left_is_the_mean_of_the_parts_done(monkeypatch, capsys):
    clock = iter([0.0, 100.0, 400.0, 600.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    countdown = Countdown(5, "parts", done=2)
    countdown.step("first")  # one part in 100 s, two to go
    countdown.step("second")  # two parts in 400 s, one to go
    countdown.step("third")
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "first (3 of 5 parts, 3 min left)",
        "second (4 of 5 parts, 3 min left)",
        "third (5 of 5 parts)",
    ]
