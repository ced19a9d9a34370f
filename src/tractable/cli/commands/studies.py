"""``tractable list`` and ``tractable run``: the studies that are installed, if any are.

They are found by the entry points ``tractable.studies``, each of which names an object with a
title, a source and a ``main``; looking at them imports no study.
"""

from __future__ import annotations

import contextlib
import json as json_format
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from tractable.cli import output
from tractable.cli.errors import CommandError, UsageError, one_line, unknown_name

GROUP = "tractable.studies"
NONE = (
    "no studies are installed: in a checkout of the repository, `make demo` or `make test` sets "
    "them up, or `pip install --editable ./studies` does"
)


class Study(Protocol):
    """What an entry point names."""

    @property
    def title(self) -> str:
        """What it shows, in one line."""

    @property
    def source(self) -> str:
        """Which table or figure of which paper."""

    def main(self) -> Callable[[Sequence[str]], Path | None]:
        """Runs it with its own arguments; gives the path of the results."""


def names() -> list[str]:
    """The studies that are installed."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def find(name: str) -> Study:
    """The study of this name.

    Raises:
        UsageError: there is none; the message suggests the nearest names.
    """
    known = {entry.name: entry for entry in entry_points(group=GROUP)}
    if not known:
        raise UsageError(NONE)
    if name not in known:
        raise unknown_name("study", name, sorted(known))
    found: Study = known[name].load()
    return found


def show(json: bool) -> None:
    """All studies that are installed."""
    entries = {name: find(name) for name in names()}
    if json:
        output.print_json(
            [{"name": n, "title": e.title, "source": e.source} for n, e in entries.items()]
        )
    elif entries:
        rows = [[name, entry.title, entry.source] for name, entry in entries.items()]
        output.print_table(["name", "shows", "of"], rows)
    else:
        output.print_line(NONE)


def run(name: str, argv: Sequence[str], json: bool) -> None:
    """Run a study with its own arguments.

    With ``json``, what the study prints goes to standard error, and the results to standard output.
    """
    study = find(name)
    path = _results(name, study, argv, aside=json)
    if path is None:
        return
    page = path.with_name("report.html")
    if json:
        content = json_format.loads(path.read_text(encoding="utf-8"))
        report = str(page) if page.is_file() else None
        output.print_json({"results": str(path), "report": report, **content})
    elif page.is_file():
        output.print_line(f"report: {page}")


def _results(name: str, study: Study, argv: Sequence[str], *, aside: bool) -> Path | None:
    from tractable.data import DataNotFound

    where = contextlib.redirect_stdout(sys.stderr) if aside else contextlib.nullcontext()
    try:
        with where:
            return study.main()(argv)
    except DataNotFound as error:
        raise CommandError(str(error).splitlines()[0] + " `tractable info` says more.") from error
    except ImportError as error:
        raise CommandError(f"{name} needs more than is installed: {one_line(error)}") from error
