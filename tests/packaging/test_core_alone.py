"""The package without extras: torch, numpy and safetensors are enough."""

import subprocess
import sys
from pathlib import Path

from tests.packaging.core_alone import CORE, needed

SCRIPT = Path(__file__).parent / "core_alone.py"


def test_the_core_needs_nothing_else():
    done = subprocess.run([sys.executable, str(SCRIPT), "--block"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "the core works with torch, numpy, safetensors alone\n"


def test_what_is_hidden_is_what_the_extras_bring():
    core = needed(CORE)
    assert {"torch", "numpy", "safetensors", "filelock"} <= core
    assert not {"matplotlib", "pytest", "rich", "scikit-learn", "typer"} & core


def test_a_module_that_needs_more_is_noticed(tmp_path):
    """The script fails for a core that imports what it may not: here, in its place, by hand."""
    probe = tmp_path / "probe.py"
    probe.write_text(
        "import sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from core_alone import hide_the_rest\n"
        "hide_the_rest()\n"
        "import torch\n"
        "try:\n"
        "    import matplotlib\n"
        "except ModuleNotFoundError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, str(probe), str(SCRIPT.parent)], capture_output=True, text=True
    )
    assert done.stdout == "No module named 'matplotlib'\n", done.stderr
