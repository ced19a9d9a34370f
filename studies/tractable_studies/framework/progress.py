"""How far a study is: the bar of ``tractable.training.progress``, and a line after every part."""

from __future__ import annotations

from typing import Any

from tractable.cli.output import print_line
from tractable.training.progress import Progress


class Parts:
    """The parts of a study: a bar with the time left on a terminal, and a line for each.

    Args:
        total: parts in all.
        parts: what they are called.
        done: parts that an earlier run did.
        bar: whether there is a bar; not where the parts show one of their own.
    """

    def __init__(self, total: int, parts: str, done: int = 0, *, bar: bool = True) -> None:
        self.total, self.parts, self.done = total, parts, done
        self._bar = Progress(total - done, parts, None if bar else False)

    def __enter__(self) -> Parts:
        """Start the bar."""
        self._bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """End the bar."""
        self._bar.__exit__(*error)

    def step(self, text: str) -> None:
        """One more part is done."""
        self.done += 1
        self._bar.advance()
        print_line(f"{text} ({self.done} of {self.total} {self.parts})")
