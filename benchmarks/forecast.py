"""Stream values into a forecaster: time of an update, and memory over the stream.

    python -m benchmarks forecast                        a million updates
    python -m benchmarks.forecast 100000                 so many, without a record

Every value is compared with its forecast, stored and used for an update.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
import torch

from benchmarks.memory import status
from tractable.forecast import Forecaster

UPDATES = 1_000_000
LOOKS = 10
HORIZON, LAGS = 4, 24


def main(updates: int = UPDATES) -> dict[str, Any]:
    """Return kilobytes at ten points, microseconds per update, and the final coverage."""
    torch.set_num_threads(1)
    generator = np.random.default_rng(0)

    def values(first: int, count: int) -> Any:
        t = np.arange(first, first + count)
        return 5 + 2 * np.sin(2 * np.pi * t / 24) + 0.3 * generator.standard_normal(count)

    model = Forecaster(
        "linear", HORIZON, lags=LAGS, normalize_by="last", season_length=24, error_window=500,
        memory_rows=10_000, learner_kwargs={"gain": 0.01},
    ).fit(values(0, 2000))  # fmt: skip
    sizes, seconds, each = [], 0.0, updates // LOOKS
    for look in range(LOOKS):
        some = values(2000 + look * each, each)
        started = time.process_time()
        for value in some:
            model.update(value)
        seconds += time.process_time() - started
        sizes.append(status("VmRSS"))
    return {
        "updates": LOOKS * each,
        "microseconds": round(1e6 * seconds / (LOOKS * each), 1),
        "kilobytes": sizes,
        "growth after the first tenth, kilobytes": sizes[-1] - sizes[0],
        "std of one step (truth 0.3)": round(float(model.predict().std[0]), 3),
    }


def report(found: dict[str, Any]) -> str:
    """Return the results as lines of text."""
    return "\n".join(f"{name}: {value}" for name, value in found.items())


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]) if len(sys.argv) > 1 else UPDATES), indent=1))
