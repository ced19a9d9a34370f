"""Load files in a separate process; report the outcome, duration and memory.

``python -m tests.persistence.measure < cases.json``, where cases are pairs of a kind and a path;
the first ones are good files of every kind.
"""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

MOST_BYTES = 16 << 30
MOST_SECONDS = 30
LAZY = ("torch.", "numpy.", "scipy.", "sympy.", "gymnasium.", "sklearn.", "networkx.", "mpmath.")
"""Libraries in use that import submodules on demand."""
STANDARD = set(sys.stdlib_module_names)


class TooLong(BaseException):
    """Not one that a loader could take for a fault of the file."""


def give_up(*_: Any) -> None:
    raise TooLong


def measured(cases: list[tuple[str, str]], folder: str = "") -> list[dict[str, Any]]:
    """What loading each of these files does; ``folder`` is one to find modules in."""
    from tests.persistence.kinds import KINDS, good_file

    good = [(name, str(good_file(name))) for name in KINDS]
    done = subprocess.run(
        [sys.executable, "-m", "tests.persistence.measure", folder],
        input=json.dumps({"good": good, "cases": cases}),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert len(found) == len(cases)
    return found


def resident(peak: bool) -> float:
    """Megabytes in use, or the most since ``forget_peak``."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:" if peak else "VmRSS:"):
            return int(line.split()[1]) / 1024
    raise OSError("no /proc")


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def cost() -> tuple[float, float]:
    """Seconds of the processor (``give_up`` watches the clock) and megabytes."""
    forget_peak()
    return time.process_time(), resident(peak=False)


def attempt(kind: Any, path: Path) -> dict[str, Any]:
    """Load one file and use the loaded object."""
    modules = set(sys.modules)
    started, before = cost()
    found: dict[str, Any] = {"outcome": "loaded", "words": ""}
    held = None
    try:
        held = kind.load(path)
    except BaseException as error:
        found = {"outcome": type(error).__name__, "words": str(error)[:300]}
    found["seconds"] = time.process_time() - started
    found["megabytes"] = resident(peak=True) - before
    found["modules"] = sorted(
        name
        for name in set(sys.modules) - modules
        if not name.startswith(LAZY) and name.split(".")[0] not in STANDARD
    )
    if held is not None:
        try:
            numbers = np.asarray(kind.numbers(held), dtype=np.float64)
            found["finite"] = bool(np.isfinite(numbers).all())
        except BaseException as error:
            found["outcome"] = f"loaded, then {type(error).__name__}"
            found["words"] = str(error)[:300]
    return found


def main() -> None:
    from tests.persistence.kinds import KINDS

    given = json.loads(sys.stdin.read())
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    for name, path in given["good"]:  # so that everything is imported that good files need
        found = attempt(KINDS[name], Path(path))
        assert found["outcome"] == "loaded", (name, found)
        assert found["finite"], name
    answers = []
    signal.signal(signal.SIGALRM, give_up)
    for name, path in given["cases"]:
        signal.alarm(MOST_SECONDS)
        answers.append(attempt(KINDS[name], Path(path)))
    signal.alarm(0)
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    if sys.argv[1]:
        sys.path.insert(0, sys.argv[1])
    main()
