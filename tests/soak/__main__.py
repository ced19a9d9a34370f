"""A bounded run against everything that may go wrong: ``python -m tests.soak --seconds 600``.

Random histories, kills, flipped bits, crafted files, races, the fuzz of the kernel, and mutants of
the source.  Each has its share of the time; all follow from the seed, except the moments of kills
and threads.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch

from tests.mutants.sampling import SUITES
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


def run_mutants(seconds: float, seed: int) -> Counter[str]:
    """Mutants of one subpackage, which depends on the seed; survivors are shown, not raised."""
    subpackage = list(SUITES)[seed % len(SUITES)]
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "mutants.json"
        words = ["--seconds", str(seconds), "--seed", str(seed), "--only", subpackage]
        subprocess.run(
            [sys.executable, "-m", "tests.mutants", *words, "--output", str(output)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        results = json.loads(output.read_text())[subpackage]["mutants"]
    for result in results:
        if not result["noticed_by"]:
            place = f"{result['file']}:{result['line']}"
            sys.stdout.write(f"not noticed: {place}: {result['before']} -> {result['after']}\n")
    return Counter(
        f"mutants of {subpackage} {'noticed' if result['noticed_by'] else 'not noticed'}"
        for result in results
    )


PARTS: dict[str, tuple[float, Callable[[float, int], Counter[str]]]] = {
    "histories": (0.2, histories.run),
    "kills": (0.25, kills.run),
    "flips": (0.2, damage.run_flips),
    "crafted": (0.15, damage.run_crafted),
    "races": (0.1, races.run),
    "fuzz_kernel": (0.1, run_fuzz),
    "mutants": (0.15, run_mutants),
}
"""Share of the time and function to run, by name."""


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
