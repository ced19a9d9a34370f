"""Sample mutants of a subpackage and judge them in a scratch copy."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.faults.trial import PACKAGE, ROOT, Scratch
from tests.mutants.operators import Mutant, mutants
from tests.mutants.session import Session, main

SUITES: dict[str, tuple[str, ...]] = {
    "moments": (
        "moments", "infer/test_derivatives.py", "rules/test_attention.py", "rules/test_norm.py",
        "rules/test_recurrent.py", "rules/test_shared_variance.py", "rules/test_dense.py",
        "rules/test_max_pool.py",
    ),
    "rules": ("rules",),
    "likelihoods": ("likelihoods",),
    "predictive": ("predictive",),
}  # fmt: skip
"""Test folders and files that judge the mutants of a subpackage."""
WEIGHTS = {"constant": 0.5, "argument returned": 0.2, "arguments swapped": 0.5}
"""Relative weights of kinds of mutants; most of these are noticed by any test at all."""


def files_of(suite: str) -> list[str]:
    """Return the test files of a suite."""
    found: list[str] = []
    for name in SUITES[suite]:
        path = ROOT / "tests" / name
        files = [path] if path.is_file() else sorted(path.glob("test_*.py"))
        found += [str(file.relative_to(ROOT)) for file in files]
    return found


def sample(suite: str, texts: dict[str, str], seed: int) -> list[Mutant]:
    """Return all mutants of a subpackage in a random order, heavier kinds earlier."""
    generator = random.Random(f"{suite} {seed}")
    every = [m for file, text in texts.items() for m in mutants(file, text)]
    keys = [generator.random() ** (1 / WEIGHTS.get(m.kind, 1.0)) for m in every]
    order = sorted(range(len(every)), key=lambda i: -keys[i])
    return [every[i] for i in order]


def run(
    suite: str, seconds: float, seed: int, number: int, log: Path | None = None
) -> list[dict[str, Any]]:
    """Judge at most ``number`` mutants of a subpackage within a time limit.

    At most half of the time is spent on finding out which tests execute which lines.  Changes of
    what a module executes when it is imported, such as defaults and constants, are left out: they
    cannot be put into functions that are already imported.

    Args:
        suite: subpackage.
        seconds: time limit.
        seed: seed of the sample.
        number: largest number of mutants.
        log: file to which every result is appended at once.
    """
    with tempfile.TemporaryDirectory() as folder:
        scratch = Scratch(Path(folder) / "copy")
        package = scratch.folder / PACKAGE
        names = [f"{suite}/{path.name}" for path in sorted((package / suite).glob("*.py"))]
        texts = {name: scratch.text(name) for name in names}
        order = sample(suite, texts, seed)
        session = Session(
            package, suite, order, texts, time.monotonic() + seconds, number, seed, log
        )
        results, _, code = scratch.call(main, session, files_of(suite))
    if results is None:
        raise RuntimeError(f"mutants of {suite} could not be judged: exit code {code}")
    return results
