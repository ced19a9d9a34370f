"""Which tests execute which lines of the package."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from tests.faults.trial import PACKAGE, ROOT, Scratch


class Tracer:
    """Record the lines of some subpackages that each test executes.

    Args:
        folder: the scratch copy.
        subpackages: names of the subpackages.
        output: file to write the lines to, as JSON.
    """

    def __init__(self, folder: Path, subpackages: tuple[str, ...], output: Path) -> None:
        self.roots = tuple(f"{folder / PACKAGE / name}/" for name in subpackages)
        self.strip = len(f"{folder / PACKAGE}/")
        self.output = output
        self.files: dict[str, str | None] = {}
        self.lines: dict[str, set[tuple[str, int]]] = {}
        self.now: set[tuple[str, int]] = set()

    def on_test(self, test: str) -> None:
        """Attribute what follows to a test."""
        self.now = self.lines.setdefault(test, set())
        sys.settrace(self.enter)

    def enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Trace the lines of functions of the chosen subpackages only."""
        path = frame.f_code.co_filename
        if path not in self.files:
            self.files[path] = path[self.strip :] if path.startswith(self.roots) else None
        file = self.files[path]
        if file is None:
            return None
        now = self.now
        now.add((file, frame.f_lineno))

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            now.add((file, frame.f_lineno))
            return line

        return line

    def save(self) -> None:
        """Write the lines of every test."""
        sys.settrace(None)
        self.output.write_text(json.dumps({test: sorted(at) for test, at in self.lines.items()}))


@dataclass
class Executed:
    """Tests by line, with the seconds each of them takes."""

    tests: dict[tuple[str, int], list[str]]
    seconds: dict[str, float]

    def of(self, file: str, first: int, last: int) -> list[str]:
        """Return the tests that execute any of the lines, the fastest first."""
        found = {t for line in range(first, last + 1) for t in self.tests.get((file, line), [])}
        return sorted(found, key=lambda test: self.seconds.get(test, 0.0))

    def of_file(self, file: str) -> list[str]:
        """Return the tests that execute any line of a file, the fastest first."""
        found = {t for (name, _), tests in self.tests.items() if name == file for t in tests}
        return sorted(found, key=lambda test: self.seconds.get(test, 0.0))


def trace(
    scratch: Scratch, tests: list[str], subpackages: tuple[str, ...], seconds: float, kept: Path
) -> Executed:
    """Run the test files one by one, until the time is over, and return what they execute.

    Args:
        scratch: the copy.
        tests: test files.
        subpackages: names of the subpackages of interest.
        seconds: time limit.
        kept: folder in which the lines of each test file are kept for the next run.
    """
    by_line: dict[tuple[str, int], list[str]] = {}
    durations: dict[str, float] = {}
    left = seconds
    for file in tests:
        output = kept / f"{_key(file, subpackages)}.json"
        if not output.is_file():
            if left <= 0:
                continue
            lines = kept / "lines.json"
            lines.unlink(missing_ok=True)
            tracer = partial(Tracer, scratch.folder, subpackages, lines)
            run = scratch.pytest([file], max(left, 10), first_failure=False, trace=tracer)
            left -= run.seconds
            if not lines.is_file():
                continue
            found = {"lines": json.loads(lines.read_text()), "seconds": run.durations}
            output.write_text(json.dumps({**found, "failed": run.failed}))
        found = json.loads(output.read_text())
        durations.update(found["seconds"])
        for test, at in found["lines"].items():
            if test in found["failed"]:
                continue  # only with the tracer, or without data: it cannot judge a mutant
            for name, line in at:
                by_line.setdefault((name, line), []).append(test)
    return Executed(by_line, durations)


def _key(file: str, subpackages: tuple[str, ...]) -> str:
    """Return a name that changes with the test file and with the subpackages."""
    digest = hashlib.sha256((ROOT / file).read_bytes())
    for name in subpackages:
        for path in sorted((ROOT / PACKAGE / name).glob("*.py")):
            digest.update(path.read_bytes())
    return f"{file.replace('/', '-')}.{digest.hexdigest()[:12]}"
