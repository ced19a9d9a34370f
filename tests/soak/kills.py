"""Kill -9 at any moment, then go on: the same bits, no damage, no litter."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from tests.soak.killed import KINDS
from tractable.persistence import atomic, model_file

MOST_KILLS = 3
MOST_SECONDS = 300.0


def start(kind: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.soak.killed", kind, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finish(kind: str, path: Path) -> str:
    """Run to the end; return the digest of the parameters."""
    said, _ = start(kind, path).communicate(timeout=MOST_SECONDS)
    word, _, found = said.splitlines()[-1].partition(" ")
    assert word == "done", said[-200:]
    return found


def whole(kind: str, path: Path) -> str:
    """The digest of a run that nobody disturbs, in this process."""
    with redirect_stdout(io.StringIO()):
        return KINDS[kind](path)


def kill(kind: str, path: Path, dots: int, later: float) -> bool:
    """Kill a run this long after so many signs of life; whether it was still alive."""
    process = start(kind, path)
    assert process.stdout is not None
    for _ in range(dots):
        process.stdout.readline()
    time.sleep(later)
    process.kill()
    process.communicate()
    return process.returncode == -9


def check_file(path: Path, tally: Counter[str]) -> None:
    """What a kill left: one whole file or none, and perhaps scratch files, which are swept."""
    if path.is_file():
        model_file.read(path)
        tally["whole files"] += 1
    litter = [entry for entry in path.parent.iterdir() if entry != path]
    tally["scratch files"] += len(litter)
    long_ago = time.time() - 7_200
    for entry in litter:
        os.utime(entry, (long_ago, long_ago))
    if path.is_file():
        atomic.write_bytes(path, path.read_bytes())
        assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def run(
    seconds: float, seed: int, kinds: Sequence[str] = tuple(KINDS), most: int = MOST_KILLS
) -> Counter[str]:
    """Kill runs of every kind in turn until the time is over; each at least once."""
    draw = random.Random(seed)
    tally: Counter[str] = Counter()
    expected: dict[str, str] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end or tally["runs"] < len(kinds):
        kind = kinds[tally["runs"] % len(kinds)]
        with tempfile.TemporaryDirectory() as folder:
            if kind not in expected:
                expected[kind] = whole(kind, Path(folder) / "whole.tr")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.tr"
            for _ in range(draw.randint(1, most)):
                tally["kills"] += kill(kind, path, draw.randint(1, 12), 0.02 * draw.random())
                check_file(path, tally)
            assert finish(kind, path) == expected[kind], f"{kind}, seed {seed}: other bits"
        tally["runs"] += 1
    return tally
