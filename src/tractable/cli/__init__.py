"""The command ``tractable``: models of tables and time series, reports, and studies."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command; if a package is missing, print which extra to install."""
    try:
        from tractable.cli.app import app
    except ModuleNotFoundError as error:
        sys.stderr.write(f"error: no module {error.name}: pip install 'tractable[cli]'\n")
        sys.exit(1)
    app(prog_name="tractable")
