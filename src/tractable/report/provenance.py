"""Where results come from: the command, the commit, the versions and the memory of a run."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path


def command(module: str = "", argv: Sequence[str] | None = None) -> str:
    """The command line of this run, as a user would type it.

    Absolute paths are cut to their last part: they belong to one machine.

    Args:
        module: what ``python -m`` would start, if its ``main`` was called from Python.
        argv: the arguments of that ``main``; None if they are those of the shell.
    """
    started = getattr(getattr(sys.modules["__main__"], "__spec__", None), "name", None) or ""
    started = started.removesuffix(".__main__")
    program = Path(sys.argv[0]).name
    if program == "tractable" or started == "tractable":
        words = ["tractable", *sys.argv[1:]]
    elif argv is not None:
        words = ["python", "-m", module, *argv]
    elif started:
        words = ["python", "-m", started, *sys.argv[1:]]
    else:
        words = ["python", program, *sys.argv[1:]]
    return shlex.join(Path(word).name if Path(word).is_absolute() else word for word in words)


def commit() -> str | None:
    """The commit of the source tree, with a mark if it had changes; None outside a checkout.

    A package that is installed below somebody else's checkout is not a part of it: None as well.
    """
    if _git("ls-files", "--error-unmatch", Path(__file__).name) is None:
        return None
    return _git("describe", "--always", "--dirty", "--abbrev=12")


def _git(*words: str) -> str | None:
    try:
        found = subprocess.run(
            ["git", *words],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()


def versions() -> dict[str, str]:
    """What the run was computed with."""
    return {
        "tractable": version("tractable"),
        "torch": version("torch"),
        "numpy": version("numpy"),
        "python": platform.python_version(),
    }


def peak_memory_mib() -> float | None:
    """The largest resident size of this process so far; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(size / (2**20 if sys.platform == "darwin" else 2**10), 1)
