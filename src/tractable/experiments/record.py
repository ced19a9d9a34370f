"""Results as small JSON files: the figures, and what it takes to get them again."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tractable


class Record:
    """Collects what a run found and writes it, atomically, with where it came from.

    Args:
        name: the experiment; the file is ``<name>.json``.
        seeds: the seeds it used.
        settings: everything that was chosen.
    """

    def __init__(self, name: str, *, seeds: list[int], settings: dict[str, Any]) -> None:
        self.name, self.seeds, self.settings = name, seeds, settings
        self.figures: dict[str, Any] = {}
        self.started = time.time()
        self.commit = commit()
        self.earlier = 0.0
        """Seconds spent by runs that this one resumed."""

    def write(self, folder: str | Path) -> Path:
        """Write ``<folder>/<name>.json`` and return its path."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        content = {
            "experiment": self.name,
            "command": command(),
            "seeds": self.seeds,
            "settings": self.settings,
            "figures": self.figures,
            "seconds": round(self.earlier + time.time() - self.started, 1),
            "threads": torch.get_num_threads(),
            "commit": self.commit,
            "versions": {
                "tractable": tractable.__version__,
                "torch": torch.__version__,
                "numpy": np.__version__,
                "python": platform.python_version(),
            },
        }
        scratch = path.with_suffix(".json.tmp")
        scratch.write_text(json.dumps(content, indent=1) + "\n")
        os.replace(scratch, path)
        return path


def command() -> str:
    """The command line of this run, as a user would type it: without where its files went."""
    arguments = list(sys.argv[1:])
    for option in ("--out", "--model", "--resume"):
        while option in arguments:
            at = arguments.index(option)
            del arguments[at : at + 2]
    module = getattr(sys.modules["__main__"], "__spec__", None)
    if module is not None and module.name:
        return " ".join(["python", "-m", module.name.removesuffix(".__main__"), *arguments])
    return " ".join(["python", Path(sys.argv[0]).name, *arguments])


def commit() -> str | None:
    """The commit of the source tree, with a mark if it had changes; None outside a checkout."""
    here = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()


def table(rows: list[list[str]], header: list[str]) -> str:
    """A plain text table."""
    cells = [header, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])
