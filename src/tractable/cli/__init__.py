"""The command ``tractable``: list and run studies, report, fit and predict on CSV files."""

import sys

__all__ = ["main"]


def main() -> None:
    """The entry point; says which extra is missing rather than failing on an import."""
    try:
        from tractable.cli.app import app
    except ModuleNotFoundError as error:
        sys.stderr.write(f"error: no module {error.name}: pip install 'tractable[cli]'\n")
        sys.exit(1)
    app(prog_name="tractable")
