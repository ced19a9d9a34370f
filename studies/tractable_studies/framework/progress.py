"""Progress of a study: a progress bar, and a line after every part."""

from __future__ import annotations

from typing import Any

from tractable.cli.output import print_line
from tractable.training.progress import Progress


class PartsProgress:
    """Progress of the parts of a study.

    Args:
        total: number of parts.
        parts: name of the parts, in plural.
        done: number of parts finished by an earlier run.
        bar: whether to show a progress bar; False if the parts show their own.
    """

    def __init__(self, total: int, parts: str, done: int = 0, *, bar: bool = True) -> None:
        self.total, self.parts, self.done = total, parts, done
        self._bar = Progress(total - done, parts, None if bar else False)

    def __enter__(self) -> PartsProgress:
        """Start the progress bar."""
        self._bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """End the progress bar."""
        self._bar.__exit__(*error)

    def step(self, text: str) -> None:
        """Count a finished part and print a line."""
        self.done += 1
        self._bar.advance()
        print_line(f"{text} ({self.done} of {self.total} {self.parts})")
