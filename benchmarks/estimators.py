"""Times of the default estimators on a table, and what the guards cost an update.

``fit`` of 1,000 rows of ten columns, ``predict`` with deviations of a million, at one and at two
threads, the highest memory of the latter in a process of its own (on Linux), and updates of clean
rows by a robust learner beside one that is not.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from itertools import cycle
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
COLUMNS = 10
FIT_ROWS, PREDICT_ROWS = 1_000, 1_000_000
WANTED = {"fit": 3.0, "predict": 30.0, "guards": 1.03}
"""Seconds at two threads, and the ratio of updates."""


def table(rows: int, seed: int = 0) -> tuple[Any, Any]:
    """Rows whose target depends on three of their columns."""
    import numpy as np

    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, COLUMNS)).astype(np.float32)
    y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.normal(size=rows)
    return x, y


def measure(fit_rows: int, predict_rows: int, threads: int) -> dict[str, float]:
    """Seconds of both calls, and megabytes that predicting adds to this process."""
    import torch

    from benchmarks.memory import status
    from tractable.sklearn import TAGIRegressor

    torch.set_num_threads(threads)
    x, y = table(fit_rows)
    TAGIRegressor(random_state=0).fit(x[:30], y[:30])  # what is done once in a process
    started = time.perf_counter()
    model = TAGIRegressor(random_state=0).fit(x, y)
    fit = time.perf_counter() - started
    many, _ = table(predict_rows, seed=1)
    model.predict(many[:10], return_std=True)
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest size so far
    before = status("VmRSS")
    started = time.perf_counter()
    model.predict(many, return_std=True)
    predict = time.perf_counter() - started
    return {"fit": fit, "predict": predict, "memory": (status("VmHWM") - before) / 1024}


def guards(seconds: float = 6.0) -> dict[str, dict[str, float]]:
    """Milliseconds of an update of clean rows, by batch, with the guards and without."""
    import torch
    from torch import nn

    import tractable as tr
    from benchmarks.steps import medians

    torch.set_num_threads(1)
    x, y = (torch.from_numpy(part).float() for part in table(FIT_ROWS))
    found = {}
    for batch in (1, 32):
        steps = {}
        for name, robust in (("robust", True), ("plain", False)):
            net = nn.Sequential(
                nn.Linear(COLUMNS, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)
            )
            model = tr.TAGI(net, tr.likelihoods.Normal(), robust=robust)
            model.fit(x, y, epochs=5, off_data=False)
            batches = cycle(zip(x.split(batch), y.unsqueeze(1).split(batch), strict=True))
            steps[name] = lambda model=model, batches=batches: model.learn_batch(*next(batches))
        found[f"batch={batch}"] = medians(steps, seconds)
    return found


def main(
    fit_rows: int = FIT_ROWS, predict_rows: int = PREDICT_ROWS, seconds: float = 6.0
) -> dict[str, Any]:
    """Measure both calls at one and two threads, each in a fresh process, and the guards."""
    figures: dict[str, Any] = {"rows": {"fit": fit_rows, "predict": predict_rows}}
    for threads in (1, 2):
        run = subprocess.run(
            [
                sys.executable, "-m", "benchmarks.estimators",
                str(fit_rows), str(predict_rows), str(threads),
            ],
            capture_output=True, text=True, check=True, cwd=ROOT,
        )  # fmt: skip
        figures[f"threads={threads}"] = json.loads(run.stdout)
    figures["guards"] = guards(seconds)
    return figures


def report(figures: dict[str, Any]) -> str:
    """Figures as lines of text."""
    rows = figures["rows"]
    lines = []
    for threads in (1, 2):
        row = figures[f"threads={threads}"]
        lines.append(
            f"TAGIRegressor, {threads} thread(s): fit of {rows['fit']:,} rows {row['fit']:.2f} s "
            f"(wanted {WANTED['fit']:.0f} at 2), predict of {rows['predict']:,} "
            f"{row['predict']:.2f} s (wanted {WANTED['predict']:.0f}) and {row['memory']:.0f} MB"
        )
    for batch, row in figures["guards"].items():
        lines.append(
            f"update, {batch}: robust {row['robust']:.4f} ms, plain {row['plain']:.4f} ms, ratio "
            f"{row['robust'] / row['plain']:.3f} (wanted {WANTED['guards']})"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:]))))
