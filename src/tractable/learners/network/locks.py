"""Locks of learners: one thread at a time changes or reads a state.

A process that is forked while a thread holds a lock has the lock but not the thread, so every lock
is replaced in the child.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Locked(Protocol):
    """An object with a lock, which a forked child process replaces."""

    lock: threading.RLock


_locked: weakref.WeakSet[Locked] = weakref.WeakSet()


def new_lock(owner: Locked) -> threading.RLock:
    """Return a lock for an object; it is replaced in forked child processes."""
    _locked.add(owner)
    return threading.RLock()


def _renew() -> None:
    for owner in list(_locked):
        owner.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
