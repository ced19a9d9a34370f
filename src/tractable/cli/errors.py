"""Errors of the command line, printed in one line."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from tractable.errors import TractableError, close_names

BAD_USE, FAILED, INTERRUPTED = 2, 1, 130
"""Exit codes."""


class UsageError(TractableError):
    """Invalid option, file or folder; exit code 2."""


class CommandError(TractableError):
    """The command failed with valid input; exit code 1."""


def one_line(error: BaseException) -> str:
    """Return the message of an error without line breaks; its class name if it is empty."""
    return " ".join(str(error).split()) or type(error).__name__


def unknown_name(what: str, given: str, known: Iterable[str]) -> UsageError:
    """Return an error that suggests similar names.

    >>> str(unknown_name("learner", "tagy", ["tagi", "bbb", "net"]))
    "no learner 'tagy': did you mean 'tagi'?"
    """
    return UsageError(f"no {what} {given!r}: {suggestion(given, known)}")


def suggestion(given: str, known: Iterable[str]) -> str:
    """Return the end of an error message: similar names, or all of them.

    >>> suggestion("tagy", ["tagi", "bbb"]), suggestion("adam", ["tagi", "bbb"])
    ("did you mean 'tagi'?", "choose from 'tagi', 'bbb'")
    """
    names = list(known)
    near = close_names(given, names)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    shown = ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")
    return f"choose from {shown}" if names else "there are none"


def report_error(error: Exception) -> int:
    """Print an error to standard error in one line; return the exit code."""
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
