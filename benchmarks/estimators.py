"""Times of the default estimators on a table.

``fit`` of 1,000 rows of ten columns, ``predict`` with deviations of a million, at one and at two
threads, and the peak memory of ``predict`` in a separate process (on Linux).  Both wall time and
processor time over all threads are reported; the latter depends less on the load of the
machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
COLUMNS = 10
FIT_ROWS, PREDICT_ROWS = 1_000, 1_000_000
TARGETS = {"fit": 3.0, "predict": 30.0}
"""Seconds at two threads."""


def table(rows: int, seed: int = 0) -> tuple[Any, Any]:
    """Return rows whose target depends on three of their columns."""
    import numpy as np

    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, COLUMNS)).astype(np.float32)
    y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.normal(size=rows)
    return x, y


def measure(fit_rows: int, predict_rows: int, threads: int) -> dict[str, float]:
    """Return the durations of both calls, and the memory of ``predict`` in megabytes."""
    import torch

    from benchmarks.memory import status
    from tractable.sklearn import TAGIRegressor

    torch.set_num_threads(threads)
    x, y = table(fit_rows)
    TAGIRegressor(random_state=0).fit(x[:30], y[:30])  # initialization of the process
    started, spent = time.perf_counter(), time.process_time()
    model = TAGIRegressor(random_state=0).fit(x, y)
    fit, fit_processor = time.perf_counter() - started, time.process_time() - spent
    many, _ = table(predict_rows, seed=1)
    model.predict(many[:10], return_std=True)
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak memory
    before = status("VmRSS")
    started, spent = time.perf_counter(), time.process_time()
    model.predict(many, return_std=True)
    return {
        "fit": fit,
        "predict": time.perf_counter() - started,
        "memory": (status("VmHWM") - before) / 1024,
        "fit_processor": fit_processor,
        "predict_processor": time.process_time() - spent,
    }


def main(fit_rows: int = FIT_ROWS, predict_rows: int = PREDICT_ROWS) -> dict[str, Any]:
    """Measure both calls at one and two threads, each in a new process."""
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
    return figures


def report(figures: dict[str, Any]) -> str:
    """Return the figures as lines of text."""
    rows = figures["rows"]
    lines = []
    for threads in (1, 2):
        row = figures[f"threads={threads}"]
        lines.append(
            f"TAGIRegressor, {threads} thread(s): fit of {rows['fit']:,} rows {row['fit']:.2f} s "
            f"(target {TARGETS['fit']:.0f} at 2), predict of {rows['predict']:,} "
            f"{row['predict']:.2f} s (target {TARGETS['predict']:.0f}) and {row['memory']:.0f} MB; "
            f"of the processor {row['fit_processor']:.2f} and {row['predict_processor']:.2f} s"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:]))))
