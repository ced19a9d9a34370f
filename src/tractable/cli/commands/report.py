"""``tractable report``."""

from __future__ import annotations

from pathlib import Path

from tractable.cli import output
from tractable.cli.errors import UsageError
from tractable.cli.folder import write_problem
from tractable.report import InvalidResults, find_results, write_index, write_report


def report(folder: Path, json: bool) -> None:
    """Write the pages of the runs below a folder, and an index page."""
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is a file, expected a folder" if folder.exists() else f"no folder {folder}"
        )
    problem = write_problem(folder)
    if problem:
        raise UsageError(problem)
    try:
        runs = find_results(folder)
    except InvalidResults as error:
        raise UsageError(str(error)) from error
    if not runs:
        raise UsageError(
            f"no results below {folder}: expected results.json files, as written by "
            f"`tractable run` and `tractable fit`"
        )
    for run in runs:
        if run.path.name == "results.json":
            write_report(run.results, run.path.parent)
    page = write_index(folder, runs)
    if json:
        output.print_json({"index": str(page), "runs": [str(run.path) for run in runs]})
    else:
        output.print_line(f"{len(runs)} runs: {page}")
