"""The architecture page lists the layers of the package and the call path of a row."""

import re
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from torch import nn

import tractable as tr

ROOT = Path(__file__).parent.parent.parent
HOME = Path(tr.__file__).parent
PAGE = ROOT / "docs" / "developer" / "architecture.md"
NETWORK = str(HOME / "learners" / "network" / "functional.py")


def layers() -> list[set[str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (found,) = [c["layers"] for c in contracts["contracts"] if c["type"] == "layers"]
    return [{name.strip(" ()") for name in layer.split("|")} for layer in found]


def test_the_page_lists_the_layers_from_top_to_bottom():
    rows = re.findall(r"^\| (`.+?`) \| .+ \|$", PAGE.read_text(), flags=re.MULTILINE)
    assert [set(re.findall(r"`(\w+)`", row)) for row in rows] == layers()


def test_every_subpackage_belongs_to_a_layer():
    there = {p.stem for p in HOME.iterdir() if p.suffix == ".py" or (p / "__init__.py").is_file()}
    assert there - {"__init__"} <= set().union(*layers())


def test_the_page_names_ten_files_to_begin_with():
    rows = re.findall(r"^\| (\d+) \| `(\S+)` \| .+ \|$", PAGE.read_text(), flags=re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 11))
    assert [file for _, file in rows if not (HOME / file).is_file()] == []


class CallPaths:
    """Record the files of the library on the call stack at each call of the network."""

    def __init__(self):
        self.paths = []

    def __enter__(self):
        sys.setprofile(self.record)
        return self

    def __exit__(self, *error):
        sys.setprofile(None)

    def record(self, frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_filename == NETWORK and code.co_name == "run":
            self.paths.append(self.files(frame.f_back))

    @staticmethod
    def files(frame):
        found = []
        while frame is not None:
            file = Path(frame.f_code.co_filename)
            wraps = file == HOME / "keywords.py"  # explains unknown keyword arguments
            if HOME in file.parents and not wraps and (not found or found[-1] != file):
                found.append(file)
            frame = frame.f_back
        return [file.relative_to(HOME).as_posix() for file in reversed(found)]


@pytest.mark.parametrize("action", ["fit", "update", "predict"])
def test_the_call_path_has_three_files(action):
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    x, y = torch.ones(8, 2), torch.ones(8)
    model = tr.TAGI(net, tr.likelihoods.Normal(0.5), engine="torch").update(x, y)
    with CallPaths() as recorded:
        if action == "fit":
            model.fit(x, y, epochs=2, batch_size=4)
        elif action == "update":
            model.update(x, y)
        else:
            model.predict(x, batch_size=3)
    assert len(recorded.paths) >= 1
    for path in recorded.paths:
        files = ["learner.py", "methods/tagi/method.py", "methods/tagi/engines/eager.py"]
        assert path == [f"learners/{file}" for file in files]
        assert f"{action:8}{' -> '.join(path)}" in PAGE.read_text()
