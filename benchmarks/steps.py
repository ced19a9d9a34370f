"""Compare TAGI steps with the published implementation and with plain PyTorch.

Everything is a ratio of medians measured within seconds of each other, interleaved, at one and
at two threads.  The peer runs in an environment of its own (``make bench`` makes it).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.networks import CASES, sgd_step, tagi_step

ROOT = Path(__file__).parent.parent
PEER = ROOT / ".venv-pytagi" / "bin" / "python"
TARGETS = {"mlp_small": 1.0, "mlp_mnist": 15.0, "cnn_mnist": 35.0}
"""Minimum speedup over pytagi of each step, for the networks that it has."""


def medians(steps: dict[str, Callable[[], None]], seconds: float = 6.0) -> dict[str, float]:
    """Return median milliseconds of each step, measured in alternation."""
    for step in steps.values():
        for _ in range(3):
            step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, step in steps.items():
            burst = 0.0
            while burst < 0.02:
                started = time.perf_counter()
                step()
                times[name].append(time.perf_counter() - started)
                burst += times[name][-1]
    return {name: 1e3 * statistics.median(values) for name, values in times.items()}


def peer() -> dict[str, Any] | None:
    """Return step times of pytagi at its best number of threads; None if not installed."""
    if not PEER.exists():
        return None
    run = subprocess.run(
        [str(PEER), str(ROOT / "benchmarks" / "peer_pytagi.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(run.stdout))


def main() -> dict[str, Any]:
    """Measure all cases and return the figures."""
    figures: dict[str, Any] = {}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for name, case in CASES.items():
            steps = {"tagi": tagi_step(case, engine="torch"), "sgd": sgd_step(case)}
            if name in TARGETS:
                steps["tagi_compiled"] = tagi_step(case, engine="torch", compile=True)
                steps["tagi_auto"] = tagi_step(case)
            figures[f"{name}/threads={threads}"] = medians(steps)
    figures["pytagi"] = peer()
    return figures


def report(figures: dict[str, Any]) -> str:
    """Return the figures as lines of text."""
    peers = figures["pytagi"]
    lines = []
    for name in CASES:
        best_tagi = 1e9
        for threads in (1, 2):
            row = figures[f"{name}/threads={threads}"]
            best_tagi = min(best_tagi, *(row[way] for way in row if way != "sgd"))
            more = ""
            if name in TARGETS:
                more = f"compiled {row['tagi_compiled']:.3f}, "
                more += f"default engine {row['tagi_auto']:.3f}, "
            lines.append(
                f"{name:10s} {threads} thread(s): eager {row['tagi']:.3f} ms, {more}SGD "
                f"{row['sgd']:.3f}; eager / SGD = {row['tagi'] / row['sgd']:.2f}"
            )
        if peers is not None and name in TARGETS:
            best_peer = peers["cases"][name]["best_milliseconds"]
            lines.append(
                f"{name:10s} pytagi {best_peer:.3f} ms: {best_peer / best_tagi:.1f} times ours "
                f"(target {TARGETS[name]:.0f})"
            )
    return "\n".join(lines)
