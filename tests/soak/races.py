"""Threads that learn, predict, save, load and change labels, again and again."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter


def run(seconds: float, seed: int) -> Counter[str]:
    """The tests of threads until the time is over, in processes that may crash."""
    tally: Counter[str] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end or not tally:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
             "tests/learners/test_threads.py", "tests/native/test_threads.py"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:]
        tally["rounds"] += 1
    return tally
