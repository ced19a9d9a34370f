"""``tractable list`` and ``tractable run``: the installed studies.

Studies are found by the entry points ``tractable.studies``.  Each names an object with a title, a
source and a ``main``; listing them imports no study.
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


class StudyEntry(Protocol):
    """The object named by an entry point."""

    @property
    def title(self) -> str:
        """What the study shows, in one line."""

    @property
    def source(self) -> str:
        """Table or figure of a paper that the study reproduces."""

    def main(self) -> Callable[[Sequence[str]], Path | None]:
        """Return the function that runs the study and returns the path of the results."""


def names() -> list[str]:
    """Return the names of the installed studies."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def find(name: str) -> StudyEntry:
    """Return a study by its name.

    Raises:
        UsageError: there is no such study; the message suggests similar names.
    """
    known = {entry.name: entry for entry in entry_points(group=GROUP)}
    if not known:
        raise UsageError(NONE)
    if name not in known:
        raise unknown_name("study", name, sorted(known))
    found: StudyEntry = known[name].load()
    return found


def show(json: bool) -> None:
    """Print the installed studies."""
    entries = {name: find(name) for name in names()}
    if json:
        output.print_json(
            [{"name": n, "title": e.title, "source": e.source} for n, e in entries.items()]
        )
    elif entries:
        rows = [[name, entry.title, entry.source] for name, entry in entries.items()]
        output.print_table(["name", "title", "source"], rows)
    else:
        output.print_line(NONE)


def run(name: str, argv: Sequence[str], json: bool) -> None:
    """Run a study with its arguments.

    With ``json``, the study prints to standard error, and the results to standard output.
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


def _results(name: str, study: StudyEntry, argv: Sequence[str], *, aside: bool) -> Path | None:
    from tractable.data import DataNotFound

    where = contextlib.redirect_stdout(sys.stderr) if aside else contextlib.nullcontext()
    try:
        with where:
            return study.main()(argv)
    except DataNotFound as error:
        raise CommandError(str(error).splitlines()[0] + " See `tractable info`.") from error
    except ImportError as error:
        raise CommandError(
            f"{name} needs a package that is not installed: {one_line(error)}"
        ) from error
