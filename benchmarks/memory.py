"""Peak memory of a training step of TAGI, compared with plain PyTorch.

Each is measured in a process of its own (on Linux): the highest resident size while stepping, less
the size once everything is imported and the network has run on a single row.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
BATCHES = {"mlp_mnist": 1024, "cnn_mnist": 128}
"""Batch sizes large enough that the memory of a step exceeds that of the interpreter."""


def measure(kind: str, name: str) -> int:
    """Return the increase of the peak resident size of this process by steps, in kilobytes."""
    import torch

    from benchmarks.networks import CASES, sgd_step, tagi_step

    torch.set_num_threads(1)
    make = {"tagi": tagi_step, "sgd": sgd_step}[kind]
    case = CASES[name]
    small = make(replace(case, batch=1))
    for _ in range(3):
        small()
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak memory
    before = status("VmRSS")
    step = make(replace(case, batch=BATCHES[name]))
    for _ in range(5):
        step()
    return status("VmHWM") - before


def status(field: str) -> int:
    """Return a size of this process, in kilobytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    raise RuntimeError(f"no {field} in the status of this process")


def main() -> dict[str, Any]:
    """Measure each case in a new process; return megabytes and their ratio."""
    figures: dict[str, Any] = {}
    for name in BATCHES:
        used = {}
        for kind in ("tagi", "sgd"):
            run = subprocess.run(
                [sys.executable, "-m", "benchmarks.memory", kind, name],
                capture_output=True,
                text=True,
                check=True,
                cwd=ROOT,
            )
            used[kind] = json.loads(run.stdout) / 1024
        figures[name] = {**used, "ratio": used["tagi"] / used["sgd"]}
    return figures


def report(figures: dict[str, Any]) -> str:
    """Return the figures as lines of text."""
    return "\n".join(
        f"{name:10s} peak memory: TAGI {row['tagi']:.0f} MB, SGD {row['sgd']:.0f} MB, "
        f"ratio {row['ratio']:.2f} (target: at most 3)"
        for name, row in figures.items()
    )


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2])))
