"""A progress bar for long work: rich when it is installed, else a line per epoch."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any


class Progress:
    """A progress bar on standard error, with the remaining time and the newest metrics.

    Args:
        total: total number of batches.
        label: text before the bar.
        show: whether to show the bar. None: on a terminal only.
    """

    def __init__(self, total: int, label: str, show: bool | None) -> None:
        self.total, self.label = total, label
        self.show = sys.stderr.isatty() if show is None else show
        self._bar: Any = None
        self._task: Any = None
        self._pending = 0
        self._last = 0.0

    def __enter__(self) -> Progress:
        """Start the bar."""
        if self.show:
            self._bar = _rich_bar()
            if self._bar is not None:
                self._bar.start()
                self._task = self._bar.add_task(self.label, total=self.total, metrics="")
        return self

    def advance(self, batches: int = 1) -> None:
        """Count finished batches; the bar is redrawn a few times per second.

        Args:
            batches: number of batches finished since the last call.
        """
        if self._bar is None:
            return
        self._pending += batches
        now = time.monotonic()
        if now - self._last > 0.2:
            self._bar.advance(self._task, self._pending)
            self._pending, self._last = 0, now

    def report(self, record: dict[str, float]) -> None:
        """Show the metrics of an epoch.

        Args:
            record: metrics by name.
        """
        if not self.show:
            return
        metrics = "  ".join(f"{k} {v:.4g}" for k, v in record.items())
        if self._bar is not None:
            self._bar.update(self._task, metrics=metrics)
        else:
            sys.stderr.write(f"{self.label}: {metrics}\n")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Finish the bar and restore the terminal."""
        if self._bar is not None:
            self._bar.advance(self._task, self._pending)
            self._bar.stop()


def _rich_bar() -> Any:
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as RichProgress
    except ImportError:
        return None
    return RichProgress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[metrics]}"),
        console=Console(stderr=True),
    )
