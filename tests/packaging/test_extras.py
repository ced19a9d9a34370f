"""Imports without any extra, and packages installed by each extra."""

import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
STUDIES = tomllib.loads((ROOT / "studies" / "pyproject.toml").read_text())["project"]
IMPORTED_AS = {
    "scikit-learn": "sklearn",
    "stable-baselines3": "stable_baselines3",
    "torch-geometric": "torch_geometric",
}


def package(requirement: str) -> str:
    return re.split(r"[\[<>=]", requirement)[0]


def modules(requirements: list[str]) -> list[str]:
    names = sorted({package(requirement) for requirement in requirements} - {"tractable"})
    return [IMPORTED_AS.get(name, name) for name in names]


def without(names: list[str], code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process in which these modules cannot be imported."""
    code = f"import sys\nsys.modules |= dict.fromkeys({names})\n" + textwrap.dedent(code)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_without_extras_everything_public_imports():
    extras = PROJECT["optional-dependencies"]
    users = [r for name, needs in extras.items() if name not in ("dev", "docs") for r in needs]
    names = modules([*users, "scipy", "pandas"])
    assert {"typer", "gymnasium", "sklearn", "matplotlib"} <= set(names)
    done = without(
        ["tractable_studies", *names],
        """
        import torch
        import tractable as tr
        for name in tr.__all__:
            getattr(tr, name)
        x = torch.linspace(-1, 1, 20).unsqueeze(1)
        net = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
        print(tr.TAGI(net, tr.likelihoods.Normal()).fit(x, x).predict(x).mean.shape)
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "torch.Size([20, 1])\n"


def test_without_its_extra_the_command_names_it():
    done = without(["typer"], "from tractable.cli import main\nmain()")
    assert done.returncode == 1
    assert done.stderr == "error: no module typer: pip install 'tractable[cli]'\n"


def test_a_module_that_is_not_there_is_no_attribute():
    done = without([], "import tractable\ntractable.wizardry")
    assert "module 'tractable' has no attribute 'wizardry'" in done.stderr
    done = without([], "import tractable\ntractable.likelihood")
    assert "no attribute 'likelihood'. Did you mean 'likelihoods'?" in done.stderr


def test_extras_install_what_their_name_needs():
    extras = PROJECT["optional-dependencies"]
    assert extras["agents"] == ["gymnasium>=1.0"]
    assert "metrics" not in extras
    for heavy in ("stable-baselines3", "mujoco"):
        users = [r for name, needs in extras.items() if name != "dev" for r in needs]
        assert not any(heavy in requirement for requirement in users)
        assert any(heavy in requirement for requirement in STUDIES["dependencies"])


def test_the_version_is_not_repeated_in_the_package_and_the_citation_agrees():
    version = re.escape(PROJECT["version"])
    package = (ROOT / "src/tractable/__init__.py").read_text()
    assert not re.search(rf"version.*{version}", package)
    stated = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert stated is None or stated[1] == PROJECT["version"]


@pytest.mark.parametrize("name", sorted(STUDIES["entry-points"]["tractable.studies"]))
def test_every_entry_point_names_a_study_without_importing_it(name):
    module, _, thing = STUDIES["entry-points"]["tractable.studies"][name].partition(":")
    done = without(["torch", "numpy"], f"import {module} as m\nprint(m.{thing}.name)")
    assert done.stdout == f"{name}\n", done.stderr
