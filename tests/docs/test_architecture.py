"""The map of the house: its rooms are the layers, and the way of a row is as short as it says."""

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
NETWORK = str(HOME / "learners" / "network.py")


def layers() -> list[set[str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (found,) = [c["layers"] for c in contracts["contracts"] if c["type"] == "layers"]
    return [{room.strip(" ()") for room in layer.split("|")} for layer in found]


def test_the_page_lists_the_layers_from_top_to_bottom():
    rows = re.findall(r"^\| (`.+?`) \| .+ \|$", PAGE.read_text(), flags=re.MULTILINE)
    assert [set(re.findall(r"`(\w+)`", row)) for row in rows] == layers()


def test_every_layer_that_exists_has_its_folder_or_file():
    there = {p.stem for p in HOME.iterdir() if p.suffix == ".py" or (p / "__init__.py").is_file()}
    assert there - {"__init__"} <= set().union(*layers())


class Watch:
    """The files of the library that are on the stack whenever the user's network is run."""

    def __init__(self):
        self.ways = []

    def __enter__(self):
        sys.setprofile(self.look)
        return self

    def __exit__(self, *error):
        sys.setprofile(None)

    def look(self, frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_filename == NETWORK and code.co_name == "run":
            self.ways.append(self.files(frame.f_back))

    @staticmethod
    def files(frame):
        found = []
        while frame is not None:
            file = Path(frame.f_code.co_filename)
            if HOME in file.parents and (not found or found[-1] != file):
                found.append(file)
            frame = frame.f_back
        return [file.relative_to(HOME).as_posix() for file in reversed(found)]


@pytest.mark.parametrize("action", ["fit", "update", "predict"])
def test_two_changes_of_file_lead_to_the_network(action):
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    x, y = torch.ones(8, 2), torch.ones(8)
    model = tr.TAGI(net, tr.likelihoods.Normal(0.5), engine="torch").update(x, y)
    with Watch() as watch:
        if action == "fit":
            model.fit(x, y, epochs=2, batch_size=4)
        elif action == "update":
            model.update(x, y)
        else:
            model.predict(x, batch_size=3)
    assert len(watch.ways) >= 1
    for way in watch.ways:
        files = ["learner.py", "tagi_method.py", "engines/eager.py"]
        assert way == [f"learners/{file}" for file in files]
        assert f"{action:8}{' -> '.join(way)}" in PAGE.read_text()
