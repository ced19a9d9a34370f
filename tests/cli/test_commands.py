"""Other commands, in this process and through a shell."""

import json
import subprocess
import sys

import pytest

from tractable import __version__
from tractable.cli.commands import studies
from tractable.data import download

SMALL = ("--quick", "--seed", 3, "--observations", 40, "--epochs", 1, "--steps", 2)


def test_list_names_every_study(call):
    done = call("list")
    assert done.exit_code == 0
    for name in studies.names():
        assert name in done.stdout
    entries = json.loads(call("list", "--json").stdout)
    assert [entry["name"] for entry in entries] == studies.names()
    assert {"title", "source"} <= set(entries[0])


def test_run_passes_options_on_and_writes_a_report(call, tmp_path):
    done = call("run", "optimize1d", *SMALL, "--out", "here")
    assert done.exit_code == 0, done.stderr
    assert "paper" in done.stdout
    assert "report: here/report.html" in done.stdout
    results = json.loads((tmp_path / "here/results.json").read_text())
    assert results["settings"]["observations"] == 40
    assert results["seeds"] == [3]


def test_run_prints_json(call, tmp_path):
    done = call("run", "optimize1d", *SMALL, "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["results"] == "out/optimize1d-quick/results.json"
    assert found["comparison"][0]["paper"] == 0.965
    assert "seed 3 located" in done.stderr


def test_help_of_run_and_of_a_study(call):
    assert "--quick" in call("run", "--help").stdout
    done = call("run", "uci", "--help")
    assert done.exit_code == 0
    assert "--splits" in done.stdout


def test_missing_data_sets_are_reported_in_one_line(call, monkeypatch):
    monkeypatch.setattr(download, "locate", lambda *a, **k: None)

    def nothing(name, instead=""):
        raise download.DataNotFound(f"data file {name} was not found. Looked for it in:\n - here")

    monkeypatch.setattr("tractable.data.tables.locate", nothing)
    done = call("run", "uci", "--quick")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: data file uci/")
    assert done.stderr.count("\n") == 1


def test_report_joins_runs(call, houses, tmp_path):
    words = ("fit", houses, "--target", "price", "--drop", "name", "--epochs", 1, "--hidden", "4")
    for learner in ("tagi", "net"):
        assert call(*words, "--learner", learner, "--out", f"runs/{learner}").exit_code == 0
    done = call("report", "runs")
    assert done.exit_code == 0, done.stderr
    page = (tmp_path / "runs/index.html").read_text()
    assert "Comparison of learners" in page
    assert 'href="tagi/report.html"' in page
    found = json.loads(call("report", "runs", "--json").stdout)
    assert len(found["runs"]) == 2


NET = """
from torch import nn

def make():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 1))

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(3, 2), nn.Linear(2, 1)

    def forward(self, value, ids):
        return self.head(self.table(ids) * value)

made, number = make(), 3
"""


def test_info_lists_which_functions_of_a_network_have_rules(call, tmp_path):
    (tmp_path / "my_net.py").write_text(NET)
    for name in ("make", "made"):
        done = call("info", f"{tmp_path}/my_net.py:{name}", "--input", "4,1,4,4")
        assert done.exit_code == 0, done.stderr
        assert done.stdout.splitlines()[1].split() == ["conv2d", "1", "exact"]
        assert "every function has a moment rule" in done.stdout
    name = f"{tmp_path}/my_net.py:Two"
    done = call("info", name, "--input", "4,2", "--input", "4:int", "--json")
    found = json.loads(done.stdout)
    assert found["complete"]
    assert {"name": "embedding", "calls": 1, "kind": "exact"} in found["functions"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("torch.nn", "--input", "2"), "module:name or file.py:name"),
        (("no_such_module:net", "--input", "2"), "cannot import no_such_module"),
        (("no_such_file.py:net", "--input", "2"), "no file no_such_file.py"),
        (("torch.nn:Foo", "--input", "2"), "did you mean 'Fold'"),
        (("torch.nn:Identity",), "pass the shape of an input batch"),
        (("torch.nn:Identity", "--input", "2,x"), "must be a shape such as 4,3,32,32"),
        (("torch.nn:Identity", "--input", "2", "--moments", "odd"), "must be one of"),
        (("math:inf", "--input", "2"), "must be a torch.nn.Module"),
    ],
)
def test_info_reports_errors_in_one_line(call, words, said):
    done = call("info", *words)
    assert done.exit_code in (1, 2)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_info_lists_versions_and_components(call, monkeypatch, tmp_path):
    (tmp_path / "data/mnist").mkdir(parents=True)
    monkeypatch.setenv(download.FOLDER, str(tmp_path / "data"))
    facts = json.loads(call("info", "--json").stdout)
    assert facts["tractable"] == __version__
    assert facts["data found"] == ["mnist"]
    assert "scikit-learn" in call("info").stdout
    monkeypatch.delenv(download.FOLDER)
    assert "is not set" in call("info").stdout


def shell(*words: object, cwd) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tractable", *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)


def test_fit_through_a_shell(houses, tmp_path):
    words = ("fit", houses.name, "--target", "price", "--drop", "name", "--epochs", 1)
    done = shell(*words, "--out", "m", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "m/results.json").read_text())
    expected = "tractable fit houses.csv --target price --drop name --epochs 1 --out m"
    assert results["command"] == expected


def test_errors_through_a_shell(tmp_path):
    done = shell("fit", "none.csv", "--target", "y", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: no file none.csv\n"
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def without_studies(monkeypatch):
    monkeypatch.setattr(studies, "entry_points", lambda group: ())


@pytest.mark.usefixtures("without_studies")
def test_without_studies_the_error_explains_how_to_install_them(call):
    done = call("list")
    assert done.exit_code == 0
    assert done.stdout.startswith("no studies are installed: ")
    assert "pip install --editable ./studies" in done.stdout
    assert json.loads(call("list", "--json").stdout) == []
    done = call("run", "uci")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: no studies are installed: ")
    assert done.stderr.count("\n") == 1


def loaded(code: str) -> set[str]:
    """Return the modules imported by a process after running code."""
    code += "\nimport sys; sys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


HELP = """
import sys
sys.argv = ["tractable", *{words}]
from tractable.cli import main
try:
    main()
except SystemExit as left:
    assert left.code == 0, left
"""


@pytest.mark.parametrize("words", [["--help"], ["fit", "--help"], ["run", "--help"], ["list"]])
def test_help_and_list_import_neither_torch_nor_a_study(words):
    modules = loaded(HELP.format(words=words))
    assert "tractable.cli.app" in modules
    assert not {"torch", "numpy", "sklearn", "matplotlib"} & modules
    assert not {name for name in modules if name.startswith("tractable_studies") and "run" in name}


def test_fit_and_predict_need_no_study(houses, tmp_path):
    code = f"""
import sys
sys.modules["tractable_studies"] = None
from tractable.cli.app import app
for words in (
    ["fit", {str(houses)!r}, "--target", "price", "--drop", "name", "--epochs", "1", "--out", "m"],
    ["predict", "m", {str(houses)!r}, "-o", "p.csv"],
    ["report", "m"],
    ["info"],
):
    try:
        app(words)
    except SystemExit as left:
        assert left.code == 0, (words, left)
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 121
