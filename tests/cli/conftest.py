"""Small CSV files, and fixtures that run the command."""

import csv
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from typer.testing import CliRunner

from tractable.cli.app import app

mpl.use("Agg")

Call = Callable[..., object]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Runs ``tractable`` with the given arguments in an empty folder."""
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()

    def run(*words: object) -> object:
        return runner.invoke(app, [str(word) for word in words])

    return run


def answers(words: list[str], code: int, said: str) -> None:
    """Check exit code and output of a command; an error is a single line."""
    done = CliRunner().invoke(app, words)
    assert done.exit_code == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    if code == 2:
        assert done.stderr.startswith(f"error: {said}"), done.stderr
        assert done.stderr.count("\n") == 1
        assert done.stdout == ""
    else:
        assert said in done.stdout + done.stderr, (done.stdout, done.stderr)


def write(path: Path, header: list[str], rows: list[list[object]]) -> Path:
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
    return path


def house_rows(n: int = 120) -> tuple[list[str], list[list[object]]]:
    """Return a target that is nearly linear in a number and a color."""
    generator = np.random.default_rng(0)
    rows: list[list[object]] = []
    for i in range(n):
        area, colour = generator.uniform(30, 200), ("red", "green", "blue")[i % 3]
        price = 10 * area + 500 * (colour == "red") + 20 * generator.normal()
        rows.append([f"h{i}", round(area, 2), colour, 7, round(price, 2)])
    return ["name", "area", "colour", "always", "price"], rows


@pytest.fixture
def houses(tmp_path: Path) -> Path:
    """Return the file of a regression."""
    return write(tmp_path / "houses.csv", *house_rows())


@pytest.fixture
def kinds(tmp_path: Path) -> Path:
    """Return the file of a classification into two well separated classes."""
    generator = np.random.default_rng(1)
    rows: list[list[object]] = []
    for i in range(80):
        kind = i % 2
        x, y = generator.normal(4 * kind, 1, 2)
        rows.append([round(x, 3), round(y, 3), ("cat", "dog")[kind]])
    return write(tmp_path / "kinds.csv", ["x", "y", "kind"], rows)
