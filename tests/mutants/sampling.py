"""Sample mutants of a subpackage and run the tests that execute them."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.faults.trial import ROOT, Scratch
from tests.mutants.executed import Executed, trace
from tests.mutants.operators import Mutant, mutants

SUITES: dict[str, tuple[str, ...]] = {
    "moments": ("moments", "rules", "gaussian", "infer/test_derivatives.py"),
    "rules": ("rules", "moments", "gaussian"),
    "likelihoods": ("likelihoods", "predictive"),
    "predictive": ("predictive", "likelihoods"),
}
"""Test folders and files that judge the mutants of a subpackage."""
TRACED = {
    **dict.fromkeys(("moments", "rules"), ("moments", "rules")),
    **dict.fromkeys(("likelihoods", "predictive"), ("likelihoods", "predictive")),
}
"""Subpackages that are traced together, so that their test files run with a tracer once."""
WEIGHTS = {"constant": 0.5, "argument returned": 0.2, "arguments swapped": 0.5}
"""Relative weights of kinds of mutants; most of these are noticed by any test at all."""
FIRST = 60
"""Number of fast tests that are run first."""
SECONDS_PER_MUTANT = 240


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


def judge(
    scratch: Scratch, mutant: Mutant, text: str, executed: Executed, known: Counter[str]
) -> dict[str, Any]:
    """Run the tests that execute a mutant, those that noticed others first."""
    before, after = mutant.shown(text)
    tests = executed.of(mutant.file, mutant.line, mutant.last)
    at_import = not tests
    if at_import:  # executed once, by the import
        tests = executed.of_file(mutant.file)
    tests.sort(key=lambda test: -known[test])
    found: dict[str, Any] = {
        "file": mutant.file, "line": mutant.line, "kind": mutant.kind, "before": before,
        "after": after, "noticed_by": None, "tests": len(tests), "seconds": 0.0,
    }  # fmt: skip
    left = float(SECONDS_PER_MUTANT)
    with scratch.changed(mutant.file, mutant.apply(text)):
        for part in (tests[:FIRST], tests[FIRST:]):
            if not part or left <= 0:
                continue
            run = scratch.pytest(part, left)
            left -= run.seconds
            found["seconds"] = round(found["seconds"] + run.seconds, 1)
            if run.failed:
                found["noticed_by"] = run.failed[0]
                known[run.failed[0]] += 1
                break
            if not run.complete:
                found["incomplete"] = True
    if "::" not in (found["noticed_by"] or "::"):  # a file that cannot be imported, or a crash
        scratch.check_collection(part)
    return found


def run(
    suite: str, seconds: float, seed: int, number: int, keep: Path | None = None
) -> list[dict[str, Any]]:
    """Judge at most ``number`` mutants of a subpackage within a time limit.

    At most half of the time is spent on finding out which tests execute which lines; files that
    are not traced by then do not judge, and mutants that no traced test reaches are skipped
    unless all files were traced.

    Args:
        suite: subpackage.
        seconds: time limit.
        seed: seed of the sample.
        number: largest number of mutants.
        keep: folder in which executed lines are kept, so that the next run need not trace.
    """
    end = time.monotonic() + seconds
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        scratch = Scratch(Path(folder) / "copy")
        kept = Path(folder) if keep is None else keep
        kept.mkdir(parents=True, exist_ok=True)
        files = files_of(suite)
        random.Random(seed).shuffle(files)
        started = time.monotonic()
        executed = trace(scratch, files, TRACED[suite], seconds / 2, kept)
        everything = time.monotonic() - started < seconds / 2
        package = ROOT / "src" / "tractable" / suite
        names = [f"{suite}/{path.name}" for path in sorted(package.glob("*.py"))]
        texts = {name: scratch.text(name) for name in names}
        known: Counter[str] = Counter()
        for mutant in sample(suite, texts, seed):
            if time.monotonic() > end or len(results) >= number:
                break
            if not everything and not executed.of(mutant.file, mutant.line, mutant.last):
                continue
            results.append(judge(scratch, mutant, texts[mutant.file], executed, known))
            sys.stderr.write(f"{results[-1]}\n")
        _trust(scratch, results)
    return results


def _trust(scratch: Scratch, results: list[dict[str, Any]]) -> None:
    """Forget what tests noticed that fail without any change, too."""
    tests = sorted({r["noticed_by"] for r in results if "::" in (r["noticed_by"] or "")})
    if not tests:
        return
    failing = set(scratch.pytest(tests, 1200, first_failure=False).failed)
    for result in results:
        if result["noticed_by"] in failing:
            result.update(noticed_by=None, incomplete=True)
