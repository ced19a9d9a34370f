"""A bounded run against everything that may go wrong: ``python -m tests.soak --seconds 600``.

Random histories, kills, flipped bits, crafted files, races, and the fuzz of the kernel.  Each has
its share of the time; all follow from the seed, but for the moments of kills and threads.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable

import torch

from tests.soak import damage, histories, kills, races


def run_fuzz(seconds: float, seed: int) -> Counter[str]:
    """The fuzz of the kernel, which may crash."""
    words = ["--seconds", str(seconds), "--seed", str(seed)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak.fuzz_kernel", *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr[-3000:]}"
    return Counter({done.stdout.strip(): 1})


PARTS: dict[str, tuple[float, Callable[[float, int], Counter[str]]]] = {
    "histories": (0.2, histories.run),
    "kills": (0.25, kills.run),
    "flips": (0.2, damage.run_flips),
    "crafted": (0.15, damage.run_crafted),
    "races": (0.1, races.run),
    "fuzz_kernel": (0.1, run_fuzz),
}
"""By name: share of the time, and what to run."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", choices=PARTS, action="append")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sys.stdout.write(f"seed {options.seed}\n")
    chosen = options.only or [*PARTS]
    if importlib.util.find_spec("tests.soak.fuzz_kernel") is None:
        chosen = [name for name in chosen if name != "fuzz_kernel"]
    whole = sum(PARTS[name][0] for name in chosen)
    for name in chosen:
        share, part = PARTS[name]
        tally = part(options.seconds * share / whole, options.seed)
        said = ", ".join(f"{times} {what}" for what, times in sorted(tally.items()))
        sys.stdout.write(f"{name}: {said}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
