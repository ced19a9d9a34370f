"""Provenance of results: command line, commit, package versions and memory of a run."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path


def command_line(module: str = "", argv: Sequence[str] | None = None) -> str:
    """Return the command line of this run, as a user would type it.

    Absolute paths are reduced to their last part, because they are specific to a machine.

    Args:
        module: module whose ``main`` was called from Python.
        argv: arguments of that ``main``; None if the shell passed them.
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
    """Return the commit of the source tree, marked if it has changes; None outside a checkout.

    None as well if the package is installed inside the checkout of another project.
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
    """Return the versions of the package and its main dependencies."""
    return {
        "tractable": version("tractable"),
        "torch": version("torch"),
        "numpy": version("numpy"),
        "python": platform.python_version(),
    }


def peak_memory_mib() -> float | None:
    """Return the peak resident memory of this process in MiB; None if unknown."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(size / (2**20 if sys.platform == "darwin" else 2**10), 1)
