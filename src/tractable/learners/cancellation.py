"""How work in other threads learns that it should stop."""

from __future__ import annotations

from contextvars import ContextVar
from threading import Event

cancelled: ContextVar[Event | None] = ContextVar("cancelled", default=None)


class Cancelled(RuntimeError):
    """Training was stopped because a training next to it failed or was interrupted."""


def stop_if_cancelled() -> None:
    """Raise if whoever started this thread wants it to end."""
    event = cancelled.get()
    if event is not None and event.is_set():
        raise Cancelled("stopped, because another of the trainings run together ended early")
