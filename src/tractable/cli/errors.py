"""Errors a user sees: one line that says what was given and what is wanted."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from difflib import get_close_matches

from tractable.errors import TractableError

BAD_USE, FAILED, INTERRUPTED = 2, 1, 130
"""Exit codes."""


class UsageError(TractableError):
    """What the user gave cannot be used: an option, a file, a folder.  Exit code 2."""


class CommandError(TractableError):
    """What was given is right, and the work could not be done.  Exit code 1."""


def one_line(error: BaseException) -> str:
    """The message of an error without line breaks; its kind if it has none."""
    return " ".join(str(error).split()) or type(error).__name__


def unknown_name(what: str, given: str, known: Iterable[str]) -> UsageError:
    """An error that suggests the nearest names.

    >>> str(unknown_name("learner", "tagy", ["tagi", "bbb", "net"]))
    "no learner 'tagy': did you mean 'tagi'?"
    """
    names = list(known)
    folded = {name.lower(): name for name in names}
    near = [folded[n] for n in get_close_matches(given.lower(), folded, n=3, cutoff=0.5)]
    if near:
        return UsageError(f"no {what} {given!r}: did you mean {' or '.join(map(repr, near))}?")
    shown = ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")
    return UsageError(f"no {what} {given!r}: there are {shown or 'none'}")


def report_error(error: Exception) -> int:
    """Write one line about an error to standard error and return the exit code."""
    message = getattr(error, "format_message", None)  # of errors in the command line itself
    if message is not None:
        text, code = message(), BAD_USE
    elif isinstance(error, UsageError):
        text, code = one_line(error), BAD_USE
    elif type(error).__name__ == "Abort":
        text, code = "interrupted", INTERRUPTED
    else:
        kind = type(error).__name__
        plain = isinstance(error, OSError | ValueError | CommandError)
        text, code = one_line(error), FAILED
        text = text if plain else f"{kind}: {text}"
    sys.stderr.write(f"error: {' '.join(text.split())}\n")
    return code
