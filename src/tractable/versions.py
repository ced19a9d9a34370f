"""What is installed here, for a bug report or a benchmark."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import version

import torch

from tractable import native


def get_versions() -> dict[str, str]:
    """Versions, and whether the compiled kernel is there.

    >>> sorted(get_versions())
    ['instruction set', 'kernel', 'machine', 'python', 'torch', 'torch threads', 'tractable']
    """
    present = native.kernel() is not None
    return {
        "tractable": version("tractable"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch threads": str(torch.get_num_threads()),
        "kernel": "present" if present else "not built: small networks learn with torch, slower",
        "instruction set": native.instruction_set() or "none",
        "machine": f"{platform.system()} {platform.machine()}",
    }


def show_versions() -> None:
    """Write ``get_versions()`` to standard output, a line each."""
    facts = get_versions()
    width = max(map(len, facts))
    for name, value in facts.items():
        sys.stdout.write(f"{name:{width}}  {value}\n")
