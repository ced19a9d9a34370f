"""Which tests execute which lines of the package."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

Lines = set[tuple[str, int]]


class Tracer:
    """Record the executed lines of a subpackage.

    Args:
        package: folder of the package.
        subpackage: name of the subpackage.
    """

    def __init__(self, package: Path, subpackage: str) -> None:
        self.root = f"{package / subpackage}/"
        self.strip = len(f"{package}/")
        self.files: dict[str, str | None] = {}
        self.lines: Lines = set()

    def __enter__(self) -> Lines:
        self.lines = set()
        sys.settrace(self.enter)
        return self.lines

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Trace the lines of functions of the subpackage only."""
        path = frame.f_code.co_filename
        if path not in self.files:
            self.files[path] = path[self.strip :] if path.startswith(self.root) else None
        file = self.files[path]
        if file is None:
            return None
        lines = self.lines
        lines.add((file, frame.f_lineno))

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            lines.add((file, frame.f_lineno))
            return line

        return line


@dataclass
class Executed:
    """Tests by the lines they execute, with the seconds each of them takes.

    Attributes:
        tests: numbers of tests by file and line.
        seconds: duration of each test.
        failed: tests that fail without a mutant.
        complete: whether all tests were run.
    """

    tests: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    failed: list[int] = field(default_factory=list)
    complete: bool = True

    def add(self, test: int, lines: Lines, seconds: float, failed: bool) -> None:
        """Add a test that was run."""
        self.seconds[test] = seconds
        if failed:
            self.failed.append(test)
            return
        for at in lines:
            self.tests.setdefault(at, []).append(test)

    def of(self, file: str, first: int, last: int) -> list[int]:
        """Return the tests that execute any of the lines, the fastest first."""
        found = {t for line in range(first, last + 1) for t in self.tests.get((file, line), [])}
        return sorted(found, key=lambda test: self.seconds[test])

    def of_file(self, file: str) -> list[int]:
        """Return the tests that execute any line of a file, the fastest first."""
        found = {t for (name, _), tests in self.tests.items() if name == file for t in tests}
        return sorted(found, key=lambda test: self.seconds[test])
