"""Every study through its own ``main``, at sizes that take seconds."""

import json

import pytest

from tractable.cli.commands import studies
from tractable.report.results import Results
from tractable_studies.uci import run as uci

SMALL = {
    "optimize1d": "--quick --seed 3 4 --observations 60 --epochs 2 --steps 4",
    "batch_rule": "--quick --epochs 1 --depth 1 --batch-size 128",
    "q-learning": "--quick --methods tagi --steps 512 --episodes 100 --parts acting sea",
    "blackbox": "--quick --seed 0 --budget 14 --methods tractable random evolution",
}
WITH_DATA = {
    "uci": "--quick --sets boston --splits 2 --epochs 2",
    "mnist-cnn": "--quick --epochs 1 --rows 32 --test-rows 20",
    "attack-mnist": "--quick --rows 32 --images 3 --steps 2 --test-rows 20",
    "mnist": "--quick --units 8 --epochs 1 --rows 256 --test-rows 100 --draws 2 --models bnn-gaussian tagi",  # noqa: E501
}


def run(name: str, arguments: str, folder) -> Results:
    studies.find(name).main()([*arguments.split(), "--out", str(folder)])
    results = Results.read(folder / "results.json")
    assert results.name == name
    assert results.settings["quick"] is True
    assert results.comparison
    assert results.seconds > 0
    assert results.peak_memory_mib > 50
    assert results.command.startswith(f"python -m {studies.find(name).module}")
    assert str(folder) not in results.command  # it belongs to one machine
    page = (folder / "report.html").read_text()
    assert all(row.name.replace("'", "&#39;") in page for row in results.comparison[:3])
    return results


@pytest.mark.parametrize("name", SMALL)
def test_a_small_run(name, tmp_path):
    results = run(name, SMALL[name], tmp_path)
    assert results.charts
    if name == "optimize1d":  # several seeds are all used
        assert results.seeds == [3, 4]
        assert len(results.metrics["+0.25, eq. 3"]["located"]) == 2
        assert results.calibration.kind == "coverage"
        assert [picture.file for picture in results.images] == ["optimize1d.png"]


@pytest.mark.parametrize("name", WITH_DATA)
def test_a_small_run_with_data(name, tmp_path, real_data):
    results = run(name, WITH_DATA[name], tmp_path)
    paper = [row for row in results.comparison if row.paper is not None]
    assert paper or name == "mnist"  # the small network of `mnist` is in no table


def test_images_resume_from_their_checkpoint(tmp_path, real_data, capsys):
    arguments = "--quick --epochs 1 --rows 64 --test-rows 50"
    first = run("mnist-fnn", arguments, tmp_path)
    trained = (tmp_path / "mnist-fnn.tr").stat().st_mtime_ns
    again = run("mnist-fnn", arguments, tmp_path)
    assert (tmp_path / "mnist-fnn.tr").stat().st_mtime_ns == trained
    assert again.metrics == first.metrics
    run("mnist-fnn", f"{arguments} --no-resume", tmp_path)
    assert (tmp_path / "mnist-fnn.tr").stat().st_mtime_ns > trained


def test_finished_splits_are_kept(tmp_path, real_data, monkeypatch):
    first = run("uci", WITH_DATA["uci"], tmp_path)
    assert first.metrics["boston"]["splits"] == 2

    def never(*arguments):
        raise AssertionError(f"split {arguments} was computed again")

    monkeypatch.setattr(uci, "run_split", never)
    assert run("uci", WITH_DATA["uci"], tmp_path).metrics == first.metrics


def test_an_attack_wants_a_model(tmp_path, monkeypatch, real_data):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="tractable run mnist-cnn"):
        studies.find("attack-mnist").main()([])


@pytest.mark.parametrize("name", studies.names())
def test_all_share_their_options(name, capsys):
    try:
        main = studies.find(name).main()
    except ImportError as error:
        pytest.skip(f"an extra is not installed: {error}")
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out
    assert all(option in text for option in ("--quick", "--seed", "--out"))


def test_bad_options_are_one_line(capsys, tmp_path):
    main = studies.find("optimize1d").main()
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    for argv, words in (
        (["--epochs", "many"], "'--epochs': Input should be a valid integer"),
        (["--out", str(blocked / "below")], "is not a folder"),
        (["--threads", "0"], "--threads must be at least 1, got 0"),
        (["--steps", "0"], "--steps must be at least 1, got 0"),
        (["--epoch", "3"], "--epochs"),
    ):
        with pytest.raises(SystemExit) as left:
            main(argv)
        error = capsys.readouterr().err
        assert left.value.code == 2
        assert words in error
        assert error.count("\n") == 1


def test_results_are_plain_json(tmp_path):
    run("batch_rule", SMALL["batch_rule"], tmp_path)
    content = json.loads(
        (tmp_path / "results.json").read_text(),
        parse_constant=lambda name: pytest.fail(f"{name} is not JSON"),
    )
    assert content["versions"]["tractable"]
