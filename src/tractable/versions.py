"""Installed versions, for bug reports and benchmarks."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import version

import torch

from tractable import native


def get_versions() -> dict[str, str]:
    """Return the versions of the packages, and whether the compiled kernel is installed.

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
    """Print the versions, one per line."""
    facts = get_versions()
    width = max(map(len, facts))
    for name, value in facts.items():
        sys.stdout.write(f"{name:{width}}  {value}\n")
