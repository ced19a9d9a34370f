"""``tractable run``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from tractable.cli import output
from tractable.cli.errors import BadUse, FailedWork, one_line
from tractable.data import DataNotFound
from tractable.experiments import registry
from tractable.experiments.record import latest


def run(name: str, argv: Sequence[str], json: bool) -> None:
    """Run an experiment with its own arguments.

    With ``json``, what the experiment prints goes to standard error, and the results to standard
    output.
    """
    try:
        entry = registry.find(name)
    except registry.UnknownExperiment as error:
        raise BadUse(str(error)) from error
    aside = contextlib.redirect_stdout(sys.stderr) if json else contextlib.nullcontext()
    try:
        with aside:
            entry.main()(argv)
    except DataNotFound as error:
        raise FailedWork(str(error).splitlines()[0] + " `tractable info` says more.") from error
    except ImportError as error:
        raise FailedWork(f"{name} needs more than is installed: {one_line(error)}") from error
    path = latest()
    if path is None:
        return
    page = path.with_name("report.html")
    if json:
        output.as_json(
            {"results": str(path), "report": str(page) if page.is_file() else None} | _content(path)
        )
    elif page.is_file():
        output.say(f"report: {page}")


def _content(path: Path) -> dict[str, object]:
    import json as json_format

    content: dict[str, object] = json_format.loads(path.read_text(encoding="utf-8"))
    return content
