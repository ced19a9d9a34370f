"""A dataclass as a command line: types, lists, quick defaults and refusals."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
import torch

from tractable.cli.errors import UsageError
from tractable_studies.framework.options import (
    StudyOptions,
    argument,
    option,
    parse,
    resume_option,
    seed_option,
    settings,
)
from tractable_studies.framework.study import OURS, Study

STUDY = Study("toy", "A toy", OURS, "toy.run")


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    seed: list[int] = seed_option((0, 1), quick=[7])
    resume: bool = resume_option()
    epochs: int = option(40, "over the data", quick=4, min_value=1)
    rate: float | None = option(None, "of learning")
    kind: Literal["a", "b"] = option("a", choices=("a", "b"))
    names: list[str] | None = option(None, "only these", choices=("one", "two"))
    rho: tuple[float, float] = option((-5.0, -4.0), "a range")
    plots: bool = option(False, "draw", also=("--figures",))
    model: Path | None = option(None, "a file")

    def check(self) -> None:
        if self.rate is not None and self.rate > self.epochs:
            raise UsageError("--rate must not be above --epochs")


def read(*words: str) -> Options:
    return parse(Options, STUDY, words, "A toy.\n\nMore.")


def test_defaults():
    found = read()
    assert (found.seed, found.resume, found.epochs, found.rate) == ([0, 1], True, 40, None)
    assert (found.kind, found.names, found.rho, found.plots) == ("a", None, (-5.0, -4.0), False)
    assert (found.out, found.threads, found.study) == (Path("out/toy"), 1, STUDY)
    assert torch.get_num_threads() == 1


def test_what_is_given():
    found = read(*"--seed 3 4 5 --no-resume --rho -4 -4.5 --names two one --rate 1e-3".split())
    assert (found.seed, found.resume, found.rho) == ([3, 4, 5], False, (-4.0, -4.5))
    assert (found.names, found.rate) == (["two", "one"], 1e-3)
    assert read("--seed", "3", "--seed", "4").seed == [3, 4]
    assert read("--seed=3").seed == [3]
    assert read("--figures").plots is True
    assert read("--kind", "b", "--out", "here", "--model", "m.tr").model == Path("m.tr")


def test_quick_changes_defaults_and_nothing_that_is_given():
    assert (read("--quick").seed, read("--quick").epochs) == ([7], 4)
    assert read("--quick").out == Path("out/toy-quick")
    assert read("--quick", "--epochs", "9").epochs == 9
    assert read("--seed", "1", "--quick").seed == [1]


def test_settings_leave_out_where_and_how():
    found = settings(read("--model", "m.tr"), "rho")
    assert list(found) == ["quick", "epochs", "rate", "kind", "names", "plots", "model"]
    assert found["model"] == "m.tr"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--epochs 0", "--epochs must be at least 1, got 0"),
        ("--epochs few", "'--epochs'"),
        ("--kind c", "no choice of --kind 'c': choose from 'a', 'b'"),
        ("--names one tow", "no choice of --names 'tow': did you mean 'two'"),
        ("--rate 99", "--rate must not be above --epochs"),
        ("--rat 1", "--rate"),
        ("--rho 1", "--rho"),
        ("more", "more"),
    ],
)
def test_refusals_are_one_line_and_exit_code_2(words, said, capsys):
    with pytest.raises(SystemExit) as left:
        read(*words.split())
    error = capsys.readouterr().err
    assert left.value.code == 2
    assert error.startswith("error: ")
    assert said in error
    assert error.count("\n") == 1


def test_help(capsys):
    with pytest.raises(SystemExit) as left:
        read("--help")
    assert left.value.code == 0
    text = capsys.readouterr().out
    assert "Usage: tractable run toy" in text
    assert "A toy." in text
    assert "More." not in text
    for word in ("--quick", "--resume / --no-resume", "over the data", "40", "a, b"):
        assert word in text


def test_an_argument_chooses_the_study():
    @dataclass(frozen=True, kw_only=True)
    class Placed(StudyOptions):
        what: str = argument("what to do", ("x", "y"))
        seed: int = seed_option(0)

    both = {name: Study(f"toy-{name}", "A toy", OURS, "toy.run") for name in "xy"}
    found = parse(Placed, both, ["y", "--seed", "2"])
    assert (found.what, found.seed, found.study) == ("y", 2, both["y"])
    assert found.out == Path("out/toy-y")
    with pytest.raises(SystemExit):
        parse(Placed, both, ["z"])
