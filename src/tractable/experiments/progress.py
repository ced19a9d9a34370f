"""How far a long experiment is, and how long it will still take."""

from __future__ import annotations

import time


def say(text: str) -> None:
    """Print a line at once, even into a file."""
    print(text, flush=True)


class Countdown:
    """Says after every part of the work how many are done and how much time is left.

    The estimate supposes that the parts to come take as long as the mean of those done by this
    run.

    Args:
        total: parts in all.
        parts: what they are called.
        done: parts that an earlier run did.
        spent: seconds already spent on the part under way.
    """

    def __init__(self, total: int, parts: str, done: int = 0, spent: float = 0.0) -> None:
        self.total, self.parts = total, parts
        self.done = self._first = done
        self._started = time.monotonic() - spent

    @property
    def left(self) -> float:
        """Seconds left; 0 before the first part is done."""
        own = self.done - self._first
        if not own:
            return 0.0
        return (time.monotonic() - self._started) / own * (self.total - self.done)

    def step(self, text: str) -> None:
        """One more part is done."""
        self.done += 1
        rest = f", {duration(self.left)} left" if self.done < self.total else ""
        say(f"{text} ({self.done} of {self.total} {self.parts}{rest})")


def duration(seconds: float) -> str:
    """Words for a time.

    >>> duration(42), duration(600), duration(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
