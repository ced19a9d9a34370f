"""The outermost command: every error is one line on standard error, with the right exit code."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from typing import Any

from typer.core import TyperGroup

from tractable.cli.errors import BadUse, one_line

BAD_USE, FAILED, INTERRUPTED = 2, 1, 130


class OneLineErrors(TyperGroup):
    """A group of commands that never shows a traceback, unless asked with ``--debug``."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command; leaves with 0, 1 (failed work) or 2 (bad use)."""
        words = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(words, prog_name, complete_var, False, windows_expand_args, **extra)
        except Exception as error:
            if "--debug" in words:
                traceback.print_exception(error, file=sys.stderr)
            code = _tell(error)
        sys.exit(code if isinstance(code, int) else 0)


def _tell(error: Exception) -> int:
    """Write one line about an error and return the exit code."""
    message = getattr(error, "format_message", None)  # of errors in the command line itself
    if message is not None:
        text, code = message(), BAD_USE
    elif isinstance(error, BadUse):
        text, code = one_line(error), BAD_USE
    elif type(error).__name__ == "Abort":
        text, code = "interrupted", INTERRUPTED
    else:
        kind = type(error).__name__
        plain = isinstance(error, OSError | ValueError) or kind == "FailedWork"
        text, code = one_line(error), FAILED
        text = text if plain else f"{kind}: {text}"
    sys.stderr.write(f"error: {' '.join(text.split())}\n")
    return code
